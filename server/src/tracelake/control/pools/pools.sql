-- name: ensure
INSERT INTO worker_pool (id, org_id, runtime, name) VALUES (%(id)s, %(org)s, %(runtime)s, %(name)s) ON CONFLICT DO NOTHING

-- name: find
SELECT id FROM worker_pool WHERE org_id = %(org)s AND runtime = %(runtime)s AND name = %(name)s

-- name: orgs
SELECT id FROM org ORDER BY id

-- name: names
SELECT DISTINCT name FROM worker_pool WHERE org_id = %(org)s ORDER BY name
