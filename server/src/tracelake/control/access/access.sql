-- name: caller_of_token
SELECT token.org_id, org.name AS org, org.operates, token.kind, coalesce(app_user.name, token.label) AS name, token.scopes, token.pools, token.user_id,
       CASE WHEN token.kind = 'service' THEN token.id END AS token_id,
       ARRAY(SELECT role.name FROM role WHERE role.id IN (
           SELECT role_id FROM role_member WHERE user_id = token.user_id UNION ALL SELECT role_id FROM token_role WHERE token_id = token.id
       )) AS roles
FROM api_token AS token
JOIN org ON org.id = token.org_id
LEFT JOIN app_user ON app_user.id = token.user_id
WHERE (token.sha256 = %(sha256)s OR token.id = %(id)s) AND token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > now())
  AND app_user.disabled_at IS NULL AND org.disabled_at IS NULL

-- name: caller_of_user
SELECT app_user.org_id, org.name AS org, org.operates, 'user'::token_kind AS kind, app_user.name, '{}'::text[] AS scopes, NULL::text[] AS pools, app_user.id AS user_id,
       NULL::uuid AS token_id,
       ARRAY(SELECT role.name FROM role_member JOIN role ON role.id = role_member.role_id WHERE role_member.user_id = app_user.id) AS roles
FROM app_user
JOIN org ON org.id = app_user.org_id
WHERE app_user.disabled_at IS NULL AND org.disabled_at IS NULL
  AND (app_user.id = %(id)s OR (app_user.issuer = %(issuer)s AND app_user.subject = %(subject)s AND app_user.org_id = (
      SELECT meant.id FROM org AS meant WHERE CASE WHEN %(org)s::text IS NULL THEN meant.operates ELSE meant.name = %(org)s END
  )))

-- name: lock_first_start
SELECT pg_advisory_xact_lock(hashtextextended('tracelake first start', 0))

-- name: has_org
SELECT EXISTS (SELECT 1 FROM org)

-- name: add_org
-- The first one operates the installation.
INSERT INTO org (id, name, operates) VALUES (%(id)s, %(name)s, NOT EXISTS (SELECT 1 FROM org))

-- name: orgs
SELECT id, name, created_at, disabled_at, operates FROM org WHERE %(after)s::uuid IS NULL OR id > %(after)s ORDER BY id LIMIT %(limit)s

-- name: find_org
SELECT id, name, created_at, disabled_at, operates FROM org WHERE name = %(name)s

-- name: disable_org
UPDATE org SET disabled_at = now() WHERE id = %(org)s

-- name: enable_org
UPDATE org SET disabled_at = NULL WHERE id = %(org)s

-- name: add_user
INSERT INTO app_user (id, org_id, name, issuer, subject) VALUES (%(id)s, %(org)s, %(name)s, %(issuer)s, %(subject)s)

-- name: add_role
INSERT INTO role (id, org_id, name) VALUES (%(id)s, %(org)s, %(name)s) ON CONFLICT (org_id, name) DO NOTHING RETURNING id

-- name: add_member
INSERT INTO role_member (role_id, user_id) SELECT role.id, %(user)s FROM role WHERE role.org_id = %(org)s AND role.name = %(role)s
ON CONFLICT DO NOTHING

-- name: remove_member
DELETE FROM role_member USING role WHERE role.id = role_member.role_id AND role.org_id = %(org)s AND role.name = %(role)s AND role_member.user_id = %(user)s

-- name: add_token
WITH added AS (
    INSERT INTO api_token (id, org_id, kind, user_id, label, sha256, scopes, pools, expires_at)
    VALUES (%(id)s, %(org)s, %(kind)s::token_kind, %(user)s, %(label)s, %(sha256)s, %(scopes)s, %(pools)s, %(expires_at)s::timestamptz)
    RETURNING id
)
INSERT INTO token_role (token_id, role_id)
SELECT added.id, role.id FROM added, role WHERE role.org_id = %(org)s AND role.name = ANY(%(roles)s::text[])

-- name: append_audit
INSERT INTO audit (id, org_id, actor, action, object, detail)
VALUES (%(id)s, %(org)s, %(actor)s, %(action)s, %(object)s, %(detail)s::jsonb)

-- name: lock_access
-- A separate statement: one change of permissions at a time in an org, so that its last admin cannot be removed.
SELECT pg_advisory_xact_lock(hashtextextended('access ' || %(org)s::uuid, 0))

-- name: users
SELECT app_user.id, app_user.name, app_user.issuer, app_user.subject, app_user.created_at, app_user.disabled_at,
       ARRAY(SELECT role.name FROM role_member JOIN role ON role.id = role_member.role_id WHERE role_member.user_id = app_user.id ORDER BY role.name) AS roles
FROM app_user
WHERE app_user.org_id = %(org)s AND (%(name)s::text IS NULL OR app_user.name = %(name)s) AND (%(after)s::uuid IS NULL OR app_user.id > %(after)s)
ORDER BY app_user.id LIMIT %(limit)s

-- name: identity_taken
SELECT EXISTS (SELECT 1 FROM app_user WHERE org_id = %(org)s AND issuer = %(issuer)s AND subject = %(subject)s)

-- name: disable_user
UPDATE app_user SET disabled_at = now() WHERE id = %(user)s

-- name: enable_user
UPDATE app_user SET disabled_at = NULL WHERE id = %(user)s

-- name: roles
SELECT role.name, ARRAY(
    SELECT app_user.name FROM role_member JOIN app_user ON app_user.id = role_member.user_id WHERE role_member.role_id = role.id ORDER BY app_user.name
) AS members
FROM role WHERE role.org_id = %(org)s ORDER BY role.name

-- name: role_ids
SELECT name, id FROM role WHERE org_id = %(org)s AND name = ANY(%(names)s::text[])

-- name: other_admins
-- The other admins that are not disabled.
SELECT count(*) FROM role_member JOIN role ON role.id = role_member.role_id JOIN app_user ON app_user.id = role_member.user_id
WHERE role.org_id = %(org)s AND role.name = 'admin' AND app_user.disabled_at IS NULL AND app_user.id <> %(user)s

-- name: tokens
SELECT token.id, token.kind, token.label, app_user.name AS user, token.scopes, token.pools, token.created_at, token.expires_at, token.revoked_at,
       ARRAY(SELECT role.name FROM token_role JOIN role ON role.id = token_role.role_id WHERE token_role.token_id = token.id ORDER BY role.name) AS roles
FROM api_token AS token LEFT JOIN app_user ON app_user.id = token.user_id
WHERE token.org_id = %(org)s AND (%(id)s::uuid IS NULL OR token.id = %(id)s) AND (%(after)s::uuid IS NULL OR token.id > %(after)s)
  AND (%(revoked)s OR token.revoked_at IS NULL)
ORDER BY token.id LIMIT %(limit)s

-- name: revoke_token
UPDATE api_token SET revoked_at = now() WHERE id = %(token)s AND revoked_at IS NULL

-- name: audit
SELECT id, at, actor, action, object, detail FROM audit
WHERE org_id = %(org)s AND (%(before)s::uuid IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s
