-- name: lines_to_move
SELECT generation_id FROM line WHERE decided > recorded AND stopped_at IS NULL LIMIT %(room)s

-- name: lock_line
-- Only if something is decided and not recorded: a lock is a write that its commit waits for, and each line gets one check more than it has work.
SELECT generation_id, decided, frozen, recorded, stopped_at IS NOT NULL AS stopped FROM line
WHERE generation_id = %(generation)s AND decided > recorded
FOR UPDATE

-- name: times_of_places
-- This and the next queries read the places that are decided and not frozen, as many as one entry may carry. Call them under the line's lock.
-- Numbers of the line as subqueries, not joins: they become index bounds, whatever the tables' sizes.
SELECT place, decided_at FROM change
WHERE generation_id = %(generation)s
  AND place BETWEEN (SELECT frozen + 1 FROM line WHERE generation_id = %(generation)s) AND (SELECT frozen + %(most)s FROM line WHERE generation_id = %(generation)s)
ORDER BY place

-- name: outputs_of_places
SELECT output.place, output.dataset_version_id, output.table_schema, output.schema_hash, output.promotion_id, decision.run_id, version.created_at,
       version.dataset_id, dataset.org_id, dataset.output_index
FROM change_output AS output
JOIN dataset_version AS version ON version.id = output.dataset_version_id
JOIN dataset ON dataset.id = version.dataset_id
JOIN promotion_status AS decision ON decision.id = output.promotion_id
WHERE output.generation_id = %(generation)s
  AND output.place BETWEEN (SELECT frozen + 1 FROM line WHERE generation_id = %(generation)s) AND (SELECT frozen + %(most)s FROM line WHERE generation_id = %(generation)s)
ORDER BY output.place, dataset.output_index

-- name: scopes_of_places
-- OFFSET 0, here and below: forces one index search for each place, whatever the planner estimates.
SELECT output.dataset_version_id, output.place, written.scope
FROM change_output AS output
CROSS JOIN LATERAL (
    SELECT scope FROM change_scope WHERE dataset_version_id = output.dataset_version_id AND place = output.place OFFSET 0
) AS written
WHERE output.generation_id = %(generation)s
  AND output.place BETWEEN (SELECT frozen + 1 FROM line WHERE generation_id = %(generation)s) AND (SELECT frozen + %(most)s FROM line WHERE generation_id = %(generation)s)

-- name: added_by_places
SELECT output.dataset_version_id, output.place, file.path, file.size, file.rows, file.statistics
FROM change_output AS output
CROSS JOIN LATERAL (
    SELECT path, size, rows, statistics FROM data_file WHERE dataset_version_id = output.dataset_version_id AND added_place = output.place OFFSET 0
) AS file
WHERE output.generation_id = %(generation)s
  AND output.place BETWEEN (SELECT frozen + 1 FROM line WHERE generation_id = %(generation)s) AND (SELECT frozen + %(most)s FROM line WHERE generation_id = %(generation)s)
ORDER BY output.place, file.path

-- name: removed_by_places
SELECT output.dataset_version_id, output.place, file.path, file.size
FROM change_output AS output
CROSS JOIN LATERAL (
    SELECT path, size FROM data_file WHERE dataset_version_id = output.dataset_version_id AND removed_place = output.place OFFSET 0
) AS file
WHERE output.generation_id = %(generation)s
  AND output.place BETWEEN (SELECT frozen + 1 FROM line WHERE generation_id = %(generation)s) AND (SELECT frozen + %(most)s FROM line WHERE generation_id = %(generation)s)
ORDER BY output.place, file.path

-- name: tables_before
-- Of each table that these places write: the version that its next log entry is, and its schema before them.
SELECT written.id, coalesce(newest.delta_version + 1, 0) AS delta_version, earlier.schema_hash
FROM (
    SELECT DISTINCT dataset_version_id AS id FROM change_output
    WHERE generation_id = %(generation)s
      AND place BETWEEN (SELECT frozen + 1 FROM line WHERE generation_id = %(generation)s) AND (SELECT frozen + %(most)s FROM line WHERE generation_id = %(generation)s)
) AS written
LEFT JOIN LATERAL (
    SELECT delta_version FROM delta_commit WHERE dataset_version_id = written.id ORDER BY delta_version DESC LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
    SELECT schema_hash FROM change_output
    WHERE dataset_version_id = written.id AND place <= (SELECT frozen FROM line WHERE generation_id = %(generation)s)
    ORDER BY place DESC LIMIT 1
) AS earlier ON true

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

-- name: to_record
SELECT entry.dataset_version_id, entry.delta_version, entry.first_place, entry.last_place, version.dataset_id, dataset.org_id
FROM delta_commit AS entry
JOIN dataset_version AS version ON version.id = entry.dataset_version_id
JOIN dataset ON dataset.id = version.dataset_id
WHERE entry.generation_id = %(generation)s AND entry.recorded_at IS NULL AND entry.last_place <= %(last)s
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
