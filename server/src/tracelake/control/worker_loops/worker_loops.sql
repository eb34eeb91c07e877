-- name: withdraw
-- Also removes rows of workers that stopped reporting.
DELETE FROM failing_loop WHERE (org_id = %(org)s AND worker = %(worker)s) OR reported_at < now() - interval '1 day'

-- name: report
INSERT INTO failing_loop (org_id, worker, loop, code)
SELECT %(org)s, %(worker)s, loop, code FROM unnest(%(loops)s::text[], %(codes)s::text[]) AS failing (loop, code)
ON CONFLICT (org_id, worker, loop) DO UPDATE SET code = excluded.code, reported_at = excluded.reported_at

-- name: failing
SELECT worker, loop, code FROM failing_loop WHERE reported_at > now() - %(within)s::interval ORDER BY worker, loop LIMIT %(most)s
