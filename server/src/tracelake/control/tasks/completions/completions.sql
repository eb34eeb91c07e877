-- name: clock
SELECT coalesce(%(now)s::timestamptz, clock_timestamp())

-- name: holds_lease
-- Whether this attempt may still report within its lease.
SELECT EXISTS (SELECT 1 FROM task WHERE id = %(task)s AND attempt = %(attempt)s AND state = 'running' AND lease_expires_at > clock_timestamp())

-- name: rebase
UPDATE task_attempt SET base = %(base)s, rebases = rebases + 1 WHERE task_id = %(task)s AND attempt = %(attempt)s

-- name: count_superseded
UPDATE task SET superseded = superseded + 1 WHERE id = ANY(%(tasks)s::uuid[])

-- name: parents_of_attempts
-- What these attempts read, and whether the decisions that promoted it allowed it; a version that joins several changes was promoted by all of theirs.
SELECT input.task_id, input.attempt, input.index, input.dataset_id, input.dataset_version_id, input.version, name.name, dataset.layer, promoted.allowed
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS fence (task_id, attempt)
JOIN task_input AS input ON input.task_id = fence.task_id AND input.attempt = fence.attempt
JOIN dataset ON dataset.id = input.dataset_id
LEFT JOIN dataset_name AS name ON name.dataset_id = input.dataset_id
CROSS JOIN LATERAL (
    SELECT bool_and(promotion_status.allowed) AS allowed
    FROM data_version
    JOIN data_version_member AS member ON member.dataset_id = data_version.dataset_id AND member.version = data_version.version
    JOIN change_output AS output
      ON output.generation_id = member.generation_id AND output.place = member.place AND output.dataset_version_id = member.dataset_version_id
    JOIN promotion_status ON promotion_status.id = output.promotion_id
    WHERE data_version.dataset_version_id = input.dataset_version_id AND data_version.version = input.version
) AS promoted
ORDER BY input.index

-- name: record
UPDATE task SET state = 'completed', finished_at = %(at)s WHERE id = ANY(%(tasks)s::uuid[]) AND state = 'committing'

-- name: changes_to_record
-- Call this and the next ones under the line's lock: what is recorded is read from the line.
SELECT change.place, change.task_id, change.attempt, change.custom, attempt.started_at
FROM change
JOIN task_attempt AS attempt ON attempt.task_id = change.task_id AND attempt.attempt = change.attempt
WHERE change.generation_id = %(generation)s AND change.place BETWEEN (SELECT recorded + 1 FROM line WHERE generation_id = %(generation)s) AND %(last)s
ORDER BY change.place

-- name: outputs_to_record
-- A partitioned table without rows may be written without any scope.
SELECT output.place, output.dataset_version_id, output.table_schema, output.schema_hash, output.row_count, scope.scope, scope.kind
FROM change_output AS output
LEFT JOIN change_scope AS scope ON scope.dataset_version_id = output.dataset_version_id AND scope.place = output.place
WHERE output.generation_id = %(generation)s AND output.place BETWEEN (SELECT recorded + 1 FROM line WHERE generation_id = %(generation)s) AND %(last)s
ORDER BY output.place, scope.span

-- name: draw_versions
-- The next number of each dataset that has a log entry to record. Taken under row locks: strictly increasing, without gaps, over all generations.
INSERT INTO version_counter (dataset_id, last)
SELECT DISTINCT version.dataset_id, 1
FROM delta_commit AS entry
JOIN dataset_version AS version ON version.id = entry.dataset_version_id
WHERE entry.generation_id = %(generation)s AND entry.recorded_at IS NULL AND entry.last_place <= %(last)s
ORDER BY version.dataset_id
ON CONFLICT (dataset_id) DO UPDATE SET last = version_counter.last + 1
RETURNING dataset_id, last

-- name: lock_changed
-- The tasks of the changes to record, by id: a join might lock them in another order.
SELECT id, org_id, dag_id, generation_id, pool_id, state, ordinal, attempt, failures, trigger_kind, trigger_id, cancel_asked_at, superseded
FROM task WHERE id = ANY(ARRAY(
    SELECT task_id FROM change
    WHERE generation_id = %(generation)s AND place BETWEEN (SELECT recorded + 1 FROM line WHERE generation_id = %(generation)s) AND %(last)s
))
ORDER BY id FOR UPDATE

-- name: states_of_batches
SELECT batch.producer_task_id, batch.id, task.state FROM batch JOIN task ON task.id = batch.task_id
WHERE batch.producer_task_id = ANY(%(tasks)s::uuid[])
ORDER BY batch.id

-- name: lost_batches
-- Those that will never be part of the table, with the decision that refused each or the failure that ended it.
SELECT batch.name, task.id AS task_id, task.state,
       CASE WHEN task.attempt > 0 THEN task.id::text || ':' || task.attempt END AS run_id, decision.id AS promotion_id,
       coalesce(decision.reason, attempt.error_message) AS reason
FROM batch
JOIN task ON task.id = batch.task_id
LEFT JOIN task_attempt AS attempt ON attempt.task_id = task.id AND attempt.attempt = task.attempt
LEFT JOIN promotion_status AS decision ON decision.run_id = task.id::text || ':' || task.attempt AND NOT decision.allowed
WHERE batch.producer_task_id = %(task)s AND task.state IN ('failed', 'canceled')
ORDER BY batch.id

-- name: add_batch
INSERT INTO batch (id, org_id, producer_task_id, attempt, name, output_index, files, state, task_id)
VALUES (%(id)s, %(org)s, %(producer)s, %(attempt)s, %(name)s, %(output)s, %(files)s::text[], %(state)s::jsonb, %(task)s)
