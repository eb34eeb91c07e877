-- OpenLakeTx: files, scopes, the line, and the versions that come out of it.
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- Where a scope lies among all scopes of a table, as a range of text in the order of bytes: everything is (,), a partition key or a cursor value
-- is one point, a range is itself. So one operator says whether any two scopes overlap.
CREATE TYPE scope_span AS RANGE (SUBTYPE = text, COLLATION = "C");

-- A change takes its place when it is decided; places are frozen, put and recorded strictly in order.
ALTER TABLE line
    ADD COLUMN decided bigint NOT NULL DEFAULT 0,
    ADD COLUMN frozen bigint NOT NULL DEFAULT 0,
    ADD COLUMN recorded bigint NOT NULL DEFAULT 0,
    ADD COLUMN stopped_at timestamptz,           -- a foreign writer touched a table of it; nothing moves until a person looked
    ADD COLUMN stopped_reason text,
    ADD COLUMN turn_task_id uuid,                -- after two rebases: other completions wait for this attempt
    ADD COLUMN turn_attempt integer,
    ADD COLUMN reserved_task_id uuid,            -- superseded twice: this task runs alone
    ADD CONSTRAINT places_come_in_order CHECK (recorded <= frozen AND frozen <= decided),
    ADD CONSTRAINT stopped_means_a_reason CHECK ((stopped_at IS NULL) = (stopped_reason IS NULL)),
    ADD CONSTRAINT a_turn_is_an_attempts CHECK ((turn_task_id IS NULL) = (turn_attempt IS NULL));
CREATE INDEX line_to_move ON line (generation_id) WHERE decided > recorded AND stopped_at IS NULL;
CREATE INDEX line_reserved ON line (reserved_task_id) WHERE reserved_task_id IS NOT NULL;

-- One deciding transaction's change of all outputs of a job.
CREATE TABLE change (
    generation_id uuid NOT NULL REFERENCES generation,
    place bigint NOT NULL CONSTRAINT places_start_at_one CHECK (place >= 1),
    task_id uuid NOT NULL REFERENCES task,
    attempt integer NOT NULL,
    base bigint NOT NULL,              -- the decided place that it was measured against
    custom jsonb NOT NULL,             -- what the operator wants kept with its materializations
    decided_at timestamptz NOT NULL,
    PRIMARY KEY (generation_id, place),
    UNIQUE (task_id, attempt),
    CONSTRAINT built_on_what_was_there CHECK (base < place)
);
CALL make_decision('change');
CREATE UNIQUE INDEX one_change_per_task ON change (task_id);

-- What a change does to one output. It refers to the decision that allows it; a refusal cannot be referred to.
CREATE TABLE change_output (
    generation_id uuid NOT NULL,
    place bigint NOT NULL,
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    promotion_id uuid NOT NULL,
    allowed boolean NOT NULL DEFAULT true CONSTRAINT only_what_is_allowed CHECK (allowed),
    table_schema jsonb NOT NULL,       -- of the table after it
    schema_hash text NOT NULL,
    row_count bigint NOT NULL,         -- of the table after it
    fingerprint text NOT NULL,         -- of config, scope and pins: the same again is unchanged
    PRIMARY KEY (generation_id, place, dataset_version_id),
    FOREIGN KEY (generation_id, place) REFERENCES change,
    FOREIGN KEY (promotion_id, allowed) REFERENCES promotion_status (id, allowed)
);
CREATE INDEX change_output_of_version ON change_output (dataset_version_id, place DESC);
CALL make_decision('change_output');

-- The scopes that a change wrote.
CREATE TABLE change_scope (
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    place bigint NOT NULL,
    scope jsonb NOT NULL,
    span scope_span NOT NULL,
    kind event_kind NOT NULL,          -- first time, or anew
    PRIMARY KEY (dataset_version_id, place, span)
);
CALL make_decision('change_scope');

-- The scopes that are there as of the decided place. They never overlap.
CREATE TABLE scope_state (
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    scope jsonb NOT NULL,
    span scope_span NOT NULL,
    place bigint NOT NULL,             -- of the change that wrote it last
    CONSTRAINT scopes_never_overlap EXCLUDE USING gist (dataset_version_id WITH =, span WITH &&)
);

-- Files that are, or were, part of a table. Without a row here a file does not exist.
CREATE TABLE data_file (
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    path text NOT NULL CONSTRAINT paths_are_plain CHECK (path ~ '^[A-Za-z0-9_./-]+$' AND path !~ '(^|/)[.]{1,2}(/|$)' AND left(path, 1) <> '/'),
    scope jsonb NOT NULL,
    span scope_span NOT NULL,
    added_place bigint NOT NULL,
    removed_place bigint,
    added_version bigint,              -- filled in when the place is recorded
    removed_version bigint,
    size bigint NOT NULL,
    rows bigint NOT NULL,
    statistics jsonb NOT NULL,
    schema_hash text NOT NULL,
    seal text NOT NULL,
    key_min jsonb,                     -- of the first column of the job's unique key
    key_max jsonb,
    hashes text,                       -- path of its sidecar
    PRIMARY KEY (dataset_version_id, path),
    CONSTRAINT removed_after_added CHECK (removed_place IS NULL OR removed_place > added_place),
    CONSTRAINT recorded_in_order CHECK (removed_version IS NULL OR (added_version IS NOT NULL AND removed_place IS NOT NULL AND removed_version > added_version))
);
CREATE INDEX data_file_current ON data_file (dataset_version_id, added_place) WHERE removed_place IS NULL;
CREATE INDEX data_file_added ON data_file (dataset_version_id, added_place);
CREATE INDEX data_file_removed ON data_file (dataset_version_id, removed_place) WHERE removed_place IS NOT NULL;
CREATE INDEX data_file_span ON data_file USING gist (dataset_version_id, span) WHERE removed_place IS NULL;

-- The exact bytes of the next log entry, stored before it is written and never changed; cleared once recorded, the hash stays.
CREATE TABLE delta_commit (
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    delta_version bigint NOT NULL,
    generation_id uuid NOT NULL,
    first_place bigint NOT NULL,
    last_place bigint NOT NULL,
    body bytea,
    sha256 bytea NOT NULL,
    written_as timestamptz NOT NULL,   -- the decision's time, which becomes the log entry's modification time
    frozen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    recorded_at timestamptz,
    PRIMARY KEY (dataset_version_id, delta_version),
    CONSTRAINT cleared_once_recorded CHECK ((body IS NULL) = (recorded_at IS NOT NULL))
);
CREATE INDEX delta_commit_to_put ON delta_commit (generation_id, first_place) WHERE recorded_at IS NULL;

-- A promoted state of a dataset. One counter per dataset over all its generations, without gaps.
CREATE TABLE version_counter (
    dataset_id uuid PRIMARY KEY REFERENCES dataset,
    last bigint NOT NULL
);
CREATE TABLE data_version (
    dataset_id uuid NOT NULL REFERENCES dataset,
    version bigint NOT NULL,
    org_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    delta_version bigint NOT NULL,
    snapshot_ref text NOT NULL,        -- delta:{dataset_version}@{delta_version}
    table_schema jsonb NOT NULL,
    schema_hash text NOT NULL,
    row_count bigint NOT NULL,
    promoted_at timestamptz NOT NULL,
    promoted_by text NOT NULL,         -- the run of its last part
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (dataset_id, version),
    UNIQUE (dataset_version_id, delta_version),
    FOREIGN KEY (dataset_version_id, delta_version) REFERENCES delta_commit (dataset_version_id, delta_version)
);
CREATE INDEX data_version_of_table ON data_version (dataset_version_id, version DESC);
CALL make_decision('data_version');

-- The changes that one version carries.
CREATE TABLE data_version_member (
    dataset_id uuid NOT NULL,
    version bigint NOT NULL,
    generation_id uuid NOT NULL,
    place bigint NOT NULL,
    dataset_version_id uuid NOT NULL,
    PRIMARY KEY (dataset_id, version, place),
    FOREIGN KEY (dataset_id, version) REFERENCES data_version (dataset_id, version),
    FOREIGN KEY (generation_id, place, dataset_version_id) REFERENCES change_output (generation_id, place, dataset_version_id)
);
CALL make_decision('data_version_member');

-- The fact that one task produced one scope of a dataset version.
CREATE TABLE materialization (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    version bigint NOT NULL,
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    scope jsonb NOT NULL,
    span scope_span NOT NULL,
    custom jsonb NOT NULL,
    at timestamptz NOT NULL,
    UNIQUE (task_id, dataset_version_id, span),
    FOREIGN KEY (dataset_id, version) REFERENCES data_version (dataset_id, version)
);
CREATE INDEX materialization_of_version ON materialization (dataset_id, version);
CALL make_decision('materialization');
CREATE TABLE materialization_input (
    materialization_id uuid NOT NULL REFERENCES materialization,
    index integer NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (materialization_id, index)
);
CALL make_decision('materialization_input');

-- What an attempt was given: its base, its scopes, its pins.
ALTER TABLE task_attempt
    ADD COLUMN base bigint,            -- the line's decided place when it was claimed, or of its last rebase
    ADD COLUMN scopes jsonb,           -- by output index: {everything, scopes}
    ADD COLUMN rebases integer NOT NULL DEFAULT 0,
    ADD COLUMN swept_at timestamptz;   -- its staging folder holds nothing any more that no table names
ALTER TABLE task ADD COLUMN superseded integer NOT NULL DEFAULT 0;
CREATE INDEX task_waits_input ON task (generation_id) WHERE waits = 'input';
CREATE INDEX task_waits_line ON task (generation_id) WHERE waits = 'line';
CREATE INDEX task_running ON task (generation_id) WHERE state = 'running';
CREATE INDEX task_attempt_to_sweep ON task_attempt (ended_at) WHERE swept_at IS NULL AND base IS NOT NULL;
CREATE TABLE task_input (
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    index integer NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (task_id, attempt, index)
);
CALL make_append_only('task_input');

-- A finished part of a running task's work, stored before its producer goes on.
CREATE TABLE batch (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL,
    producer_task_id uuid NOT NULL REFERENCES task,
    attempt integer NOT NULL,          -- whose staging folder its files are in
    name text NOT NULL,
    output_index integer NOT NULL,
    files text[] NOT NULL,
    state jsonb,
    task_id uuid NOT NULL,             -- that adopts it
    posted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (producer_task_id, name)
);
CALL make_append_only('batch');

GRANT UPDATE (decided, frozen, recorded, stopped_at, stopped_reason, turn_task_id, turn_attempt, reserved_task_id) ON line TO tracelake_execute;
GRANT SELECT ON scope_state, data_file, delta_commit, version_counter TO tracelake_execute;
GRANT INSERT, UPDATE, DELETE ON scope_state TO tracelake_decide;
GRANT INSERT, UPDATE (removed_place, added_version, removed_version) ON data_file TO tracelake_decide;
GRANT INSERT, UPDATE (body, recorded_at) ON delta_commit TO tracelake_decide;
GRANT INSERT, UPDATE (last) ON version_counter TO tracelake_decide;

-- The six tables with the columns that auditors rely on.
CREATE VIEW dataset_registry AS
SELECT dataset.id::text AS dataset_id, name.name AS dataset_name, revision.domain, dataset.layer, revision.owner, revision.description, revision.active,
       dataset.created_at, dataset.org_id, revision.revision
FROM dataset
JOIN dataset_revision AS revision ON revision.dataset_id = dataset.id
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id;
CREATE VIEW data_versions AS
SELECT dataset_id::text AS dataset_id, version, snapshot_ref, schema_hash, row_count, promoted_at, promoted_by, org_id, seq FROM data_version;
CREATE VIEW quality_rules AS
SELECT rule.id::text AS rule_id, rule.dataset_id::text AS dataset_id, dataset.layer, rule.rule_type, rule.rule_expression, rule.severity, rule.active,
       rule.org_id, rule.revision
FROM quality_rule AS rule JOIN dataset ON dataset.id = rule.dataset_id;
CREATE VIEW policy_rules AS
SELECT id::text AS policy_id, applies_to_layer, policy_type, policy_expression, enforcement, active, org_id, revision FROM policy_rule;
GRANT SELECT ON dataset_registry, data_versions, quality_rules, policy_rules TO tracelake_execute;
