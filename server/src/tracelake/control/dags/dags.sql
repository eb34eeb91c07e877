-- name: lock_routing_shared
-- A separate statement: a later one reads what it protects, and then sees what was committed during the wait.
SELECT pg_advisory_xact_lock_shared(hashtextextended('routing ' || dag.id, 0))
FROM (SELECT DISTINCT id FROM unnest(%(dags)s::uuid[]) AS id ORDER BY id) AS dag

-- name: lock_routing
SELECT pg_advisory_xact_lock(hashtextextended('routing ' || dag.id, 0))
FROM (SELECT DISTINCT id FROM unnest(%(dags)s::uuid[]) AS id ORDER BY id) AS dag

-- name: add_dag
INSERT INTO dag (id, org_id, name, created_by) VALUES (%(id)s, %(org)s, %(name)s, %(actor)s)

-- name: find_dag
SELECT dag.id, dag.name, dag.active_version_id, dag.paused_at, version.number, version.spec, version.spec_hash
FROM dag LEFT JOIN dag_version AS version ON version.id = dag.active_version_id
WHERE dag.org_id = %(org)s AND dag.name = %(name)s

-- name: ids
SELECT id FROM dag WHERE org_id = %(org)s

-- name: list_dags
SELECT dag.id, dag.name, dag.active_version_id, dag.paused_at, version.number, version.spec, version.spec_hash
FROM dag LEFT JOIN dag_version AS version ON version.id = dag.active_version_id
WHERE dag.org_id = %(org)s AND (%(name)s::text IS NULL OR dag.name = %(name)s)
ORDER BY dag.name

-- name: add_version
INSERT INTO dag_version (id, dag_id, number, spec, spec_hash, created_by)
VALUES (%(id)s, %(dag)s, %(number)s, %(spec)s::jsonb, %(spec_hash)s, %(actor)s)

-- name: add_job_key
INSERT INTO job_key (id, dag_id, name) VALUES (%(id)s, %(dag)s, %(name)s)

-- name: add_generation
WITH added AS (INSERT INTO generation (id, job_key_id, lineage_hash) VALUES (%(id)s, %(job_key)s, %(lineage_hash)s) RETURNING id)
INSERT INTO line (generation_id) SELECT id FROM added

-- name: add_job
INSERT INTO job (id, dag_version_id, job_key_id, generation_id, pool_id, spec, config_hash, ordered, turns)
VALUES (%(id)s, %(dag_version)s, %(job_key)s, %(generation)s, %(pool)s, %(spec)s::jsonb, %(config_hash)s, %(ordered)s, %(turns)s)

-- name: add_input
INSERT INTO job_input (job_id, index, dataset_id, trigger, filter)
VALUES (%(job)s, %(index)s, %(dataset)s, %(trigger)s, %(filter)s::jsonb)

-- name: add_pointer
INSERT INTO pointer (dag_version_id, dataset_id, dataset_version_id) VALUES (%(dag_version)s, %(dataset)s, %(dataset_version)s)

-- name: copy_pointers
INSERT INTO pointer (dag_version_id, dataset_id, dataset_version_id)
SELECT %(dag_version)s, dataset_id, dataset_version_id FROM pointer WHERE dag_version_id = %(from_version)s

-- name: activate
WITH fact AS (
    INSERT INTO dag_activation (id, dag_id, dag_version_id, kind, previous_id, pointer_set_hash, actor, user_id, token_id, at)
    VALUES (%(id)s, %(dag)s, %(dag_version)s, 'deploy', %(previous)s, %(pointer_set_hash)s, %(actor)s, %(user)s, %(token)s, clock_timestamp())
)
UPDATE dag SET active_version_id = %(dag_version)s WHERE id = %(dag)s

-- name: newest_activation
SELECT id, pointer_set_hash, user_id, token_id FROM dag_activation WHERE dag_version_id = %(dag_version)s ORDER BY at DESC, id DESC LIMIT 1

-- name: versions_of_dag
SELECT id, number, spec_hash FROM dag_version WHERE dag_id = %(dag)s ORDER BY number

-- name: built_jobs
-- The jobs of a DAG version with what they were built from.
SELECT job.id, job_key.name, job.job_key_id, job.generation_id, generation.lineage_hash, job.config_hash, job.pool_id, job.turns
FROM job
JOIN job_key ON job_key.id = job.job_key_id
JOIN generation ON generation.id = job.generation_id
WHERE job.dag_version_id = %(dag_version)s
ORDER BY job_key.name

-- name: dataset_edges
-- Over all active DAGs of the org: which dataset is made from which.
SELECT output.id AS made, input.dataset_id AS reads
FROM current_job AS job
JOIN job_input AS input ON input.job_id = job.id
JOIN dataset AS output ON output.job_key_id = job.job_key_id
WHERE job.org_id = %(org)s

-- name: activators_of_jobs
-- The last activators of the DAG versions of these jobs.
SELECT job.id AS job_id, activation.user_id, activation.token_id
FROM job
CROSS JOIN LATERAL (
    SELECT user_id, token_id FROM dag_activation WHERE dag_version_id = job.dag_version_id ORDER BY at DESC, id DESC LIMIT 1
) AS activation
WHERE job.id = ANY(%(jobs)s::uuid[])

-- name: rights_held
-- By DAG; roles by their names.
SELECT held.dag_id, array_agg(DISTINCT held.dag_right::text)
FROM dag_grant AS held
JOIN dag ON dag.id = held.dag_id
LEFT JOIN role ON role.id = held.role_id
WHERE dag.org_id = %(org)s AND (%(dags)s::uuid[] IS NULL OR held.dag_id = ANY(%(dags)s::uuid[]))
  AND (role.name = ANY(%(roles)s::text[]) OR held.user_id = %(user)s OR held.token_id = %(token)s)
GROUP BY held.dag_id

-- name: grants
SELECT dag.name AS dag, held.dag_right AS right, role.name AS role, app_user.name AS user, token.label AS service, held.actor, held.at
FROM dag_grant AS held
JOIN dag ON dag.id = held.dag_id
LEFT JOIN role ON role.id = held.role_id
LEFT JOIN app_user ON app_user.id = held.user_id
LEFT JOIN api_token AS token ON token.id = held.token_id
WHERE dag.org_id = %(org)s AND (%(dag)s::uuid IS NULL OR held.dag_id = %(dag)s)
ORDER BY dag.name, held.dag_right, role.name, app_user.name, token.label

-- name: add_grant
INSERT INTO dag_grant (dag_id, dag_right, role_id, user_id, token_id, actor)
VALUES (%(dag)s, %(right)s::dag_right, %(role)s, %(user)s, %(token)s, %(actor)s)
ON CONFLICT DO NOTHING

-- name: remove_grants
-- Of a role, or of the user or service of this name that created the DAG.
DELETE FROM dag_grant AS held
WHERE held.dag_id = %(dag)s AND held.dag_right = %(right)s::dag_right AND (
    held.role_id = (SELECT id FROM role WHERE org_id = %(org)s AND name = %(role)s)
    OR held.user_id = (SELECT id FROM app_user WHERE org_id = %(org)s AND name = %(user)s)
    OR held.token_id IN (SELECT id FROM api_token WHERE org_id = %(org)s AND kind = 'service' AND label = %(service)s)
)

-- name: jobs_of_generations
SELECT * FROM current_job WHERE generation_id = ANY(%(generations)s::uuid[])

-- name: outputs_of_generations
SELECT version.generation_id, dataset.output_index, dataset.id AS dataset_id, version.id AS dataset_version_id, dataset.layer, dataset.has_files
FROM dataset_version AS version
JOIN dataset ON dataset.id = version.dataset_id
WHERE version.generation_id = ANY(%(generations)s::uuid[])
ORDER BY version.generation_id, dataset.output_index

-- name: inputs_of_jobs
SELECT input.job_id, input.index, input.dataset_id, input.trigger, input.filter, pointer.dataset_version_id, dataset.has_files, name.name, job_key.dag_id,
       producer.spec -> 'outputs' -> dataset.output_index -> 'partition_by' AS partition_by
FROM job_input AS input
JOIN dataset ON dataset.id = input.dataset_id
JOIN job_key ON job_key.id = dataset.job_key_id
JOIN dag ON dag.id = job_key.dag_id
LEFT JOIN job AS producer ON producer.dag_version_id = dag.active_version_id AND producer.job_key_id = job_key.id
LEFT JOIN dataset_name AS name ON name.dataset_id = dataset.id
LEFT JOIN pointer ON pointer.dag_version_id = dag.active_version_id AND pointer.dataset_id = input.dataset_id
WHERE input.job_id = ANY(%(jobs)s::uuid[])
ORDER BY input.job_id, input.index

-- name: subscribers_of_datasets
SELECT input.dataset_id, input.index, input.filter, job.generation_id, job.pool_id, job.ordered, job.turns, job.dag_id, job.paused
FROM job_input AS input
JOIN current_job AS job ON job.id = input.job_id
WHERE input.dataset_id = ANY(%(datasets)s::uuid[]) AND input.trigger
ORDER BY input.dataset_id, job.generation_id, input.index

-- name: find_job
SELECT * FROM current_job WHERE org_id = %(org)s AND dag = %(dag)s AND name = %(job)s

-- name: pauses_of_dag
SELECT job_key.id, job_key.name, job_key.paused_at, job_key.pause_reason, job.generation_id
FROM job_key
JOIN dag ON dag.id = job_key.dag_id
JOIN job ON job.job_key_id = job_key.id AND job.dag_version_id = dag.active_version_id
WHERE job_key.dag_id = %(dag)s
ORDER BY job_key.name

-- name: pause_dag
UPDATE dag SET paused_at = coalesce(paused_at, now()) WHERE id = %(dag)s

-- name: resume_dag
UPDATE dag SET paused_at = NULL WHERE id = %(dag)s

-- name: pause_jobs
UPDATE job_key SET paused_at = coalesce(paused_at, now()), pause_reason = coalesce(pause_reason, %(reason)s)
WHERE id IN (SELECT job_key_id FROM generation WHERE id = ANY(%(generations)s::uuid[]))

-- name: resume_job
UPDATE job_key SET paused_at = NULL, pause_reason = NULL WHERE id = %(job_key)s
