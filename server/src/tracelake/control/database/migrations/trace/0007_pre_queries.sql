-- What a query reads, fixed and committed before it opens the first file. A pin protects files from removal as long as its lease runs.
CREATE TABLE pin (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    caller text NOT NULL,
    user_id uuid REFERENCES app_user,
    token_id uuid REFERENCES api_token,  -- of a service
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_expires_at timestamptz NOT NULL,
    released_at timestamptz
);
CREATE INDEX pin_to_drop ON pin (lease_expires_at);
CREATE TABLE pin_dataset (
    pin_id uuid NOT NULL REFERENCES pin ON DELETE CASCADE,
    name text NOT NULL,                  -- as it was asked for: orders, or orders@3
    dataset_id uuid NOT NULL REFERENCES dataset,
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    version bigint NOT NULL,
    PRIMARY KEY (pin_id, name)
);
CREATE INDEX pin_dataset_of_version ON pin_dataset (dataset_version_id, version);

-- One line a query, written when it has ended.
CREATE TYPE query_status AS ENUM (
    'done',
    'refused',    -- not a statement that may run, or about a dataset that the caller may not read
    'failed',     -- the engine could not do what it says
    'over_limit'  -- it needed more time, memory or space than it may have
);
CREATE TABLE query_run (
    id uuid PRIMARY KEY,                 -- also of its pin, where it came to have one
    org_id uuid NOT NULL REFERENCES org,
    actor text NOT NULL,
    user_id uuid REFERENCES app_user,
    token_id uuid REFERENCES api_token,  -- of a service
    sql text NOT NULL,                   -- shown to its author alone
    sql_sha256 text NOT NULL,
    pins jsonb NOT NULL,
    status query_status NOT NULL,
    error_code text,
    result_hash text,
    left_out text[] NOT NULL,            -- columns that the hash leaves out
    row_count bigint,
    row_limit bigint NOT NULL,
    milliseconds double precision NOT NULL,
    engine_version text NOT NULL,
    replayable boolean NOT NULL,
    why_not text,
    replay_of uuid REFERENCES query_run,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT done_means_a_result CHECK ((status = 'done') = (error_code IS NULL) AND (status <> 'done' OR (result_hash IS NOT NULL AND row_count IS NOT NULL))),
    CONSTRAINT replayable_means_done CHECK (NOT replayable OR status = 'done'),
    CONSTRAINT not_replayable_means_a_reason CHECK (replayable OR status <> 'done' OR why_not IS NOT NULL)
);
CREATE INDEX query_run_of_org ON query_run (org_id, id DESC);
CALL make_append_only('query_run');

-- Statements that people keep; each is its author's alone.
CREATE TABLE saved_query (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    user_id uuid REFERENCES app_user,
    token_id uuid REFERENCES api_token,
    name text NOT NULL CONSTRAINT saved_query_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,127}$'),
    sql text NOT NULL,
    description text NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT saved_by_one CHECK (num_nonnulls(user_id, token_id) = 1),
    CONSTRAINT saved_once UNIQUE NULLS NOT DISTINCT (org_id, user_id, token_id, name)
);

GRANT SELECT, INSERT, UPDATE (lease_expires_at, released_at), DELETE ON pin TO tracelake_execute;
GRANT SELECT, INSERT ON pin_dataset TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (sql, description, saved_at), DELETE ON saved_query TO tracelake_execute;
