-- name: tables
-- The tables of versions. They never change.
SELECT version.dataset_id, version.version, version.dataset_version_id, version.org_id, version.table_schema, version.schema_hash,
       coalesce((SELECT job.spec -> 'unique_key' FROM dataset_version AS made JOIN job ON job.generation_id = made.generation_id
                 WHERE made.id = version.dataset_version_id AND job.spec ->> 'update_strategy' = 'append' LIMIT 1), '[]') AS unique_key
FROM unnest(%(datasets)s::uuid[], %(versions)s::bigint[]) AS wanted (dataset_id, version)
JOIN data_version AS version ON version.dataset_id = wanted.dataset_id AND version.version = wanted.version

-- name: files
SELECT path, schema_hash FROM data_file
WHERE dataset_version_id = %(dataset_version)s AND added_version <= %(version)s AND (removed_version IS NULL OR removed_version > %(version)s)
ORDER BY added_place, path

-- name: need_not_survive_a_crash
-- Asynchronous commit: visible at once, on disk a moment later. If a crash of the database loses a pin, its release fails
-- and the query has no result; so queries need not wait for the disk before they open the first file.
SELECT set_config('synchronous_commit', 'off', true)

-- name: take_pin
INSERT INTO pin (id, org_id, caller, user_id, token_id, lease_expires_at)
VALUES (%(id)s, %(org)s, %(caller)s, %(user)s, %(token)s, clock_timestamp() + %(lease)s::interval)

-- name: pin_datasets
INSERT INTO pin_dataset (pin_id, name, dataset_id, dataset_version_id, version)
SELECT %(pin)s, * FROM unnest(%(names)s::text[], %(datasets)s::uuid[], %(dataset_versions)s::uuid[], %(versions)s::bigint[])

-- name: renew
UPDATE pin SET lease_expires_at = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval
WHERE id = ANY(%(pins)s::uuid[]) AND released_at IS NULL AND lease_expires_at > coalesce(%(now)s::timestamptz, clock_timestamp())
RETURNING id

-- name: release
UPDATE pin SET released_at = clock_timestamp()
WHERE id = %(pin)s AND released_at IS NULL AND lease_expires_at > coalesce(%(now)s::timestamptz, clock_timestamp())
RETURNING org_id, caller, user_id, token_id

-- name: drop_pins
-- Released pins, and expired ones.
DELETE FROM pin WHERE id IN (
    SELECT id FROM pin WHERE lease_expires_at <= coalesce(%(now)s::timestamptz, clock_timestamp()) ORDER BY lease_expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
)
RETURNING released_at IS NULL AS expired

-- name: add_run
INSERT INTO query_run (id, org_id, actor, user_id, token_id, sql, sql_sha256, pins, status, error_code, result_hash, left_out, row_count, row_limit,
                       milliseconds, engine_version, replayable, why_not, replay_of)
VALUES (%(id)s, %(org)s, %(actor)s, %(user)s, %(token)s, %(sql)s, %(sql_sha256)s,
        coalesce((SELECT jsonb_agg(jsonb_build_object('name', name, 'dataset_uuid', dataset_id, 'dataset_version', dataset_version_id, 'version', version) ORDER BY name)
                  FROM pin_dataset WHERE pin_id = %(id)s), '[]'),
        %(status)s::query_status, %(error_code)s,
        %(result_hash)s, %(left_out)s, %(row_count)s, %(row_limit)s, %(milliseconds)s, %(engine_version)s, %(replayable)s, %(why_not)s, %(replay_of)s)
RETURNING at

-- name: run_at
SELECT at FROM query_run WHERE id = %(id)s

-- name: runs
SELECT id, actor, user_id, token_id, sql, sql_sha256, pins, status, error_code, result_hash, left_out, row_count, row_limit, milliseconds, engine_version,
       replayable, why_not, replay_of, at
FROM query_run
WHERE org_id = %(org)s AND (%(id)s::uuid IS NULL OR id = %(id)s) AND (%(before)s::uuid IS NULL OR id < %(before)s)
  AND (%(everybody)s OR user_id = %(user)s OR token_id = %(token)s)
ORDER BY id DESC LIMIT %(limit)s

-- name: save
INSERT INTO saved_query (id, org_id, user_id, token_id, name, sql, description)
VALUES (%(id)s, %(org)s, %(user)s, %(token)s, %(name)s, %(sql)s, %(description)s)
ON CONFLICT ON CONSTRAINT saved_once DO UPDATE SET sql = excluded.sql, description = excluded.description, saved_at = clock_timestamp()

-- name: saved
SELECT name, sql, description, saved_at FROM saved_query
WHERE org_id = %(org)s AND (user_id = %(user)s OR token_id = %(token)s) AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY name

-- name: forget
DELETE FROM saved_query WHERE org_id = %(org)s AND (user_id = %(user)s OR token_id = %(token)s) AND name = %(name)s RETURNING name
