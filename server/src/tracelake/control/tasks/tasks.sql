-- name: lock_lines
SELECT generation_id FROM line WHERE generation_id = ANY(%(generations)s::uuid[]) ORDER BY generation_id FOR UPDATE

-- name: draw_ordinals
UPDATE line SET next_ordinal = next_ordinal + %(count)s WHERE generation_id = %(generation)s RETURNING next_ordinal - %(count)s

-- name: add
INSERT INTO task (id, org_id, dag_id, generation_id, pool_id, trigger_kind, trigger_id, scope, request, ordinal, waits, seq)
SELECT new.id, %(org)s, new.dag_id, new.generation_id, new.pool_id, new.trigger_kind, new.trigger_id, new.scope, new.request, new.ordinal, new.waits,
       CASE WHEN new.waits IS NULL THEN nextval('task_seq') END
FROM unnest(
    %(ids)s::uuid[], %(dags)s::uuid[], %(generations)s::uuid[], %(pools)s::uuid[], %(trigger_kinds)s::trigger_kind[], %(triggers)s::uuid[],
    %(scopes)s::jsonb[], %(requests)s::jsonb[], %(ordinals)s::bigint[], %(waits)s::waits[]
) AS new (id, dag_id, generation_id, pool_id, trigger_kind, trigger_id, scope, request, ordinal, waits)

-- name: admit
-- The next tasks of each line may be claimed, as many as its job has free turns. Call it under the lines' locks. In an ordered job
-- the first unfinished tasks have the turns, whatever they wait for; in other jobs only running and claimable tasks have one.
WITH next AS (SELECT free.id FROM (
    SELECT first.id, first.ordinal
    FROM unnest(%(generations)s::uuid[], %(turns)s::integer[], %(ordered)s::boolean[]) AS line (generation_id, turns, ordered)
    CROSS JOIN LATERAL (
        SELECT task.id, task.waits, task.ordinal FROM task
        WHERE line.ordered AND task.generation_id = line.generation_id AND task.ordinal IS NOT NULL AND task.state IN ('queued', 'running')
        ORDER BY task.ordinal LIMIT line.turns
    ) AS first
    WHERE first.waits = 'turn'
    UNION ALL
    SELECT waiting.id, waiting.ordinal
    FROM unnest(%(generations)s::uuid[], %(turns)s::integer[], %(ordered)s::boolean[]) AS line (generation_id, turns, ordered)
    CROSS JOIN LATERAL (
        SELECT count(*) AS number FROM task
        WHERE task.generation_id = line.generation_id AND task.ordinal IS NOT NULL AND task.state IN ('queued', 'running') AND task.waits IS NULL
    ) AS taken
    CROSS JOIN LATERAL (
        SELECT task.id, task.ordinal FROM task
        WHERE NOT line.ordered AND task.generation_id = line.generation_id AND task.ordinal IS NOT NULL AND task.state IN ('queued', 'running')
          AND task.waits = 'turn'
        ORDER BY task.ordinal LIMIT greatest(line.turns - taken.number, 0)
    ) AS waiting
) AS free ORDER BY free.ordinal)
UPDATE task SET seq = nextval('task_seq'), waits = NULL FROM next WHERE task.id = next.id
RETURNING task.pool_id

-- name: place
-- Queued tasks that wait for nothing but a turn get their place, or wait for that turn.
WITH next AS (
    SELECT ordered.id, CASE WHEN ordered.ordinal IS NULL THEN nextval('task_seq') END AS seq
    FROM (SELECT task.id, task.ordinal FROM task WHERE task.id = ANY(%(tasks)s::uuid[]) AND task.state = 'queued' ORDER BY task.id) AS ordered
)
UPDATE task
SET seq = next.seq, waits = CASE WHEN next.seq IS NULL THEN 'turn'::waits END
FROM next WHERE task.id = next.id
RETURNING task.pool_id

-- name: hold
-- Not tasks that adopt a batch: they are part of the run that posted it, which continues and waits for them.
UPDATE task SET seq = NULL, waits = 'paused' WHERE id = ANY(%(tasks)s::uuid[]) AND state = 'queued' AND trigger_kind <> 'batch'
RETURNING id

-- name: queued_of_generations
-- By two partial indexes: the cost depends on the backlog, not on history.
SELECT id FROM task
WHERE id IN (
    SELECT id FROM task
    WHERE state = 'queued' AND seq IS NOT NULL AND pool_id = ANY(%(pools)s::uuid[]) AND generation_id = ANY(%(generations)s::uuid[])
    UNION ALL
    SELECT id FROM task
    WHERE generation_id = ANY(%(generations)s::uuid[]) AND ordinal IS NOT NULL AND state IN ('queued', 'running') AND waits = 'turn'
)
ORDER BY id FOR UPDATE

-- name: paused_of_generations
SELECT id FROM task WHERE generation_id = ANY(%(generations)s::uuid[]) AND waits = 'paused' ORDER BY id FOR UPDATE

-- name: keys_of
-- The keys needed to lock: read unlocked, checked again under the locks.
SELECT id, dag_id, generation_id FROM task WHERE id = ANY(%(tasks)s::uuid[]) AND org_id = %(org)s

-- name: lock
SELECT id, org_id, dag_id, generation_id, pool_id, state, ordinal, attempt, failures, trigger_kind, trigger_id, cancel_asked_at, superseded
FROM task WHERE id = ANY(%(tasks)s::uuid[]) AND org_id = %(org)s
ORDER BY id FOR UPDATE

-- name: attempts
-- Read after the tasks were locked: a join in the locking statement would show the attempts as they were before the wait.
SELECT attempt.task_id, attempt.attempt, attempt.token_sha256, attempt.started_at, attempt.state_revision, attempt.timed_out_at, attempt.ended_at,
       attempt.body_sha256, attempt.result, attempt.base, attempt.scopes, attempt.rebases
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS fence (task_id, attempt)
JOIN task_attempt AS attempt ON attempt.task_id = fence.task_id AND attempt.attempt = fence.attempt

-- name: move
UPDATE task
SET state = moved.state,
    failures = moved.failures,
    seq = NULL,
    waits = CASE WHEN moved.state = 'queued' THEN moved.waits END,
    due_at = CASE WHEN moved.state = 'queued' AND moved.waits = 'retry' THEN coalesce(%(now)s::timestamptz, now()) + moved.retry_in END,
    lease_expires_at = NULL,
    finished_at = CASE WHEN moved.state IN ('completed', 'failed', 'canceled') THEN coalesce(%(now)s::timestamptz, now()) END
FROM unnest(%(tasks)s::uuid[], %(states)s::task_state[], %(failures)s::integer[], %(retry_in)s::interval[], %(waits)s::waits[])
    AS moved (id, state, failures, retry_in, waits)
WHERE task.id = moved.id

-- name: end_attempts
UPDATE task_attempt
SET ended_at = coalesce(%(now)s::timestamptz, now()),
    outcome = done.outcome, error_class = done.error_class, error_message = done.error_message, body_sha256 = done.body_sha256, result = done.result,
    summary = done.summary
FROM unnest(
    %(tasks)s::uuid[], %(attempts)s::integer[], %(outcomes)s::attempt_outcome[], %(error_classes)s::text[], %(error_messages)s::text[],
    %(bodies)s::bytea[], %(results)s::jsonb[], %(summaries)s::jsonb[]
) AS done (task_id, attempt, outcome, error_class, error_message, body_sha256, result, summary)
WHERE task_attempt.task_id = done.task_id AND task_attempt.attempt = done.attempt

-- name: request_cancel
UPDATE task SET cancel_asked_at = coalesce(cancel_asked_at, now()) WHERE id = %(task)s

-- name: find_task
SELECT task.id, dag.name AS dag, job_key.name AS job, task.state, task.waits, task.trigger_kind, task.trigger_id, task.scope, task.attempt, task.failures,
       task.created_at, task.finished_at, task.due_at, task.cancel_asked_at
FROM task
JOIN generation ON generation.id = task.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
WHERE task.id = %(task)s AND task.org_id = %(org)s

-- name: page
SELECT task.id, dag.name AS dag, job_key.name AS job, task.state, task.waits, task.trigger_kind, task.trigger_id, task.scope, task.attempt, task.failures,
       task.created_at, task.finished_at, task.due_at, task.cancel_asked_at
FROM task
JOIN generation ON generation.id = task.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
WHERE task.org_id = %(org)s
  AND (%(before)s::uuid IS NULL OR task.id < %(before)s)
  AND (%(dag)s::text IS NULL OR dag.name = %(dag)s)
  AND (%(job)s::text IS NULL OR job_key.name = %(job)s)
  AND (%(state)s::task_state IS NULL OR task.state = %(state)s)
  AND (%(dags)s::uuid[] IS NULL OR task.dag_id = ANY(%(dags)s::uuid[]))
ORDER BY task.id DESC LIMIT %(limit)s

-- name: attempts_of_task
SELECT attempt, worker, dag_version, started_at, last_heartbeat_at, timed_out_at, ended_at, outcome, error_class, error_message, summary
FROM task_attempt WHERE task_id = %(task)s ORDER BY attempt

-- name: caused
-- A task and its cascade, by job: tasks of its batches and events, and theirs. One statement, for one snapshot:
-- a task becomes final in the transaction that makes the tasks of its events.
WITH RECURSIVE caused AS (
    SELECT task.id, task.generation_id, NULL::uuid AS cause, 0 AS depth FROM task WHERE task.id = %(task)s AND task.org_id = %(org)s
    UNION ALL
    SELECT next.id, next.generation_id, caused.generation_id, caused.depth + 1
    FROM caused
    CROSS JOIN LATERAL (
        SELECT ledger.task_id FROM dataset_event AS event JOIN event_ledger AS ledger ON ledger.event_id = event.id
        WHERE event.producer_task_id = caused.id AND ledger.task_id IS NOT NULL
        UNION ALL
        SELECT batch.task_id FROM batch WHERE batch.producer_task_id = caused.id
    ) AS made
    JOIN task AS next ON next.id = made.task_id
    WHERE %(dags)s::uuid[] IS NULL OR next.dag_id = ANY(%(dags)s::uuid[])
)
SELECT dag.name AS dag, job_key.name AS job, min(caused.depth) AS depth,
       (array_agg(above_dag.name || '/' || above.name ORDER BY caused.depth) FILTER (WHERE caused.cause <> caused.generation_id))[1] AS after,
       task.state, task.waits, count(*) AS number, (array_agg(task.id ORDER BY task.id))[1:%(most)s] AS some
FROM caused
JOIN task ON task.id = caused.id
JOIN generation ON generation.id = caused.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
LEFT JOIN generation AS cause ON cause.id = caused.cause
LEFT JOIN job_key AS above ON above.id = cause.job_key_id
LEFT JOIN dag AS above_dag ON above_dag.id = above.dag_id
GROUP BY dag.name, job_key.name, task.state, task.waits
ORDER BY depth, dag, job

-- name: newest
-- Of each job's newest tasks: the cost must not grow with finished tasks.
SELECT line.generation_id, newest.state, count(*) AS number
FROM unnest(%(generations)s::uuid[]) AS line (generation_id)
CROSS JOIN LATERAL (
    SELECT task.state FROM task WHERE task.generation_id = line.generation_id ORDER BY task.trigger_id DESC LIMIT %(newest)s
) AS newest
GROUP BY line.generation_id, newest.state

-- name: unfinished
-- By partial indexes and lines: the cost depends on the backlog, not on history.
SELECT org.name AS org, dag.name AS dag, job_key.name AS job, pool.runtime, pool.name AS pool, held.generation_id, held.state, held.waits, held.number
FROM (
    SELECT generation_id, pool_id, state, waits, count(*) AS number FROM (
        SELECT generation_id, pool_id, state, waits FROM task WHERE state = 'queued' AND seq IS NOT NULL
        UNION ALL
        SELECT generation_id, pool_id, state, waits FROM task WHERE ordinal IS NOT NULL AND state IN ('queued', 'running') AND waits = 'turn'
        UNION ALL
        SELECT generation_id, pool_id, state, waits FROM task WHERE waits = 'retry'
        UNION ALL
        SELECT generation_id, pool_id, state, waits FROM task WHERE waits = 'paused'
        UNION ALL
        SELECT generation_id, pool_id, state, waits FROM task WHERE waits = 'input'
        UNION ALL
        SELECT generation_id, pool_id, state, waits FROM task WHERE waits = 'line'
        UNION ALL
        SELECT generation_id, pool_id, state, waits FROM task WHERE waits = 'right'
        UNION ALL
        SELECT generation_id, pool_id, state, waits FROM task WHERE state = 'running'
        UNION ALL
        SELECT task.generation_id, task.pool_id, task.state, task.waits
        FROM line
        JOIN change ON change.generation_id = line.generation_id AND change.place > line.recorded
        JOIN task ON task.id = change.task_id
        WHERE line.decided > line.recorded AND task.state = 'committing'
    ) AS each
    GROUP BY generation_id, pool_id, state, waits
) AS held
JOIN generation ON generation.id = held.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
JOIN org ON org.id = dag.org_id
JOIN worker_pool AS pool ON pool.id = held.pool_id
WHERE %(generations)s::uuid[] IS NULL OR held.generation_id = ANY(%(generations)s::uuid[])
ORDER BY held.number DESC, org.name, dag.name, job_key.name, held.state, held.waits

-- name: release_lines
-- The next task that was superseded as often and waits for the line gets it.
UPDATE line SET reserved_task_id = (
    SELECT task.id FROM task
    WHERE task.generation_id = line.generation_id AND task.waits = 'line' AND task.superseded >= %(superseded)s AND task.id <> ALL(%(tasks)s::uuid[])
    ORDER BY task.id LIMIT 1
)
WHERE reserved_task_id = ANY(%(tasks)s::uuid[])

-- name: batches_of_task
SELECT id, producer_task_id, attempt, name, output_index, files, state, task_id FROM batch WHERE producer_task_id = %(task)s ORDER BY id

-- name: batch_to_adopt
SELECT id, producer_task_id, attempt, name, output_index, files, state, task_id FROM batch WHERE id = %(batch)s

-- name: to_sweep
-- Attempts that ended one retention ago, each with all its outputs; not while their change waits to be recorded or a batch of theirs to be adopted.
WITH ended AS (
    SELECT attempt.task_id, attempt.attempt, attempt.ended_at, task.org_id, task.generation_id
    FROM task_attempt AS attempt
    JOIN task ON task.id = attempt.task_id
    WHERE attempt.swept_at IS NULL AND attempt.base IS NOT NULL
      AND attempt.ended_at <= coalesce(%(now)s::timestamptz, now()) - %(retention)s::interval
      AND NOT (task.state = 'committing' AND task.attempt = attempt.attempt)
      AND NOT EXISTS (
          SELECT 1 FROM batch JOIN task AS adopting ON adopting.id = batch.task_id
          WHERE batch.producer_task_id = attempt.task_id AND batch.attempt = attempt.attempt AND adopting.state NOT IN ('completed', 'failed', 'canceled')
      )
      AND (attempt.sweep_not_before IS NULL OR attempt.sweep_not_before <= now())
    ORDER BY attempt.ended_at LIMIT %(room)s
)
SELECT ended.task_id, ended.attempt, ended.org_id, version.dataset_id, version.id AS dataset_version_id
FROM ended JOIN dataset_version AS version ON version.generation_id = ended.generation_id
ORDER BY ended.ended_at, ended.task_id, ended.attempt

-- name: postpone_sweep
UPDATE task_attempt SET sweep_not_before = now() + %(pause)s::interval WHERE task_id = %(task)s AND attempt = %(attempt)s

-- name: mark_swept
UPDATE task_attempt SET swept_at = now()
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS swept (task_id, attempt)
WHERE task_attempt.task_id = swept.task_id AND task_attempt.attempt = swept.attempt
