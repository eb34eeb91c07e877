-- name: begin_run
-- By the stored end of the last run. The lease only saves other processes the same work.
UPDATE compaction SET held_until = now() + %(hold)s::interval
WHERE (ended_at IS NULL OR ended_at <= now() - %(every)s::interval) AND (held_until IS NULL OR held_until <= now())
RETURNING one

-- name: end_run
UPDATE compaction SET ended_at = now(), held_until = NULL

-- name: partitions
SELECT leaf.relname AS name, substring(leaf.relname FROM '^metadata_record_(.+)_[0-9]{8}$') AS retention_class,
       bounds[1]::uuid AS first_id, bounds[2]::uuid AS below_id, coalesce(record_partition_leaves_at(leaf.relname) <= now(), false) AS leaves
FROM pg_inherits AS of_root
JOIN pg_inherits AS of_class ON of_class.inhparent = of_root.inhrelid
JOIN pg_class AS leaf ON leaf.oid = of_class.inhrelid
CROSS JOIN LATERAL regexp_match(pg_get_expr(leaf.relpartbound, leaf.oid), $$FROM \('([0-9a-f-]+)'\) TO \('([0-9a-f-]+)'\)$$) AS bounds
WHERE of_root.inhparent = 'metadata_record'::regclass
ORDER BY leaf.relname

-- name: seal
SELECT seal_record_partition(%(name)s)

-- name: leaving
-- No common snapshot needed: a sealed partition does not change.
SELECT id, org_id, kind, kind_version, target_key, source_id, schema_name, table_name, producer_id, produced_at, quality, job_id, run_id, namespace,
       cluster, workspace, window_start, window_end, dataset_ids, record::text AS record, context::text AS context, stored_at, xid::text AS xid, seq,
       retention_class
FROM metadata_record
WHERE retention_class = %(class)s AND id > %(after)s AND id < %(below)s
ORDER BY id LIMIT %(limit)s

-- name: lock_cold_table
SELECT pg_advisory_xact_lock(hashtextextended('cold records', 0))

-- name: cold_table
SELECT table_id, made_at FROM compaction

-- name: next_delta_version
SELECT coalesce(max(delta_version) + 1, 0) FROM cold_partition

-- name: freeze
INSERT INTO cold_partition (name, delta_version, body, rows, hash, files)
VALUES (%(name)s, %(delta_version)s, %(body)s, %(rows)s, %(hash)s, %(files)s::json)
ON CONFLICT (name) DO NOTHING

-- name: frozen
SELECT name, delta_version, body, rows, hash, files::text AS files, at FROM cold_partition WHERE name = %(name)s

-- name: unput
-- Entries that may not have been put: those of partitions that still exist, in the order of the log.
SELECT name, delta_version, body, rows, hash, files::text AS files, at FROM cold_partition
WHERE to_regclass('public.' || name) IS NOT NULL
ORDER BY delta_version

-- name: note_read_back
INSERT INTO cold_verification (partition_name, rows, hash) VALUES (%(name)s, %(rows)s, %(hash)s) ON CONFLICT (partition_name) DO NOTHING

-- name: drop_partition
SELECT drop_record_partition(%(name)s)

-- name: files
SELECT path, produced_to, first_xid::text AS first_xid, first_seq FROM cold_file
WHERE org_id = %(org)s AND produced_to >= %(produced_from)s::timestamptz AND produced_from <= %(produced_to)s::timestamptz
  AND (%(every_kind)s OR kinds && %(kinds)s::text[])
ORDER BY produced_to DESC, path

-- name: files_in_log
SELECT path, produced_to, first_xid::text AS first_xid, first_seq FROM cold_file
WHERE org_id = %(org)s AND (last_xid, last_seq) > (%(xid)s::xid8, %(seq)s::bigint) AND (%(every_kind)s OR kinds && %(kinds)s::text[])
ORDER BY first_xid, first_seq, path

-- name: log_end
SELECT last_xid::text AS xid, last_seq AS seq FROM cold_file WHERE org_id = %(org)s ORDER BY last_xid DESC, last_seq DESC LIMIT 1

-- name: dropped
SELECT kind, before FROM dropped_span WHERE org_id = %(org)s AND (%(every_kind)s OR kind = ANY(%(kinds)s::text[])) ORDER BY kind
