-- name: lock_claim
-- A separate statement: the next one then sees what an equal claim has committed meanwhile.
SELECT pg_advisory_xact_lock(hashtextextended('claim ' || encode(%(claim)s, 'hex'), 0))

-- name: held_by_claim
SELECT task.id, task.org_id, task.generation_id, task.pool_id, task.attempt, task.trigger_kind, task.trigger_id, task.scope, task.request,
       task.lease_expires_at, attempt.attempt = task.attempt AND task.state = 'running' AS open
FROM task_attempt AS attempt
JOIN task ON task.id = attempt.task_id
WHERE attempt.claim_sha256 = %(claim)s AND task.org_id = %(org)s
ORDER BY task.id

-- name: queued
-- Read without a lock: tasks that others hold are returned too, so that the watermark never passes them. One index
-- entry is read for each task, however many dead entries precede it.
SELECT id, seq FROM task
WHERE state = 'queued' AND seq IS NOT NULL AND pool_id = %(pool)s AND seq >= %(low)s
ORDER BY seq LIMIT %(room)s

-- name: claim
-- SKIP LOCKED: workers pass each other instead of waiting in line. `waits IS NULL` means that it is still in the queue;
-- with a condition on `seq`, the planner would read the whole index of the queue.
WITH taken AS (
    SELECT id FROM task WHERE id = ANY(%(tasks)s::uuid[]) AND state = 'queued' AND waits IS NULL FOR UPDATE SKIP LOCKED
)
UPDATE task
SET state = 'running', seq = NULL, due_at = NULL, attempt = attempt + 1,
    lease_expires_at = coalesce(%(now)s::timestamptz, now()) + %(lease)s::interval
FROM taken WHERE task.id = taken.id
RETURNING task.id, task.org_id, task.generation_id, task.pool_id, task.attempt, task.trigger_kind, task.trigger_id, task.scope, task.request,
          task.lease_expires_at

-- name: add_attempts
INSERT INTO task_attempt (task_id, attempt, claim_sha256, token_sha256, worker, started_at, state_revision, deadline_at, dag_version)
SELECT new.task_id, new.attempt, %(claim)s, new.token_sha256, %(worker)s, coalesce(%(now)s::timestamptz, now()), new.state_revision,
       coalesce(%(now)s::timestamptz, now()) + make_interval(secs => new.timeout_seconds), new.dag_version
FROM unnest(
    %(tasks)s::uuid[], %(attempts)s::integer[], %(tokens)s::bytea[], %(revisions)s::bigint[], %(timeouts)s::double precision[], %(dag_versions)s::integer[]
) AS new (task_id, attempt, token_sha256, state_revision, timeout_seconds, dag_version)

-- name: close_overtaken
-- Attempts whose lease expired without a report become final when the next attempt starts.
UPDATE task_attempt
SET ended_at = coalesce(%(now)s::timestamptz, now()), outcome = 'timed_out', error_class = 'timed_out', error_message = %(message)s
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS overtaken (task_id, attempt)
WHERE task_attempt.task_id = overtaken.task_id AND task_attempt.attempt = overtaken.attempt AND task_attempt.ended_at IS NULL
RETURNING task_attempt.task_id, task_attempt.attempt, task_attempt.started_at

-- name: seen_scopes
-- Which of these ordered tasks have a scope that a completed task of their generation had already.
SELECT task.id FROM task
WHERE task.id = ANY(%(tasks)s::uuid[]) AND EXISTS (
    SELECT 1 FROM task AS earlier
    WHERE earlier.generation_id = task.generation_id AND md5(earlier.scope::text) = md5(task.scope::text) AND earlier.scope = task.scope
      AND earlier.ordinal IS NOT NULL AND earlier.state = 'completed'
)

-- name: events_of_triggers
SELECT event.id, event.kind, event.event_time, event.payload, dataset.has_files AS of_a_table
FROM dataset_event AS event JOIN dataset ON dataset.id = event.dataset_id
WHERE event.id = ANY(%(events)s::uuid[])

-- name: heartbeat
UPDATE task
SET lease_expires_at = greatest(task.lease_expires_at, least(coalesce(%(now)s::timestamptz, now()) + %(lease)s::interval, attempt.deadline_at))
FROM task_attempt AS attempt
WHERE task.id = ANY(%(tasks)s::uuid[]) AND attempt.task_id = task.id AND attempt.attempt = task.attempt
RETURNING task.id, task.lease_expires_at

-- name: note_heartbeats
UPDATE task_attempt SET last_heartbeat_at = coalesce(%(now)s::timestamptz, now())
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS alive (task_id, attempt)
WHERE task_attempt.task_id = alive.task_id AND task_attempt.attempt = alive.attempt

-- name: expired
SELECT id, dag_id, generation_id FROM task
WHERE state = 'running' AND lease_expires_at <= coalesce(%(now)s::timestamptz, now())
ORDER BY lease_expires_at LIMIT %(room)s

-- name: lock_expired
SELECT id, org_id, dag_id, generation_id, pool_id, state, ordinal, attempt, failures, trigger_kind, trigger_id, cancel_asked_at
FROM task
WHERE id = ANY(%(tasks)s::uuid[]) AND state = 'running' AND lease_expires_at <= coalesce(%(now)s::timestamptz, now())
ORDER BY id FOR UPDATE SKIP LOCKED

-- name: mark_timed_out
UPDATE task_attempt SET timed_out_at = coalesce(%(now)s::timestamptz, now())
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS late (task_id, attempt)
WHERE task_attempt.task_id = late.task_id AND task_attempt.attempt = late.attempt AND task_attempt.timed_out_at IS NULL

-- name: expire
-- The attempt stays open: a late report is accepted until another attempt starts.
UPDATE task
SET state = 'queued', waits = 'retry', failures = late.failures, lease_expires_at = NULL,
    due_at = coalesce(%(now)s::timestamptz, now()) + late.retry_in
FROM unnest(%(tasks)s::uuid[], %(failures)s::integer[], %(retry_in)s::interval[]) AS late (id, failures, retry_in)
WHERE task.id = late.id

-- name: grant_last_lease
-- The last permitted attempt stays open for one further lease length.
UPDATE task SET failures = failures + 1, lease_expires_at = coalesce(%(now)s::timestamptz, now()) + %(lease)s::interval
WHERE id = ANY(%(tasks)s::uuid[])

-- name: due
SELECT id, dag_id, generation_id FROM task
WHERE waits = 'retry' AND due_at <= coalesce(%(now)s::timestamptz, now())
ORDER BY due_at LIMIT %(room)s

-- name: lock_due
SELECT id, generation_id FROM task
WHERE id = ANY(%(tasks)s::uuid[]) AND waits = 'retry' AND due_at <= coalesce(%(now)s::timestamptz, now())
ORDER BY id FOR UPDATE SKIP LOCKED

-- name: for_payload
SELECT id, org_id, generation_id, pool_id, attempt, state, trigger_kind, trigger_id, scope, request, lease_expires_at
FROM task WHERE id = %(task)s AND org_id = %(org)s
  AND (%(pools)s::text[] IS NULL OR EXISTS (SELECT 1 FROM worker_pool AS pool WHERE pool.id = task.pool_id AND pool.name = ANY(%(pools)s::text[])))

-- name: pins_of_attempts
SELECT input.task_id, input.attempt, input.index, input.dataset_id, input.dataset_version_id, input.version
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS fence (task_id, attempt)
JOIN task_input AS input ON input.task_id = fence.task_id AND input.attempt = fence.attempt
ORDER BY input.index

-- name: store_assignments
-- The base of each new attempt, then the scopes and pins that were read after it.
WITH based AS (
    UPDATE task_attempt SET base = given.base, scopes = given.scopes
    FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[], %(bases)s::bigint[], %(scopes)s::jsonb[]) AS given (task_id, attempt, base, scopes)
    WHERE task_attempt.task_id = given.task_id AND task_attempt.attempt = given.attempt
)
INSERT INTO task_input (task_id, attempt, index, dataset_id, dataset_version_id, version)
SELECT * FROM unnest(
    %(pin_tasks)s::uuid[], %(pin_attempts)s::integer[], %(pin_indexes)s::integer[], %(pin_datasets)s::uuid[], %(pin_tables)s::uuid[], %(pin_versions)s::bigint[]
)

-- name: held_back
-- The queued tasks of jobs that write files that cannot be claimed now, and what each waits for.
-- Not through current_job: with its joins planning takes ten times as long, and every claim runs this.
SELECT task.id, held.waits FROM task
CROSS JOIN LATERAL (
    SELECT 'line' AS waits FROM line
    WHERE line.generation_id = task.generation_id AND (
        line.stopped_at IS NOT NULL OR line.decided - line.recorded >= %(max_unrecorded)s
        OR (line.reserved_task_id <> task.id AND task.trigger_kind <> 'batch')  -- the run that posted a batch waits for it, and the reserved task for that run
        OR (line.reserved_task_id = task.id AND EXISTS (SELECT 1 FROM task AS other WHERE other.generation_id = task.generation_id AND other.state = 'running'))
    )
    UNION ALL
    SELECT 'input' FROM job_input AS input
    JOIN job ON job.id = input.job_id
    JOIN dag AS reader ON reader.active_version_id = job.dag_version_id
    JOIN dataset ON dataset.id = input.dataset_id
    JOIN job_key AS producer ON producer.id = dataset.job_key_id
    JOIN dag ON dag.id = producer.dag_id
    LEFT JOIN pointer ON pointer.dag_version_id = dag.active_version_id AND pointer.dataset_id = dataset.id
    WHERE job.generation_id = task.generation_id AND dataset.has_files
      AND NOT EXISTS (SELECT 1 FROM data_version AS version WHERE version.dataset_version_id = pointer.dataset_version_id)
    LIMIT 1
) AS held
WHERE task.id = ANY(%(tasks)s::uuid[])

-- name: hold_back
WITH still AS (
    SELECT task.id, held.waits FROM task
    JOIN unnest(%(tasks)s::uuid[], %(waits)s::waits[]) AS held (id, waits) ON held.id = task.id
    WHERE task.state = 'queued' AND task.waits IS NULL
    FOR UPDATE OF task SKIP LOCKED
)
UPDATE task SET seq = NULL, waits = still.waits FROM still WHERE task.id = still.id

-- name: waiting_for_others
-- Tasks that wait for an input's first version or for their line: the oldest of each job, so that the backlog of one job does not hide another's.
SELECT oldest.id, oldest.dag_id, oldest.generation_id
FROM (SELECT DISTINCT generation_id FROM task WHERE waits IN ('input', 'line')) AS waiting
JOIN line ON line.generation_id = waiting.generation_id
CROSS JOIN LATERAL (
    SELECT task.id, task.dag_id, task.generation_id FROM task
    WHERE task.generation_id = waiting.generation_id AND task.waits IN ('input', 'line')
    ORDER BY (task.id = line.reserved_task_id) IS TRUE DESC, task.id LIMIT %(room)s
) AS oldest

-- name: lock_waiting
SELECT id, generation_id FROM task WHERE id = ANY(%(tasks)s::uuid[]) AND waits IN ('input', 'line', 'right') ORDER BY id FOR UPDATE SKIP LOCKED

-- name: waiting_for_a_right
SELECT oldest.id, oldest.dag_id, oldest.generation_id
FROM (SELECT DISTINCT generation_id FROM task WHERE waits = 'right') AS waiting
CROSS JOIN LATERAL (
    SELECT task.id, task.dag_id, task.generation_id FROM task
    WHERE task.generation_id = waiting.generation_id AND task.waits = 'right'
    ORDER BY task.id LIMIT %(room)s
) AS oldest
