CREATE TYPE event_kind AS ENUM (
    'materialized',  -- the scope exists for the first time
    'rewritten'      -- the scope exists anew: the invalidation of every consumer
);

-- Sameness comes from the idempotency row of (producer_task_id, dataset, scope, revision), never from the id.
CREATE TABLE dataset_event (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL,
    dataset_id uuid NOT NULL REFERENCES dataset,
    dataset_version_id uuid NOT NULL,
    producer_task_id uuid NOT NULL,
    kind event_kind NOT NULL,
    scope jsonb NOT NULL,
    revision text NOT NULL,
    event_time timestamptz,
    payload jsonb NOT NULL,
    told_at timestamptz NOT NULL,      -- read after the routing lock was taken
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX dataset_event_of_dataset ON dataset_event (dataset_id, id);
CALL make_append_only('dataset_event');

CREATE TYPE told AS ENUM (
    'task',      -- one task was made
    'filtered'   -- the edge's own `where` passes it by
);
-- Accounts for every (event, subscriber), a subscriber being a generation of a consuming job.
CREATE TABLE event_ledger (
    event_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    outcome told NOT NULL,
    task_id uuid,
    CONSTRAINT a_task_where_one_was_made CHECK ((outcome = 'task') = (task_id IS NOT NULL)),
    PRIMARY KEY (event_id, generation_id)
);
CALL make_append_only('event_ledger');

CREATE TYPE task_state AS ENUM (
    'queued',      -- waits to be claimed, or for its turn, its time, or a resume
    'running',     -- claimed by a worker under a lease
    'committing',  -- decided; its commit cannot be stopped any more
    'completed',   -- done, recorded
    'failed',      -- final: no attempt left, or refused
    'canceled'     -- final: a person said stop
);
CREATE TYPE trigger_kind AS ENUM (
    'event',       -- an event of a dataset that the job subscribes to
    'request'      -- a person or a service asked for a run
);
CREATE TYPE waits AS ENUM (
    'turn',        -- earlier tasks of its job come first
    'paused',      -- its job or its DAG is paused
    'retry'        -- the next attempt is not due yet
);

-- Every generation has one line: what must happen in order happens under its row lock.
CREATE TABLE line (
    generation_id uuid PRIMARY KEY REFERENCES generation,
    next_ordinal bigint NOT NULL DEFAULT 1
);

CREATE SEQUENCE task_seq;
CREATE TABLE task (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL,
    dag_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    pool_id uuid NOT NULL,
    state task_state NOT NULL DEFAULT 'queued',
    waits waits,
    seq bigint,                        -- place in the queue; only what can be claimed has one
    ordinal bigint,                    -- turn within the job; only where the job has turns, kept by retries
    attempt integer NOT NULL DEFAULT 0,   -- numbers claims
    failures integer NOT NULL DEFAULT 0,  -- reported failures and timeouts: what max_attempts limits
    trigger_kind trigger_kind NOT NULL,
    trigger_id uuid NOT NULL,
    scope jsonb,
    request jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz,
    lease_expires_at timestamptz,
    cancel_asked_at timestamptz,
    finished_at timestamptz,
    CONSTRAINT one_task_per_trigger UNIQUE (generation_id, trigger_id),
    CONSTRAINT running_means_leased CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT queued_means_claimable_or_waiting CHECK ((state = 'queued') = (num_nonnulls(seq, waits) = 1)),
    CONSTRAINT not_queued_means_no_place CHECK (state = 'queued' OR num_nonnulls(seq, waits) = 0),
    CONSTRAINT final_means_finished CHECK ((state IN ('completed', 'failed', 'canceled')) = (finished_at IS NOT NULL)),
    CONSTRAINT retry_means_due CHECK (waits IS DISTINCT FROM 'retry' OR due_at IS NOT NULL),
    CONSTRAINT turn_means_ordinal CHECK (waits IS DISTINCT FROM 'turn' OR ordinal IS NOT NULL),
    CONSTRAINT failures_are_attempts CHECK (failures <= attempt)
);
CREATE INDEX task_queue ON task (pool_id, seq) WHERE state = 'queued' AND seq IS NOT NULL;
CREATE INDEX task_leased ON task (lease_expires_at) WHERE state = 'running';
CREATE INDEX task_due ON task (due_at) WHERE waits = 'retry';
CREATE INDEX task_paused ON task (generation_id) WHERE waits = 'paused';
CREATE UNIQUE INDEX task_turn ON task (generation_id, ordinal) WHERE ordinal IS NOT NULL AND state IN ('queued', 'running');
CREATE INDEX task_scope ON task (generation_id, md5(scope::text)) WHERE ordinal IS NOT NULL AND state = 'completed';

CREATE TYPE attempt_outcome AS ENUM (
    'succeeded',
    'failed',
    'canceled',
    'timed_out',   -- its lease ran out and it never reported
    'superseded',  -- the state it built on had moved; queued again
    'given_back'   -- its worker stopped before it ran; queued again
);
CREATE TABLE task_attempt (
    task_id uuid NOT NULL REFERENCES task,
    attempt integer NOT NULL,
    claim_sha256 bytea NOT NULL,       -- of the claim that made it; the same claim again returns it
    token_sha256 bytea NOT NULL,       -- of the lease token, which is nowhere
    worker text NOT NULL,
    started_at timestamptz NOT NULL,
    last_heartbeat_at timestamptz,
    state_revision bigint,             -- the operator state it was handed: its base
    deadline_at timestamptz NOT NULL,  -- no heartbeat carries the lease past the job's timeout
    timed_out_at timestamptz,          -- set once, by the reaper
    ended_at timestamptz,
    outcome attempt_outcome,
    error_class text,
    error_message text,
    body_sha256 bytea,                 -- of the completion that was taken
    result jsonb,                      -- what that completion was answered
    CONSTRAINT ended_means_an_outcome CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CONSTRAINT taken_means_answered CHECK ((body_sha256 IS NULL) = (result IS NULL)),
    PRIMARY KEY (task_id, attempt)
);
CREATE INDEX task_attempt_of_claim ON task_attempt (claim_sha256);

CREATE TABLE operator_state (
    generation_id uuid PRIMARY KEY REFERENCES generation,
    revision bigint NOT NULL CONSTRAINT revisions_start_at_one CHECK (revision >= 1),
    value jsonb NOT NULL
);

CREATE TYPE run_status AS ENUM (
    'SUCCESS',   -- the task completed
    'FAILED',    -- everything else that is final, with its reason
    'BLOCKED'    -- the gate refused it
);
-- Exactly one row per attempt and output, written by whatever makes the attempt final.
CREATE TABLE run_history (
    run_id text PRIMARY KEY,           -- {task_id}:{attempt}, with :{output_index} when the job has more than one output
    org_id uuid NOT NULL,
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    generation_id uuid NOT NULL,
    dataset_id uuid,
    layer layer,
    status run_status NOT NULL,
    start_time timestamptz NOT NULL,
    end_time timestamptz NOT NULL,
    error_message text,
    triggered_by text NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX run_history_of_generation ON run_history (generation_id, seq);
CALL make_append_only('run_history');

GRANT SELECT, INSERT, UPDATE (next_ordinal) ON line TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE ON task, task_attempt, operator_state TO tracelake_execute;
GRANT USAGE ON SEQUENCE task_seq TO tracelake_execute;
