-- name: caller_of_token
SELECT token.org_id, org.name AS org, token.kind, coalesce(app_user.name, token.label) AS name, token.scopes, token.pools,
       coalesce((SELECT array_agg(role.name) FROM role_member JOIN role ON role.id = role_member.role_id WHERE role_member.user_id = token.user_id), '{}') AS roles
FROM api_token AS token
JOIN org ON org.id = token.org_id
LEFT JOIN app_user ON app_user.id = token.user_id
WHERE token.sha256 = %(sha256)s AND token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > now())
  AND app_user.disabled_at IS NULL

-- name: caller_of_subject
SELECT app_user.org_id, org.name AS org, 'user'::token_kind AS kind, app_user.name, '{}'::text[] AS scopes, NULL::text[] AS pools,
       coalesce((SELECT array_agg(role.name) FROM role_member JOIN role ON role.id = role_member.role_id WHERE role_member.user_id = app_user.id), '{}') AS roles
FROM app_user
JOIN org ON org.id = app_user.org_id
WHERE app_user.issuer = %(issuer)s AND app_user.subject = %(subject)s AND app_user.disabled_at IS NULL

-- name: lock_first_start
SELECT pg_advisory_xact_lock(hashtextextended('tracelake first start', 0))

-- name: has_org
SELECT EXISTS (SELECT 1 FROM org)

-- name: add_org
INSERT INTO org (id, name) VALUES (%(id)s, %(name)s)

-- name: add_user
INSERT INTO app_user (id, org_id, name, issuer, subject) VALUES (%(id)s, %(org)s, %(name)s, %(issuer)s, %(subject)s)

-- name: add_role
INSERT INTO role (id, org_id, name) VALUES (%(id)s, %(org)s, %(name)s)

-- name: add_member
INSERT INTO role_member (role_id, user_id) SELECT role.id, %(user)s FROM role WHERE role.org_id = %(org)s AND role.name = %(role)s

-- name: add_token
INSERT INTO api_token (id, org_id, kind, user_id, label, sha256, scopes, pools)
VALUES (%(id)s, %(org)s, %(kind)s::token_kind, %(user)s, %(label)s, %(sha256)s, %(scopes)s, %(pools)s)

-- name: append_audit
INSERT INTO audit (id, org_id, actor, action, object, detail)
VALUES (%(id)s, %(org)s, %(actor)s, %(action)s, %(object)s, %(detail)s::jsonb)
