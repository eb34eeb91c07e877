-- LakeGuard: what good data means, what the platform guarantees, what was found, and what was decided.
-- Definitions are an admin's act: they change by appending a revision, under a role of their own.
CREATE PROCEDURE make_definition(defined regclass) LANGUAGE plpgsql AS $$
BEGIN
    CALL make_append_only(defined);
    EXECUTE format('REVOKE INSERT ON %s FROM tracelake_execute', defined);
    EXECUTE format('GRANT INSERT ON %s TO tracelake_define', defined);
END $$;

-- Results and decisions are inserted by the deciding side alone.
CREATE PROCEDURE make_decision(decided regclass) LANGUAGE plpgsql AS $$
BEGIN
    CALL make_append_only(decided);
    EXECUTE format('REVOKE INSERT ON %s FROM tracelake_execute', decided);
    EXECUTE format('GRANT INSERT ON %s TO tracelake_decide', decided);
END $$;

REVOKE INSERT ON dataset, dataset_revision, dataset_version, generation, job, job_input, pointer, dag_version, dag_activation FROM tracelake_execute;
REVOKE INSERT, UPDATE, DELETE ON dataset_name FROM tracelake_execute;
GRANT INSERT ON dataset, dataset_revision, dataset_version, generation, job, job_input, pointer, dag_version, dag_activation TO tracelake_define;
GRANT INSERT, UPDATE (dataset_id), DELETE ON dataset_name TO tracelake_define;

-- Whether its versions are tables of files; the datasets of the dispatcher's own operators are events and ranges only.
ALTER TABLE dataset ADD COLUMN has_files boolean NOT NULL DEFAULT false;

CREATE TYPE severity AS ENUM (
    'FAIL',  -- blocks
    'WARN'   -- is recorded
);
CREATE TYPE rule_scope AS ENUM (
    'batch',  -- what the task wrote
    'table'   -- the whole table as it would be
);
CREATE TABLE quality_rule (
    id uuid NOT NULL,
    revision integer NOT NULL CONSTRAINT rule_revisions_start_at_one CHECK (revision >= 1),
    org_id uuid NOT NULL REFERENCES org,
    dataset_id uuid NOT NULL REFERENCES dataset,
    rule_type text NOT NULL,
    rule_expression text NOT NULL,     -- as it was written
    tree jsonb NOT NULL,               -- as it was parsed, once; what both engines compile
    severity severity NOT NULL,
    scope rule_scope NOT NULL,
    active boolean NOT NULL,
    actor text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (id, revision)
);
CREATE INDEX quality_rule_of_dataset ON quality_rule (dataset_id, id, revision DESC);
CALL make_definition('quality_rule');

CREATE TYPE enforcement AS ENUM (
    'BLOCK',  -- absolute
    'ALERT'   -- is recorded, and the promotion passes
);
CREATE TABLE policy_rule (
    id uuid NOT NULL,
    revision integer NOT NULL CONSTRAINT policy_revisions_start_at_one CHECK (revision >= 1),
    org_id uuid NOT NULL REFERENCES org,
    applies_to_layer layer NOT NULL,
    policy_type text NOT NULL,
    policy_expression text NOT NULL,
    enforcement enforcement NOT NULL,
    active boolean NOT NULL,
    actor text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (id, revision)
);
CREATE INDEX policy_rule_of_layer ON policy_rule (org_id, applies_to_layer, id, revision DESC);
CALL make_definition('policy_rule');

-- One row a decision: one candidate, that is one run's output of one dataset, allowed or not, with the reason.
CREATE TYPE gate_stage AS ENUM (
    'eligibility',  -- is the dataset registered, active, and fed from the layer below by what was promoted
    'execution',    -- did the run succeed, and are its rows where it said they would be
    'policies',
    'quality',
    'decision'      -- nothing refused it
);
CREATE TABLE promotion_status (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL,
    dataset_id uuid NOT NULL REFERENCES dataset,
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    run_id text NOT NULL UNIQUE,       -- the candidate
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    from_layer text NOT NULL CONSTRAINT from_the_layer_below CHECK ((from_layer, to_layer) IN (('source', 'bronze'), ('bronze', 'silver'), ('silver', 'gold'))),
    to_layer layer NOT NULL,
    allowed boolean NOT NULL,
    stage gate_stage NOT NULL,         -- where it was decided
    reason text NOT NULL,              -- a sentence
    evidence jsonb NOT NULL,           -- the place it was taken at, the pins of everything it read, and the state it used
    evaluated_at timestamptz NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT allowed_means_decided CHECK (allowed = (stage = 'decision')),
    UNIQUE (id, allowed)               -- what a change refers to: it cannot name a refusal
);
CREATE INDEX promotion_status_of_dataset ON promotion_status (dataset_id, seq DESC);
CALL make_decision('promotion_status');

CREATE TYPE gate_verdict AS ENUM (
    'pass',
    'warn',           -- broken, and only recorded
    'fail',           -- broken, and it blocks
    'error',          -- could not be evaluated, and it blocks
    'not_evaluated'   -- something before it refused already; never a pass
);
CREATE TABLE quality_result (
    promotion_id uuid NOT NULL REFERENCES promotion_status,
    number integer NOT NULL,
    rule_id uuid,                      -- null for the rule that every output has: no rows outside the announced scope
    revision integer,
    rule_type text NOT NULL,
    verdict gate_verdict NOT NULL,
    violations bigint,
    examined bigint,
    method text,
    milliseconds double precision,
    samples jsonb NOT NULL DEFAULT '[]',
    sentence text NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (promotion_id, number),
    FOREIGN KEY (rule_id, revision) REFERENCES quality_rule (id, revision)
);
CALL make_decision('quality_result');

CREATE TABLE policy_result (
    promotion_id uuid NOT NULL REFERENCES promotion_status,
    number integer NOT NULL,
    policy_id uuid NOT NULL,
    revision integer NOT NULL,
    policy_type text NOT NULL,
    verdict gate_verdict NOT NULL,
    sentence text NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (promotion_id, number),
    FOREIGN KEY (policy_id, revision) REFERENCES policy_rule (id, revision)
);
CALL make_decision('policy_result');
