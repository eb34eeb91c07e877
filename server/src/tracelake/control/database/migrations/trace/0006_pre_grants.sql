-- Rights on one DAG, and who reads a dataset.
CREATE TYPE dag_right AS ENUM (
    'deploy',  -- activate another definition of it
    'trigger'  -- run, pause, resume, cancel
);
CREATE TABLE dag_grant (
    dag_id uuid NOT NULL REFERENCES dag,
    dag_right dag_right NOT NULL,
    role_id uuid REFERENCES role,
    user_id uuid REFERENCES app_user,    -- who created it
    token_id uuid REFERENCES api_token,  -- the service that created it
    actor text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT granted_to_one CHECK (num_nonnulls(role_id, user_id, token_id) = 1),
    CONSTRAINT granted_once UNIQUE NULLS NOT DISTINCT (dag_id, dag_right, role_id, user_id, token_id)
);

-- Roles that read a dataset, beside those that its DAG's grants and the role `admin` let in.
CREATE TABLE dataset_read_role (
    dataset_id uuid NOT NULL REFERENCES dataset,
    role_id uuid NOT NULL REFERENCES role,
    PRIMARY KEY (dataset_id, role_id)
);

-- The one place that says who reads a dataset: a role, or the user or service that created its DAG.
CREATE VIEW dataset_reader AS
SELECT reads.dataset_id, reads.role_id, NULL::uuid AS user_id, NULL::uuid AS token_id FROM dataset_read_role AS reads
UNION ALL
SELECT dataset.id, held.role_id, held.user_id, held.token_id
FROM dag_grant AS held JOIN job_key ON job_key.dag_id = held.dag_id JOIN dataset ON dataset.job_key_id = job_key.id
UNION ALL
SELECT dataset.id, role.id, NULL, NULL FROM dataset JOIN role ON role.org_id = dataset.org_id AND role.name = 'admin';

-- A DAG reads other DAGs' datasets with the roles of whoever activated it.
ALTER TABLE dag_activation
    ADD COLUMN user_id uuid REFERENCES app_user,
    ADD COLUMN token_id uuid REFERENCES api_token,  -- of a service
    ADD CONSTRAINT activated_by_one CHECK (num_nonnulls(user_id, token_id) <= 1);

-- What was there before had its actors' names alone, which are names of users.
ALTER TABLE dag_activation DISABLE TRIGGER append_only;
UPDATE dag_activation SET user_id = app_user.id
FROM dag, app_user WHERE dag.id = dag_activation.dag_id AND app_user.org_id = dag.org_id AND app_user.name = dag_activation.actor;
ALTER TABLE dag_activation ENABLE ALWAYS TRIGGER append_only;
INSERT INTO dag_grant (dag_id, dag_right, user_id, actor)
SELECT dag.id, held, app_user.id, dag.created_by
FROM dag JOIN app_user ON app_user.org_id = dag.org_id AND app_user.name = dag.created_by, unnest(enum_range(NULL::dag_right)) AS held;

-- A name pinned to one version. It shares its namespace with dataset_name: both are given under the org's lock.
CREATE TABLE dataset_snapshot (
    org_id uuid NOT NULL REFERENCES org,
    name text NOT NULL CONSTRAINT snapshot_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,127}$'),
    dataset_id uuid NOT NULL REFERENCES dataset,
    version bigint NOT NULL,
    actor text NOT NULL,
    user_id uuid REFERENCES app_user,
    token_id uuid REFERENCES api_token,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name),
    FOREIGN KEY (dataset_id, version) REFERENCES data_version (dataset_id, version)
);
CREATE INDEX dataset_snapshot_of_dataset ON dataset_snapshot (dataset_id);

GRANT SELECT ON dag_grant, dataset_read_role, dataset_reader, dataset_snapshot TO tracelake_execute;
GRANT INSERT, DELETE ON dag_grant, dataset_read_role, dataset_snapshot TO tracelake_define;
