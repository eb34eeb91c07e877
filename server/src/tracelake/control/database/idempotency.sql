-- name: known
SELECT key, body_sha256, id FROM idempotency WHERE org_id = %(org)s AND kind = %(kind)s AND key = ANY(%(keys)s::bytea[])

-- name: remember
INSERT INTO idempotency (org_id, kind, key, body_sha256, id)
SELECT %(org)s, %(kind)s, * FROM unnest(%(keys)s::bytea[], %(bodies)s::bytea[], %(ids)s::uuid[])

-- name: remember_first
INSERT INTO idempotency (org_id, kind, key, body_sha256, id) VALUES (%(org)s, %(kind)s, %(key)s, %(body)s, %(id)s)
ON CONFLICT DO NOTHING
RETURNING id
