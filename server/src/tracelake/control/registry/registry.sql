-- name: register
INSERT INTO dataset (id, org_id, job_key_id, output_index, layer, has_files)
VALUES (%(id)s, %(org)s, %(job_key)s, %(output_index)s, %(layer)s::layer, %(has_files)s)

-- name: revise
INSERT INTO dataset_revision (dataset_id, revision, domain, owner, description, active, actor)
SELECT %(dataset)s, coalesce(max(revision), 0) + 1, %(domain)s, %(owner)s, %(description)s, true, %(actor)s
FROM dataset_revision WHERE dataset_id = %(dataset)s

-- name: name_dataset
INSERT INTO dataset_name (org_id, name, dataset_id) VALUES (%(org)s, %(name)s, %(dataset)s) ON CONFLICT (org_id, name) DO NOTHING
RETURNING dataset_id

-- name: by_names
SELECT name.name, dataset.id, dataset.layer, dataset.has_files, job_key.dag_id
FROM dataset_name AS name
JOIN dataset ON dataset.id = name.dataset_id
JOIN job_key ON job_key.id = dataset.job_key_id
WHERE name.org_id = %(org)s AND name.name = ANY(%(names)s::text[])

-- name: names
SELECT name FROM dataset_name WHERE org_id = %(org)s ORDER BY name

-- name: add_version
INSERT INTO dataset_version (id, dataset_id, generation_id) VALUES (%(id)s, %(dataset)s, %(generation)s)

-- name: facts
-- What is said of datasets now.
SELECT dataset.id, name.name, dataset.layer, revision.active, dataset.has_files
FROM dataset
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
CROSS JOIN LATERAL (SELECT said.active FROM dataset_revision AS said WHERE said.dataset_id = dataset.id ORDER BY said.revision DESC LIMIT 1) AS revision
WHERE dataset.id = ANY(%(datasets)s::uuid[])
