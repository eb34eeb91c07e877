-- name: lines
SELECT generation_id, decided, frozen, recorded, stopped_at, stopped_reason, turn_task_id, turn_attempt, reserved_task_id
FROM line WHERE generation_id = ANY(%(generations)s::uuid[])

-- name: current_versions
-- The current version of each table, for pins.
SELECT wanted.id AS dataset_version_id, newest.dataset_id, newest.version, newest.table_schema, newest.row_count
FROM unnest(%(dataset_versions)s::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT version.dataset_id, version.version, version.table_schema, version.row_count FROM data_version AS version
    WHERE version.dataset_version_id = wanted.id ORDER BY version.version DESC LIMIT 1
) AS newest

-- name: schema_of_version
SELECT table_schema FROM data_version WHERE dataset_id = %(dataset)s AND version = %(version)s

-- name: files_of_version
SELECT path, size, rows, scope, key_min, key_max, hashes FROM data_file
WHERE dataset_version_id = %(dataset_version)s AND added_version <= %(version)s AND (removed_version IS NULL OR removed_version > %(version)s)
ORDER BY added_place, path

-- name: files_at_place
-- The files as of a decided place, except those of these scopes.
SELECT path, size, rows, scope, key_min, key_max, hashes FROM data_file
WHERE dataset_version_id = %(dataset_version)s AND added_place <= %(place)s AND (removed_place IS NULL OR removed_place > %(place)s)
  AND NOT span && ANY(%(without)s::scope_span[])
ORDER BY added_place, path

-- name: table_states
-- The table of each output as of the newest decided place.
SELECT wanted.id AS dataset_version_id, newest.place, newest.table_schema, newest.schema_hash, newest.row_count
FROM unnest(%(dataset_versions)s::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT output.place, output.table_schema, output.schema_hash, output.row_count FROM change_output AS output
    WHERE output.dataset_version_id = wanted.id ORDER BY output.place DESC LIMIT 1
) AS newest

-- name: scopes_now
-- The index is searched once for each span: with ANY, every scope of the table would be read.
SELECT DISTINCT ON (state.span) state.scope, state.place
FROM unnest(%(spans)s::scope_span[]) AS wanted (span)
JOIN scope_state AS state ON state.dataset_version_id = %(dataset_version)s AND state.span && wanted.span
ORDER BY state.span

-- name: fingerprints_now
-- Of the changes that wrote the current scopes within these spans.
SELECT DISTINCT ON (state.span) state.scope, output.fingerprint
FROM unnest(%(spans)s::scope_span[]) AS wanted (span)
JOIN scope_state AS state ON state.dataset_version_id = %(dataset_version)s AND state.span && wanted.span
JOIN dataset_version AS version ON version.id = state.dataset_version_id
JOIN change_output AS output
  ON output.generation_id = version.generation_id AND output.place = state.place AND output.dataset_version_id = state.dataset_version_id
ORDER BY state.span

-- name: scopes_since
SELECT scope FROM change_scope WHERE dataset_version_id = %(dataset_version)s AND place > %(base)s ORDER BY place

-- name: added_since
SELECT path, size, rows, scope, key_min, key_max, hashes FROM data_file
WHERE dataset_version_id = %(dataset_version)s AND added_place > %(base)s AND removed_place IS NULL
ORDER BY added_place, path

-- name: removed_since
SELECT path FROM data_file
WHERE dataset_version_id = %(dataset_version)s AND removed_place > %(base)s AND added_place <= %(base)s
ORDER BY path

-- name: to_remove
SELECT DISTINCT file.path, file.size, file.rows
FROM unnest(%(spans)s::scope_span[]) AS wanted (span)
JOIN data_file AS file ON file.dataset_version_id = %(dataset_version)s AND file.removed_place IS NULL AND file.span && wanted.span
ORDER BY file.path

-- name: add_files
INSERT INTO data_file (dataset_version_id, path, scope, span, added_place, size, rows, statistics, schema_hash, seal, key_min, key_max, hashes)
SELECT new.dataset_version_id, new.path, new.scope, new.span, new.place, new.size, new.rows, new.statistics, new.schema_hash, new.seal,
       new.key_min, new.key_max, new.hashes
FROM unnest(
    %(dataset_versions)s::uuid[], %(paths)s::text[], %(scopes)s::jsonb[], %(spans)s::scope_span[], %(places)s::bigint[], %(sizes)s::bigint[],
    %(rows)s::bigint[], %(statistics)s::jsonb[], %(schema_hashes)s::text[], %(seals)s::text[], %(key_mins)s::jsonb[], %(key_maxs)s::jsonb[], %(hashes)s::text[]
) AS new (dataset_version_id, path, scope, span, place, size, rows, statistics, schema_hash, seal, key_min, key_max, hashes)

-- name: remove_files
UPDATE data_file SET removed_place = gone.place
FROM unnest(%(dataset_versions)s::uuid[], %(paths)s::text[], %(places)s::bigint[]) AS gone (dataset_version_id, path, place)
WHERE data_file.dataset_version_id = gone.dataset_version_id AND data_file.path = gone.path

-- name: drop_scopes
DELETE FROM scope_state
USING unnest(%(dataset_versions)s::uuid[], %(spans)s::scope_span[]) AS gone (dataset_version_id, span)
WHERE scope_state.dataset_version_id = gone.dataset_version_id AND scope_state.span = gone.span

-- name: add_scopes
INSERT INTO scope_state (dataset_version_id, scope, span, place)
SELECT * FROM unnest(%(dataset_versions)s::uuid[], %(scopes)s::jsonb[], %(spans)s::scope_span[], %(places)s::bigint[])

-- name: add_version
INSERT INTO data_version (dataset_id, version, org_id, dataset_version_id, delta_version, snapshot_ref, table_schema, schema_hash, row_count, promoted_at,
                          promoted_by)
VALUES (%(dataset)s, %(version)s, %(org)s, %(dataset_version)s, %(delta_version)s, %(snapshot_ref)s, %(table_schema)s::jsonb, %(schema_hash)s,
        %(row_count)s, %(promoted_at)s, %(promoted_by)s)

-- name: add_members
INSERT INTO data_version_member (dataset_id, version, generation_id, place, dataset_version_id)
SELECT %(dataset)s, %(version)s, %(generation)s, place, %(dataset_version)s FROM unnest(%(places)s::bigint[]) AS place

-- name: number_files
WITH added AS (
    UPDATE data_file SET added_version = %(version)s
    WHERE dataset_version_id = %(dataset_version)s AND added_place BETWEEN %(first)s AND %(last)s
)
UPDATE data_file SET removed_version = %(version)s
WHERE dataset_version_id = %(dataset_version)s AND removed_place BETWEEN %(first)s AND %(last)s

-- name: add_materializations
INSERT INTO materialization (id, org_id, dataset_id, dataset_version_id, version, task_id, attempt, scope, span, custom, at)
SELECT new.id, %(org)s, %(dataset)s, %(dataset_version)s, %(version)s, new.task_id, new.attempt, new.scope, new.span, new.custom, %(at)s
FROM unnest(%(ids)s::uuid[], %(tasks)s::uuid[], %(attempts)s::integer[], %(scopes)s::jsonb[], %(spans)s::scope_span[], %(customs)s::jsonb[])
    AS new (id, task_id, attempt, scope, span, custom)

-- name: add_materialization_inputs
INSERT INTO materialization_input (materialization_id, index, dataset_id, dataset_version_id, version)
SELECT new.id, input.index, input.dataset_id, input.dataset_version_id, input.version
FROM unnest(%(ids)s::uuid[], %(tasks)s::uuid[], %(attempts)s::integer[]) AS new (id, task_id, attempt)
JOIN task_input AS input ON input.task_id = new.task_id AND input.attempt = new.attempt

-- name: named_files
-- Which of these paths a table names, now or earlier.
SELECT path FROM data_file WHERE dataset_version_id = %(dataset_version)s AND path = ANY(%(paths)s::text[])
UNION
SELECT hashes FROM data_file WHERE dataset_version_id = %(dataset_version)s AND hashes = ANY(%(paths)s::text[])

-- name: move_line
UPDATE line SET decided = %(decided)s WHERE generation_id = %(generation)s

-- name: give_turn
UPDATE line SET turn_task_id = %(task)s, turn_attempt = %(attempt)s WHERE generation_id = %(generation)s

-- name: reserve
-- A task that has it keeps it; it is passed on when that task ends.
UPDATE line SET reserved_task_id = coalesce(reserved_task_id, %(task)s) WHERE generation_id = %(generation)s

-- name: add_changes
INSERT INTO change (generation_id, place, task_id, attempt, base, custom, decided_at)
SELECT generation_id, place, task_id, attempt, base, custom, %(decided_at)s
FROM unnest(%(generations)s::uuid[], %(places)s::bigint[], %(tasks)s::uuid[], %(attempts)s::integer[], %(bases)s::bigint[], %(customs)s::jsonb[])
    AS new (generation_id, place, task_id, attempt, base, custom)

-- name: add_change_outputs
INSERT INTO change_output (generation_id, place, dataset_version_id, promotion_id, table_schema, schema_hash, row_count, fingerprint)
SELECT * FROM unnest(
    %(generations)s::uuid[], %(places)s::bigint[], %(dataset_versions)s::uuid[], %(promotions)s::uuid[], %(schemas)s::jsonb[], %(schema_hashes)s::text[],
    %(row_counts)s::bigint[], %(fingerprints)s::text[]
)

-- name: add_change_scopes
INSERT INTO change_scope (dataset_version_id, place, scope, span, kind)
SELECT * FROM unnest(%(dataset_versions)s::uuid[], %(places)s::bigint[], %(scopes)s::jsonb[], %(spans)s::scope_span[], %(kinds)s::event_kind[])
