-- name: lock_org
-- One deploy at a time in an org: names and the graph of all its DAGs are checked under this lock.
SELECT pg_advisory_xact_lock(hashtextextended('org ' || %(org)s::uuid, 0))

-- name: register
INSERT INTO dataset (id, org_id, job_key_id, output_index, layer, has_files)
VALUES (%(id)s, %(org)s, %(job_key)s, %(output_index)s, %(layer)s::layer, %(has_files)s)

-- name: revise
INSERT INTO dataset_revision (dataset_id, revision, domain, owner, description, active, actor)
SELECT %(dataset)s, coalesce(max(revision), 0) + 1, %(domain)s, %(owner)s, %(description)s, true, %(actor)s
FROM dataset_revision WHERE dataset_id = %(dataset)s

-- name: name_dataset
INSERT INTO dataset_name (org_id, name, dataset_id) VALUES (%(org)s, %(name)s, %(dataset)s)

-- name: drop_names
DELETE FROM dataset_name WHERE org_id = %(org)s AND name = ANY(%(names)s::text[])

-- name: named
SELECT name.name, dataset.id, dataset.layer, dataset.has_files, job_key.dag_id
FROM dataset_name AS name
JOIN dataset ON dataset.id = name.dataset_id
JOIN job_key ON job_key.id = dataset.job_key_id
WHERE name.org_id = %(org)s
ORDER BY name.name

-- name: snapshot_names
SELECT name FROM dataset_snapshot WHERE org_id = %(org)s AND name = ANY(%(names)s::text[]) ORDER BY name

-- name: called
-- By its own name, by the name of a snapshot of it, or by its uuid.
SELECT dataset_id FROM dataset_name WHERE org_id = %(org)s AND name = %(name)s
UNION ALL
SELECT dataset_id FROM dataset_snapshot WHERE org_id = %(org)s AND name = %(name)s
UNION ALL
SELECT id FROM dataset WHERE org_id = %(org)s AND id = %(id)s

-- name: all_names
SELECT name FROM dataset_name WHERE org_id = %(org)s AND (%(datasets)s::uuid[] IS NULL OR dataset_id = ANY(%(datasets)s::uuid[]))
UNION ALL
SELECT name FROM dataset_snapshot WHERE org_id = %(org)s AND (%(datasets)s::uuid[] IS NULL OR dataset_id = ANY(%(datasets)s::uuid[]))
ORDER BY name

-- name: readable
SELECT DISTINCT reader.dataset_id
FROM dataset_reader AS reader
JOIN dataset ON dataset.id = reader.dataset_id
LEFT JOIN role ON role.id = reader.role_id
WHERE dataset.org_id = %(org)s AND (%(datasets)s::uuid[] IS NULL OR reader.dataset_id = ANY(%(datasets)s::uuid[]))
  AND (role.name = ANY(%(roles)s::text[]) OR reader.user_id = %(user)s OR reader.token_id = %(token)s)

-- name: of_org
SELECT id FROM dataset WHERE org_id = %(org)s AND id = ANY(%(datasets)s::uuid[])

-- name: read_roles
SELECT role.name FROM dataset_read_role AS reads JOIN role ON role.id = reads.role_id WHERE reads.dataset_id = %(dataset)s ORDER BY role.name

-- name: set_read_roles
WITH gone AS (DELETE FROM dataset_read_role WHERE dataset_id = %(dataset)s AND role_id <> ALL(%(roles)s::uuid[]))
INSERT INTO dataset_read_role (dataset_id, role_id) SELECT %(dataset)s, role FROM unnest(%(roles)s::uuid[]) AS role ON CONFLICT DO NOTHING

-- name: resolve
-- One statement, so that all names are resolved in one snapshot: through the pointer to the current version, or to the one that is pinned.
-- Only what is published now is found, also under the name of a snapshot.
SELECT name.name, dataset.id AS dataset_id, pointer.dataset_version_id, newest.version, dataset.has_files, false AS pinned
FROM dataset_name AS name
JOIN dataset ON dataset.id = name.dataset_id
JOIN job_key ON job_key.id = dataset.job_key_id
JOIN dag ON dag.id = job_key.dag_id
LEFT JOIN pointer ON pointer.dag_version_id = dag.active_version_id AND pointer.dataset_id = dataset.id
LEFT JOIN LATERAL (
    SELECT version.version FROM data_version AS version WHERE version.dataset_version_id = pointer.dataset_version_id ORDER BY version.version DESC LIMIT 1
) AS newest ON true
WHERE name.org_id = %(org)s AND name.name = ANY(%(names)s::text[])
UNION ALL
SELECT snapshot.name, snapshot.dataset_id, version.dataset_version_id, snapshot.version, true, true
FROM dataset_snapshot AS snapshot
JOIN dataset_name AS published ON published.dataset_id = snapshot.dataset_id
JOIN data_version AS version ON version.dataset_id = snapshot.dataset_id AND version.version = snapshot.version
WHERE snapshot.org_id = %(org)s AND snapshot.name = ANY(%(names)s::text[])

-- name: current_version
-- The version that readers see now; no row if nothing was promoted yet.
SELECT version.version
FROM dataset
JOIN job_key ON job_key.id = dataset.job_key_id
JOIN dag ON dag.id = job_key.dag_id
JOIN pointer ON pointer.dag_version_id = dag.active_version_id AND pointer.dataset_id = dataset.id
JOIN data_version AS version ON version.dataset_version_id = pointer.dataset_version_id
WHERE dataset.id = %(dataset)s
ORDER BY version.version DESC LIMIT 1

-- name: has_version
SELECT EXISTS (SELECT 1 FROM data_version WHERE dataset_id = %(dataset)s AND version = %(version)s)

-- name: snapshots
SELECT snapshot.name, snapshot.dataset_id, own.name AS dataset, snapshot.version, snapshot.actor, snapshot.user_id, snapshot.token_id, snapshot.at
FROM dataset_snapshot AS snapshot
LEFT JOIN dataset_name AS own ON own.dataset_id = snapshot.dataset_id
WHERE snapshot.org_id = %(org)s AND (%(name)s::text IS NULL OR snapshot.name = %(name)s)
  AND (%(datasets)s::uuid[] IS NULL OR snapshot.dataset_id = ANY(%(datasets)s::uuid[]))
ORDER BY snapshot.name

-- name: add_snapshot
INSERT INTO dataset_snapshot (org_id, name, dataset_id, version, actor, user_id, token_id)
VALUES (%(org)s, %(name)s, %(dataset)s, %(version)s, %(actor)s, %(user)s, %(token)s)

-- name: drop_snapshot
DELETE FROM dataset_snapshot WHERE org_id = %(org)s AND name = %(name)s

-- name: add_version
INSERT INTO dataset_version (id, dataset_id, generation_id) VALUES (%(id)s, %(dataset)s, %(generation)s)

-- name: descriptions
-- The latest revision.
SELECT DISTINCT ON (dataset_id) dataset_id, domain, owner, description
FROM dataset_revision WHERE dataset_id = ANY(%(datasets)s::uuid[]) ORDER BY dataset_id, revision DESC

-- name: facts
-- The latest facts of datasets.
SELECT dataset.id, name.name, dataset.layer, revision.active, dataset.has_files
FROM dataset
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
CROSS JOIN LATERAL (SELECT latest.active FROM dataset_revision AS latest WHERE latest.dataset_id = dataset.id ORDER BY latest.revision DESC LIMIT 1) AS revision
WHERE dataset.id = ANY(%(datasets)s::uuid[])
