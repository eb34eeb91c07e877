-- name: lines_to_move
SELECT generation_id FROM line WHERE decided > recorded AND stopped_at IS NULL LIMIT %(room)s

-- name: lock_line
-- Only where something is decided and not recorded: a lock is a write that its commit waits for, and a line is looked at once more than it has work.
SELECT generation_id, decided, frozen, recorded, stopped_at IS NOT NULL AS stopped FROM line
WHERE generation_id = %(generation)s AND decided > recorded
FOR UPDATE

-- name: places
-- Decided and not yet frozen, in order.
SELECT place, decided_at FROM change WHERE generation_id = %(generation)s AND place > %(after)s ORDER BY place LIMIT %(most)s

-- name: outputs_of_places
SELECT output.place, output.dataset_version_id, output.table_schema, output.schema_hash, output.promotion_id, decision.run_id, version.created_at
FROM change_output AS output
JOIN dataset_version AS version ON version.id = output.dataset_version_id
JOIN dataset ON dataset.id = version.dataset_id
JOIN promotion_status AS decision ON decision.id = output.promotion_id
WHERE output.generation_id = %(generation)s AND output.place BETWEEN %(first)s AND %(last)s
ORDER BY output.place, dataset.output_index

-- name: scopes_of_places
SELECT dataset_version_id, place, scope FROM change_scope
WHERE dataset_version_id = ANY(%(dataset_versions)s::uuid[]) AND place BETWEEN %(first)s AND %(last)s

-- name: schema_before
SELECT schema_hash FROM change_output WHERE dataset_version_id = %(dataset_version)s AND place < %(place)s ORDER BY place DESC LIMIT 1

-- name: added_by_places
SELECT added_place AS place, path, size, rows, statistics FROM data_file
WHERE dataset_version_id = %(dataset_version)s AND added_place BETWEEN %(first)s AND %(last)s
ORDER BY added_place, path

-- name: removed_by_places
SELECT removed_place AS place, path, size FROM data_file
WHERE dataset_version_id = %(dataset_version)s AND removed_place BETWEEN %(first)s AND %(last)s
ORDER BY removed_place, path

-- name: next_delta_version
SELECT coalesce(max(delta_version) + 1, 0) FROM delta_commit WHERE dataset_version_id = %(dataset_version)s

-- name: freeze
INSERT INTO delta_commit (dataset_version_id, delta_version, generation_id, first_place, last_place, body, sha256, written_as)
VALUES (%(dataset_version)s, %(delta_version)s, %(generation)s, %(first)s, %(last)s, %(body)s, %(sha256)s, %(written_as)s)

-- name: move_frozen
UPDATE line SET frozen = %(frozen)s WHERE generation_id = %(generation)s

-- name: to_put
SELECT entry.dataset_version_id, entry.delta_version, entry.first_place, entry.last_place, entry.body, entry.sha256, entry.written_as,
       version.dataset_id, dataset.org_id
FROM delta_commit AS entry
JOIN dataset_version AS version ON version.id = entry.dataset_version_id
JOIN dataset ON dataset.id = version.dataset_id
WHERE entry.generation_id = %(generation)s AND entry.recorded_at IS NULL
ORDER BY entry.first_place, dataset.output_index

-- name: recorded
UPDATE delta_commit SET body = NULL, recorded_at = clock_timestamp()
WHERE generation_id = %(generation)s AND recorded_at IS NULL AND last_place <= %(place)s

-- name: move_recorded
UPDATE line SET recorded = %(place)s WHERE generation_id = %(generation)s

-- name: stop_line
UPDATE line SET stopped_at = clock_timestamp(), stopped_reason = %(reason)s WHERE generation_id = %(generation)s AND stopped_at IS NULL

-- name: start_line
UPDATE line SET stopped_at = NULL, stopped_reason = NULL WHERE generation_id = %(generation)s AND stopped_at IS NOT NULL
