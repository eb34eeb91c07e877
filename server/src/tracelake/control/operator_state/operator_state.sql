-- name: get
SELECT generation_id, revision, value FROM operator_state WHERE generation_id = ANY(%(generations)s::uuid[])

-- name: revisions
SELECT generation_id, revision FROM operator_state WHERE generation_id = ANY(%(generations)s::uuid[])

-- name: begin
INSERT INTO operator_state (generation_id, revision, value) VALUES (%(generation)s, 1, %(value)s::jsonb) ON CONFLICT DO NOTHING
RETURNING revision

-- name: swap
UPDATE operator_state SET revision = revision + 1, value = %(value)s::jsonb
WHERE generation_id = %(generation)s AND revision = %(revision)s
RETURNING revision
