-- How many rows of a table break a rule about the whole table, as of the last place that changed it. Mergeable: the next append adds what it
-- repeats, so that the table is read once and not with every append.
CREATE TABLE table_rule_state (
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    rule_id uuid NOT NULL,
    revision integer NOT NULL,
    place bigint NOT NULL,
    violations bigint NOT NULL CONSTRAINT violations_are_counted CHECK (violations >= 0),
    PRIMARY KEY (dataset_version_id, rule_id),
    FOREIGN KEY (rule_id, revision) REFERENCES quality_rule (id, revision)
);
GRANT SELECT ON table_rule_state TO tracelake_execute;
GRANT INSERT, UPDATE (revision, place, violations) ON table_rule_state TO tracelake_decide;

-- The DAG version that an attempt ran under: the active one when it was claimed. Null for attempts before this column.
ALTER TABLE task_attempt ADD COLUMN dag_version integer;
ALTER TABLE run_history ADD COLUMN dag_version integer;

-- Tasks that hold one of their job's turns, and tasks that wait for a right.
CREATE INDEX task_has_turn ON task (generation_id) WHERE ordinal IS NOT NULL AND state IN ('queued', 'running') AND waits IS NULL;
CREATE INDEX task_waits_right ON task (generation_id) WHERE waits = 'right';

-- Up to which event the ledger was verified, and what was found missing; ids are in the order of time.
CREATE TABLE event_accounting (
    one boolean PRIMARY KEY DEFAULT true CONSTRAINT one_row CHECK (one),
    verified_up_to uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);
INSERT INTO event_accounting DEFAULT VALUES;
CREATE TABLE unaccounted_event (
    event_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, generation_id)
);
CALL make_append_only('unaccounted_event');
GRANT SELECT, UPDATE (verified_up_to) ON event_accounting TO tracelake_execute;
