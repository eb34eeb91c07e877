-- name: datasets
SELECT dataset.id, name.name, dataset.layer, revision.domain, revision.owner, revision.description, revision.active, dag.id AS dag_id, dag.name AS dag, job_key.name AS job,
       dataset.output_index, dataset.has_files, pointer.dataset_version_id, current.version, current.row_count, current.promoted_at, current.table_schema
FROM dataset
JOIN job_key ON job_key.id = dataset.job_key_id
JOIN dag ON dag.id = job_key.dag_id
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
CROSS JOIN LATERAL (SELECT * FROM dataset_revision WHERE dataset_id = dataset.id ORDER BY revision DESC LIMIT 1) AS revision
LEFT JOIN pointer ON pointer.dag_version_id = dag.active_version_id AND pointer.dataset_id = dataset.id
LEFT JOIN LATERAL (
    SELECT version.version, version.row_count, version.promoted_at, version.table_schema FROM data_version AS version
    WHERE version.dataset_version_id = pointer.dataset_version_id ORDER BY version.version DESC LIMIT 1
) AS current ON true
WHERE dataset.org_id = %(org)s
  AND (%(ids)s::uuid[] IS NULL OR dataset.id = ANY(%(ids)s::uuid[]))
  AND (%(after)s::uuid IS NULL OR dataset.id > %(after)s)
  AND (%(layer)s::layer IS NULL OR dataset.layer = %(layer)s)
  AND (%(domain)s::text IS NULL OR revision.domain = %(domain)s)
  AND (%(owner)s::text IS NULL OR revision.owner = %(owner)s)
  AND (%(dag)s::text IS NULL OR dag.name = %(dag)s)
  -- Every word occurs somewhere: names, descriptions, producer, columns at any depth.
  AND (%(words)s::text[] IS NULL OR NOT EXISTS (
      SELECT 1 FROM unnest(%(words)s::text[]) AS word
      WHERE position(lower(word) IN lower(concat_ws(' ',
          name.name, (SELECT string_agg(snapshot.name, ' ') FROM dataset_snapshot AS snapshot WHERE snapshot.dataset_id = dataset.id),
          dataset.layer, revision.domain, revision.owner, revision.description, dag.name || '/' || job_key.name,
          (SELECT string_agg(field #>> '{}', ' ') FROM jsonb_path_query(current.table_schema, '$.**.name') AS field)
      ))) = 0
  ))
ORDER BY dataset.id LIMIT %(limit)s

-- name: versions
SELECT version.version, version.dataset_version_id, version.delta_version, version.snapshot_ref, version.schema_hash, version.row_count,
       version.promoted_at, version.promoted_by
FROM data_version AS version
WHERE version.dataset_id = %(dataset)s AND version.org_id = %(org)s
  AND (%(before)s::bigint IS NULL OR version.version < %(before)s) AND (%(version)s::bigint IS NULL OR version.version = %(version)s)
ORDER BY version.version DESC LIMIT %(limit)s

-- name: parts
-- The changes behind versions: which run made each, what it wrote, and the decision that allowed it.
SELECT member.version, member.place, decision.run_id, decision.id AS promotion_id, decision.reason, change.task_id, change.attempt, change.custom,
       dag.name AS dag, job_key.name AS job, attempt.dag_version,
       ARRAY(SELECT scope.scope FROM change_scope AS scope WHERE scope.dataset_version_id = member.dataset_version_id AND scope.place = member.place
             ORDER BY scope.span) AS scopes
FROM data_version_member AS member
JOIN change ON change.generation_id = member.generation_id AND change.place = member.place
JOIN change_output AS output
  ON output.generation_id = member.generation_id AND output.place = member.place AND output.dataset_version_id = member.dataset_version_id
JOIN promotion_status AS decision ON decision.id = output.promotion_id
JOIN generation ON generation.id = member.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
JOIN task_attempt AS attempt ON attempt.task_id = change.task_id AND attempt.attempt = change.attempt
WHERE member.dataset_id = %(dataset)s AND member.version = ANY(%(versions)s::bigint[])
ORDER BY member.version DESC, member.place

-- name: inputs_of_parts
SELECT input.task_id, input.attempt, input.index, input.dataset_id, name.name, input.dataset_version_id, input.version
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS fence (task_id, attempt)
JOIN task_input AS input ON input.task_id = fence.task_id AND input.attempt = fence.attempt
LEFT JOIN dataset_name AS name ON name.dataset_id = input.dataset_id
ORDER BY input.task_id, input.attempt, input.index

-- name: line
SELECT line.decided, line.recorded, line.stopped_reason, line.reserved_task_id, job_key.paused_at, job_key.pause_reason, dag.paused_at AS dag_paused_at,
       job.spec ->> 'activation' AS activation
FROM dataset_version AS version
JOIN line ON line.generation_id = version.generation_id
JOIN generation ON generation.id = version.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
LEFT JOIN job ON job.generation_id = version.generation_id AND job.dag_version_id = dag.active_version_id
WHERE version.id = %(dataset_version)s

-- name: work
-- Unfinished tasks of a table, by state and by what they wait for.
SELECT task.state, task.waits, count(*) AS number
FROM dataset_version AS version
JOIN task ON task.generation_id = version.generation_id
WHERE version.id = %(dataset_version)s AND task.state IN ('queued', 'running', 'committing')
GROUP BY task.state, task.waits

-- name: newest_candidate
SELECT run_id, allowed, stage, reason, evaluated_at FROM promotion_status WHERE dataset_id = %(dataset)s ORDER BY seq DESC LIMIT 1

-- name: newest_run
-- The newest run that shows the result of its task: superseded and given-back runs do not, since their task was queued again.
SELECT run.run_id, run.status, run.error_message, run.end_time, run.attempt, task.id AS task_id, task.state AS task_state
FROM run_history AS run
JOIN task_attempt AS attempt ON attempt.task_id = run.task_id AND attempt.attempt = run.attempt
JOIN task ON task.id = run.task_id
WHERE run.dataset_id = %(dataset)s AND attempt.outcome NOT IN ('superseded', 'given_back')
ORDER BY run.seq DESC LIMIT 1

-- name: inputs_now
-- The inputs of the table's job, and their current versions.
SELECT input.index, dataset.id AS dataset_id, name.name, dataset.has_files, input.trigger, pointer.dataset_version_id, current.version,
       producing.spec -> 'outputs' -> dataset.output_index -> 'partition_by' AS partition_by,
       job.spec -> 'outputs' -> made.output_index -> 'partition_by' AS output_partition_by, job.spec ->> 'update_strategy' AS update_strategy
FROM dataset_version AS version
JOIN dataset AS made ON made.id = version.dataset_id
JOIN current_job AS job ON job.generation_id = version.generation_id
JOIN job_input AS input ON input.job_id = job.id
JOIN dataset ON dataset.id = input.dataset_id
JOIN job_key AS producer ON producer.id = dataset.job_key_id
JOIN dag ON dag.id = producer.dag_id
LEFT JOIN job AS producing ON producing.dag_version_id = dag.active_version_id AND producing.job_key_id = producer.id
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
LEFT JOIN pointer ON pointer.dag_version_id = dag.active_version_id AND pointer.dataset_id = dataset.id
LEFT JOIN LATERAL (
    SELECT there.version FROM data_version AS there WHERE there.dataset_version_id = pointer.dataset_version_id ORDER BY there.version DESC LIMIT 1
) AS current ON true
WHERE version.id = %(dataset_version)s
ORDER BY input.index

-- name: scopes_behind
-- Current scopes of a table that are older than the current version of one input. If both are partitioned the same way, a scope is behind only if its own part of the
-- input has changed. Only the oldest scopes are checked, so that the cost does not grow with the table.
WITH examined AS (
    SELECT state.scope, state.span, pin.version, pin.dataset_version_id
    FROM scope_state AS state
    JOIN dataset_version AS version ON version.id = state.dataset_version_id
    JOIN change ON change.generation_id = version.generation_id AND change.place = state.place
    JOIN task_input AS pin ON pin.task_id = change.task_id AND pin.attempt = change.attempt AND pin.dataset_id = %(input)s
    WHERE state.dataset_version_id = %(dataset_version)s AND pin.version < %(current)s
    ORDER BY state.place LIMIT %(examined)s
), behind AS (
    SELECT examined.scope, examined.version FROM examined
    WHERE NOT %(cut_alike)s OR examined.dataset_version_id <> %(input_version)s OR EXISTS (
        SELECT 1 FROM scope_state AS moved
        WHERE moved.dataset_version_id = %(input_version)s AND moved.span && examined.span
          AND moved.place > (SELECT max(place) FROM data_version_member WHERE dataset_id = %(input)s AND version = examined.version)
          AND moved.place <= (SELECT max(place) FROM data_version_member WHERE dataset_id = %(input)s AND version = %(current)s)
    )
)
SELECT scope, version, count(*) OVER () AS number, (SELECT count(*) FROM examined) >= %(examined)s AS more,
       (SELECT count(*) FROM scope_state WHERE dataset_version_id = %(dataset_version)s) AS total
FROM behind ORDER BY version, scope::text LIMIT %(listed)s

-- name: standing_still
-- Upstream datasets, at any distance, without new versions: the job or DAG is paused, or the newest candidate was blocked.
WITH RECURSIVE above AS (
    SELECT input.dataset_id
    FROM dataset_version AS version
    JOIN current_job AS job ON job.generation_id = version.generation_id
    JOIN job_input AS input ON input.job_id = job.id
    WHERE version.id = %(dataset_version)s
    UNION
    SELECT input.dataset_id
    FROM above
    JOIN dataset ON dataset.id = above.dataset_id
    JOIN current_job AS job ON job.job_key_id = dataset.job_key_id
    JOIN job_input AS input ON input.job_id = job.id
)
SELECT dataset.id AS dataset_id, name.name, job.dag, job.name AS job, job.paused
FROM above
JOIN dataset ON dataset.id = above.dataset_id
JOIN current_job AS job ON job.job_key_id = dataset.job_key_id
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
LEFT JOIN LATERAL (SELECT allowed FROM promotion_status WHERE dataset_id = dataset.id ORDER BY seq DESC LIMIT 1) AS newest ON true
WHERE job.paused OR NOT newest.allowed
ORDER BY dataset.id

-- name: run
-- One run, the version its output became part of, and the scopes it wrote; for a blocked run, the scopes it should have written.
SELECT run.run_id, run.task_id, run.attempt, dag.id AS dag_id, dag.name AS dag, job_key.name AS job, run.dataset_id, name.name AS dataset_name, run.layer,
       run.status, run.start_time, run.end_time, run.error_message, run.triggered_by, run.dag_version, run.generation_id, member.version,
       coalesce(change.custom, '{}') AS custom,
       CASE WHEN member.place IS NOT NULL
            THEN (SELECT coalesce(jsonb_agg(scope.scope ORDER BY scope.span), '[]') FROM change_scope AS scope
                  WHERE scope.dataset_version_id = version.id AND scope.place = member.place)
            ELSE coalesce(nullif(announced.output -> 'scopes', '[]'), CASE WHEN (announced.output ->> 'everything')::boolean THEN '[{"kind": "full"}]' END::jsonb, '[]')
       END AS scopes
FROM run_history AS run
JOIN generation ON generation.id = run.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
JOIN task_attempt AS attempt ON attempt.task_id = run.task_id AND attempt.attempt = run.attempt
LEFT JOIN dataset ON dataset.id = run.dataset_id
CROSS JOIN LATERAL (SELECT attempt.scopes -> dataset.output_index::text AS output) AS announced
LEFT JOIN dataset_name AS name ON name.dataset_id = run.dataset_id
LEFT JOIN dataset_version AS version ON version.dataset_id = run.dataset_id AND version.generation_id = run.generation_id
LEFT JOIN change ON change.task_id = run.task_id AND change.attempt = run.attempt
LEFT JOIN data_version_member AS member
  ON member.generation_id = change.generation_id AND member.place = change.place AND member.dataset_version_id = version.id
WHERE run.org_id = %(org)s AND run.run_id = %(run)s

-- name: inputs_of_run
SELECT input.task_id, input.attempt, input.index, input.dataset_id, name.name, input.dataset_version_id, input.version
FROM task_input AS input
LEFT JOIN dataset_name AS name ON name.dataset_id = input.dataset_id
WHERE input.task_id = %(task)s AND input.attempt = %(attempt)s
ORDER BY input.index
