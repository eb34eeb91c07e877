-- name: append
INSERT INTO run_history (run_id, org_id, task_id, attempt, generation_id, dataset_id, layer, status, start_time, end_time, error_message, triggered_by,
                         dag_version)
SELECT new.run_id, new.org_id, new.task_id, new.attempt, new.generation_id, new.dataset_id, new.layer, new.status, new.start_time,
       coalesce(%(now)s::timestamptz, now()), new.error_message, new.triggered_by,
       (SELECT attempt.dag_version FROM task_attempt AS attempt WHERE attempt.task_id = new.task_id AND attempt.attempt = new.attempt)
FROM unnest(
    %(run_ids)s::text[], %(orgs)s::uuid[], %(tasks)s::uuid[], %(attempts)s::integer[], %(generations)s::uuid[], %(datasets)s::uuid[], %(layers)s::layer[],
    %(statuses)s::run_status[], %(starts)s::timestamptz[], %(errors)s::text[], %(triggers)s::text[]
) AS new (run_id, org_id, task_id, attempt, generation_id, dataset_id, layer, status, start_time, error_message, triggered_by)

-- name: page
SELECT run.run_id, run.task_id, run.attempt, dag.name AS dag, job_key.name AS job, run.dataset_id, run.layer, run.status,
       run.start_time, run.end_time, run.error_message, run.triggered_by, run.dag_version, run.seq
FROM run_history AS run
JOIN generation ON generation.id = run.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
WHERE run.org_id = %(org)s
  AND (%(before)s::bigint IS NULL OR run.seq < %(before)s)
  AND (%(dag)s::text IS NULL OR dag.name = %(dag)s)
  AND (%(job)s::text IS NULL OR job_key.name = %(job)s)
  AND (%(status)s::run_status IS NULL OR run.status = %(status)s)
  AND (%(datasets)s::uuid[] IS NULL OR run.dataset_id = ANY(%(datasets)s::uuid[]) OR (run.dataset_id IS NULL AND dag.id = ANY(%(dags)s::uuid[])))
ORDER BY run.seq DESC LIMIT %(limit)s
