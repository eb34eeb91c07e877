CREATE TABLE worker_pool (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    runtime text NOT NULL,
    name text NOT NULL,
    UNIQUE (org_id, runtime, name)
);

CREATE TABLE dag (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    name text NOT NULL CONSTRAINT dag_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,127}$'),
    active_version_id uuid,            -- the truth is dag_activation; this is where it is read
    paused_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    UNIQUE (org_id, name)
);

-- One immutable deployed definition.
CREATE TABLE dag_version (
    id uuid PRIMARY KEY,
    dag_id uuid NOT NULL REFERENCES dag,
    number integer NOT NULL,
    spec jsonb NOT NULL,
    spec_hash text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    UNIQUE (dag_id, number),
    UNIQUE (dag_id, spec_hash)
);
CALL make_append_only('dag_version');
ALTER TABLE dag ADD FOREIGN KEY (active_version_id) REFERENCES dag_version;

-- A job's identity (org, DAG, name), which survives deploys.
CREATE TABLE job_key (
    id uuid PRIMARY KEY,
    dag_id uuid NOT NULL REFERENCES dag,
    name text NOT NULL CONSTRAINT job_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,127}$'),
    paused_at timestamptz,
    pause_reason text,
    CONSTRAINT paused_means_a_reason CHECK ((paused_at IS NULL) = (pause_reason IS NULL)),
    UNIQUE (dag_id, name)
);

-- One build of a job by one definition: what task keys, cursors, operator state and lines hang on.
CREATE TABLE generation (
    id uuid PRIMARY KEY,
    job_key_id uuid NOT NULL REFERENCES job_key,
    lineage_hash text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (job_key_id, lineage_hash)
);
CALL make_append_only('generation');

CREATE TABLE job (
    id uuid PRIMARY KEY,
    dag_version_id uuid NOT NULL REFERENCES dag_version,
    job_key_id uuid NOT NULL REFERENCES job_key,
    generation_id uuid NOT NULL REFERENCES generation,
    pool_id uuid NOT NULL REFERENCES worker_pool,
    spec jsonb NOT NULL,
    config_hash text NOT NULL,
    ordered boolean NOT NULL,          -- its tasks come one at a time, in the order of their events
    turns integer CONSTRAINT turns_are_at_least_one CHECK (turns >= 1),  -- how many of its tasks may be claimed at once; null: any number
    CONSTRAINT ordered_means_one_turn CHECK (NOT ordered OR turns = 1),
    UNIQUE (dag_version_id, job_key_id)
);
CREATE INDEX job_of_generation ON job (generation_id);
CALL make_append_only('job');

-- The definition that is current for a job's generation; it may differ from the one that began it in what does not rebuild.
CREATE VIEW current_job AS
SELECT job.id, job.generation_id, job.job_key_id, job_key.dag_id, dag.org_id, dag.name AS dag, version.number AS dag_version, job_key.name,
       job.pool_id, pool.name AS pool, job.spec, job.config_hash, job.ordered, job.turns,
       (dag.paused_at IS NOT NULL OR job_key.paused_at IS NOT NULL) AS paused
FROM job
JOIN dag_version AS version ON version.id = job.dag_version_id
JOIN dag ON dag.active_version_id = version.id
JOIN job_key ON job_key.id = job.job_key_id
JOIN worker_pool AS pool ON pool.id = job.pool_id;
GRANT SELECT ON current_job TO tracelake_execute;

-- A registered output. Identity and layer never change.
CREATE TYPE layer AS ENUM ('bronze', 'silver', 'gold');
CREATE TABLE dataset (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org,
    job_key_id uuid NOT NULL REFERENCES job_key,  -- its producer
    output_index integer NOT NULL,
    layer layer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (job_key_id, output_index)
);
CALL make_append_only('dataset');

-- What people say about a dataset; the greatest revision counts.
CREATE TABLE dataset_revision (
    dataset_id uuid NOT NULL REFERENCES dataset,
    revision integer NOT NULL,
    domain text NOT NULL,
    owner text NOT NULL,
    description text NOT NULL,
    active boolean NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    PRIMARY KEY (dataset_id, revision)
);
CALL make_append_only('dataset_revision');

-- The authority for name → dataset.
CREATE TABLE dataset_name (
    org_id uuid NOT NULL REFERENCES org,
    name text NOT NULL CONSTRAINT dataset_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,127}$'),
    dataset_id uuid NOT NULL UNIQUE REFERENCES dataset,
    PRIMARY KEY (org_id, name)
);

CREATE TABLE job_input (
    job_id uuid NOT NULL REFERENCES job,
    index integer NOT NULL,
    dataset_id uuid NOT NULL REFERENCES dataset,
    trigger boolean NOT NULL,          -- false: read, but not subscribed to
    filter jsonb,                      -- the edge's own `where`
    PRIMARY KEY (job_id, index)
);
CREATE INDEX job_input_of_dataset ON job_input (dataset_id) WHERE trigger;
CALL make_append_only('job_input');

-- The table of one generation for one output.
CREATE TABLE dataset_version (
    id uuid PRIMARY KEY,
    dataset_id uuid NOT NULL REFERENCES dataset,
    generation_id uuid NOT NULL REFERENCES generation,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (dataset_id, generation_id)
);
CALL make_append_only('dataset_version');

-- What a DAG version shows to readers.
CREATE TABLE pointer (
    dag_version_id uuid NOT NULL REFERENCES dag_version,
    dataset_id uuid NOT NULL REFERENCES dataset,
    dataset_version_id uuid NOT NULL REFERENCES dataset_version,
    PRIMARY KEY (dag_version_id, dataset_id)
);
CALL make_append_only('pointer');

-- The fact that a DAG version became current.
CREATE TYPE activation_kind AS ENUM ('deploy');
CREATE TABLE dag_activation (
    id uuid PRIMARY KEY,
    dag_id uuid NOT NULL REFERENCES dag,
    dag_version_id uuid NOT NULL REFERENCES dag_version,
    kind activation_kind NOT NULL,
    previous_id uuid REFERENCES dag_activation,
    pointer_set_hash text NOT NULL,
    actor text NOT NULL,
    at timestamptz NOT NULL            -- read after the routing lock was taken
);
CREATE INDEX dag_activation_of_version ON dag_activation (dag_version_id);
CALL make_append_only('dag_activation');

GRANT SELECT, INSERT ON worker_pool TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (active_version_id, paused_at) ON dag TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (paused_at, pause_reason) ON job_key TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (dataset_id), DELETE ON dataset_name TO tracelake_execute;
