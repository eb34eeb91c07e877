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
-- The next tasks of each line may be claimed, as many as its job has free turns. Call it under the lines' locks. In a job that keeps an order
-- the first unfinished tasks have the turns, whatever they wait for; in another one only what runs or may be claimed has one.
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
-- Not what adopts a batch: it is part of the run that posted it, which goes on and waits for it.
UPDATE task SET seq = NULL, waits = 'paused' WHERE id = ANY(%(tasks)s::uuid[]) AND state = 'queued' AND trigger_kind <> 'batch'
RETURNING id

-- name: queued_of_generations
-- By the two partial indexes that hold them: what it costs is the backlog, never the history.
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

-- name: lock_claim
-- A statement of its own: the next one then sees what an equal claim has committed meanwhile.
SELECT pg_advisory_xact_lock(hashtextextended('claim ' || encode(%(claim)s, 'hex'), 0))

-- name: held_by_claim
SELECT task.id, task.org_id, task.generation_id, task.pool_id, task.attempt, task.trigger_kind, task.trigger_id, task.scope, task.request,
       task.lease_expires_at, attempt.attempt = task.attempt AND task.state = 'running' AS open
FROM task_attempt AS attempt
JOIN task ON task.id = attempt.task_id
WHERE attempt.claim_sha256 = %(claim)s AND task.org_id = %(org)s
ORDER BY task.id

-- name: candidates
-- Read without a lock: what others hold is seen and stays known, so that the watermark never overtakes it. One index
-- entry is read for each candidate, however many dead ones lie before it.
SELECT id, seq FROM task
WHERE state = 'queued' AND seq IS NOT NULL AND pool_id = %(pool)s AND seq >= %(low)s
ORDER BY seq LIMIT %(room)s

-- name: claim
-- SKIP LOCKED: workers pass each other instead of waiting in line. `waits IS NULL` says that it still has its place;
-- said by `seq`, the planner would read the whole queue's index for it.
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
-- Attempts whose lease ran out and that never reported become final when the next attempt starts.
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

-- name: places
-- What must be known to lock: read unlocked, checked again after.
SELECT id, dag_id, generation_id, ordinal FROM task WHERE id = ANY(%(tasks)s::uuid[]) AND org_id = %(org)s

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
SELECT id, org_id, dag_id, generation_id, ordinal FROM task
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
-- The attempt stays open: a late report is welcome until somebody else starts.
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
SELECT id, org_id, dag_id, generation_id, ordinal FROM task
WHERE waits = 'retry' AND due_at <= coalesce(%(now)s::timestamptz, now())
ORDER BY due_at LIMIT %(room)s

-- name: lock_due
SELECT id, generation_id FROM task
WHERE id = ANY(%(tasks)s::uuid[]) AND waits = 'retry' AND due_at <= coalesce(%(now)s::timestamptz, now())
ORDER BY id FOR UPDATE SKIP LOCKED

-- name: ask_cancel
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
-- A task and every task behind it, by job: those of its batches and of its events, and theirs. One statement, so that nothing is between two looks:
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

-- name: for_payload
SELECT id, org_id, generation_id, pool_id, attempt, state, trigger_kind, trigger_id, scope, request, lease_expires_at
FROM task WHERE id = %(task)s AND org_id = %(org)s
  AND (%(pools)s::text[] IS NULL OR EXISTS (SELECT 1 FROM worker_pool AS pool WHERE pool.id = task.pool_id AND pool.name = ANY(%(pools)s::text[])))

-- name: newest
-- Of each job's newest tasks: what a person looks at must not cost more with every task that ever finished.
SELECT line.generation_id, newest.state, count(*) AS number
FROM unnest(%(generations)s::uuid[]) AS line (generation_id)
CROSS JOIN LATERAL (
    SELECT task.state FROM task WHERE task.generation_id = line.generation_id ORDER BY task.trigger_id DESC LIMIT %(newest)s
) AS newest
GROUP BY line.generation_id, newest.state

-- name: unfinished
-- By the partial indexes and the lines that hold them: what it costs is the backlog, never the history.
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

-- name: clock
SELECT coalesce(%(now)s::timestamptz, clock_timestamp())

-- name: pins_of_attempts
SELECT input.task_id, input.attempt, input.index, input.dataset_id, input.dataset_version_id, input.version
FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS fence (task_id, attempt)
JOIN task_input AS input ON input.task_id = fence.task_id AND input.attempt = fence.attempt
ORDER BY input.index

-- name: holds_lease
-- Whether this attempt may still report within its lease.
SELECT EXISTS (SELECT 1 FROM task WHERE id = %(task)s AND attempt = %(attempt)s AND state = 'running' AND lease_expires_at > clock_timestamp())

-- name: announce
-- What each attempt that starts now builds on: base first, then scopes and pins that were read after it.
WITH based AS (
    UPDATE task_attempt SET base = told.base, scopes = told.scopes
    FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[], %(bases)s::bigint[], %(scopes)s::jsonb[]) AS told (task_id, attempt, base, scopes)
    WHERE task_attempt.task_id = told.task_id AND task_attempt.attempt = told.attempt
)
INSERT INTO task_input (task_id, attempt, index, dataset_id, dataset_version_id, version)
SELECT * FROM unnest(
    %(pin_tasks)s::uuid[], %(pin_attempts)s::integer[], %(pin_indexes)s::integer[], %(pin_datasets)s::uuid[], %(pin_tables)s::uuid[], %(pin_versions)s::bigint[]
)

-- name: rebase
UPDATE task_attempt SET base = %(base)s, rebases = rebases + 1 WHERE task_id = %(task)s AND attempt = %(attempt)s

-- name: count_superseded
UPDATE task SET superseded = superseded + 1 WHERE id = ANY(%(tasks)s::uuid[])

-- name: release_lines
-- The next one that was superseded as often, and waits for the line, has it then.
UPDATE line SET reserved_task_id = (
    SELECT task.id FROM task
    WHERE task.generation_id = line.generation_id AND task.waits = 'line' AND task.superseded >= %(superseded)s AND task.id <> ALL(%(tasks)s::uuid[])
    ORDER BY task.id LIMIT 1
)
WHERE reserved_task_id = ANY(%(tasks)s::uuid[])

-- name: held_back
-- Of these queued tasks of jobs that write files: those that cannot be claimed now, and what each waits for.
-- Not through current_job: with its joins the planner takes ten times as long, and every claim asks this.
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
-- Tasks that wait for an input's first version or for their line: the oldest of each job, so that no job's backlog hides another's.
SELECT oldest.id, oldest.org_id, oldest.dag_id, oldest.generation_id, oldest.ordinal
FROM (SELECT DISTINCT generation_id FROM task WHERE waits IN ('input', 'line')) AS waiting
JOIN line ON line.generation_id = waiting.generation_id
CROSS JOIN LATERAL (
    SELECT task.id, task.org_id, task.dag_id, task.generation_id, task.ordinal FROM task
    WHERE task.generation_id = waiting.generation_id AND task.waits IN ('input', 'line')
    ORDER BY (task.id = line.reserved_task_id) IS TRUE DESC, task.id LIMIT %(room)s
) AS oldest

-- name: lock_waiting
SELECT id, generation_id FROM task WHERE id = ANY(%(tasks)s::uuid[]) AND waits IN ('input', 'line', 'right') ORDER BY id FOR UPDATE SKIP LOCKED

-- name: waiting_for_a_right
SELECT oldest.id, oldest.org_id, oldest.dag_id, oldest.generation_id, oldest.ordinal
FROM (SELECT DISTINCT generation_id FROM task WHERE waits = 'right') AS waiting
CROSS JOIN LATERAL (
    SELECT task.id, task.org_id, task.dag_id, task.generation_id, task.ordinal FROM task
    WHERE task.generation_id = waiting.generation_id AND task.waits = 'right'
    ORDER BY task.id LIMIT %(room)s
) AS oldest

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
-- A table that is cut and holds nothing yet may be written without any scope.
SELECT output.place, output.dataset_version_id, output.table_schema, output.schema_hash, output.row_count, scope.scope, scope.kind
FROM change_output AS output
LEFT JOIN change_scope AS scope ON scope.dataset_version_id = output.dataset_version_id AND scope.place = output.place
WHERE output.generation_id = %(generation)s AND output.place BETWEEN (SELECT recorded + 1 FROM line WHERE generation_id = %(generation)s) AND %(last)s
ORDER BY output.place, scope.span

-- name: draw_versions
-- The next number of each dataset that has a log entry to record. Taken under these rows' locks: strictly increasing, without gaps, over all generations.
INSERT INTO version_counter (dataset_id, last)
SELECT DISTINCT version.dataset_id, 1
FROM delta_commit AS entry
JOIN dataset_version AS version ON version.id = entry.dataset_version_id
WHERE entry.generation_id = %(generation)s AND entry.recorded_at IS NULL AND entry.last_place <= %(last)s
ORDER BY version.dataset_id
ON CONFLICT (dataset_id) DO UPDATE SET last = version_counter.last + 1
RETURNING dataset_id, last

-- name: lock_changed
-- The tasks behind the changes to record, by their ids: joined, they might be locked in another order.
SELECT id, org_id, dag_id, generation_id, pool_id, state, ordinal, attempt, failures, trigger_kind, trigger_id, cancel_asked_at, superseded
FROM task WHERE id = ANY(ARRAY(
    SELECT task_id FROM change
    WHERE generation_id = %(generation)s AND place BETWEEN (SELECT recorded + 1 FROM line WHERE generation_id = %(generation)s) AND %(last)s
))
ORDER BY id FOR UPDATE

-- name: batches_of_task
SELECT id, producer_task_id, attempt, name, output_index, files, state, task_id FROM batch WHERE producer_task_id = %(task)s ORDER BY id

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

-- name: batch_to_adopt
SELECT id, producer_task_id, attempt, name, output_index, files, state, task_id FROM batch WHERE id = %(batch)s

-- name: add_batch
INSERT INTO batch (id, org_id, producer_task_id, attempt, name, output_index, files, state, task_id)
VALUES (%(id)s, %(org)s, %(producer)s, %(attempt)s, %(name)s, %(output)s, %(files)s::text[], %(state)s::jsonb, %(task)s)

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
