-- name: append
INSERT INTO dataset_event (id, org_id, dataset_id, dataset_version_id, producer_task_id, kind, scope, revision, event_time, payload, told_at)
SELECT new.id, %(org)s, new.dataset_id, new.dataset_version_id, new.producer_task_id, new.kind, new.scope, new.revision, new.event_time, new.payload, clock_timestamp()
FROM unnest(
    %(ids)s::uuid[], %(datasets)s::uuid[], %(dataset_versions)s::uuid[], %(producers)s::uuid[], %(kinds)s::event_kind[],
    %(scopes)s::jsonb[], %(revisions)s::text[], %(event_times)s::timestamptz[], %(payloads)s::jsonb[]
) AS new (id, dataset_id, dataset_version_id, producer_task_id, kind, scope, revision, event_time, payload)

-- name: account
INSERT INTO event_ledger (event_id, generation_id, outcome, task_id)
SELECT * FROM unnest(%(events)s::uuid[], %(generations)s::uuid[], %(outcomes)s::told[], %(tasks)s::uuid[])

-- name: page
SELECT event.id, event.dataset_id AS dataset_uuid, name.name AS dataset_name, dag.name || '/' || job_key.name AS job, event.kind, event.scope,
       event.revision, event.producer_task_id, event.event_time, event.told_at AS emitted_at, event.payload
FROM dataset_event AS event
JOIN dataset ON dataset.id = event.dataset_id
JOIN job_key ON job_key.id = dataset.job_key_id
JOIN dag ON dag.id = job_key.dag_id
LEFT JOIN dataset_name AS name ON name.dataset_id = event.dataset_id
WHERE event.org_id = %(org)s
  AND (%(before)s::uuid IS NULL OR event.id < %(before)s)
  AND (%(dag)s::text IS NULL OR dag.name = %(dag)s)
  AND (%(job)s::text IS NULL OR job_key.name = %(job)s)
  AND (%(producer)s::uuid IS NULL OR event.producer_task_id = %(producer)s)
  AND (%(datasets)s::uuid[] IS NULL OR event.dataset_id = ANY(%(datasets)s::uuid[]))
ORDER BY event.id DESC LIMIT %(limit)s

-- name: ledger_of
-- Lines of subscribers in these DAGs, or in all.
SELECT ledger.event_id, dag.name || '/' || job_key.name AS job, ledger.outcome, ledger.task_id
FROM event_ledger AS ledger
JOIN generation ON generation.id = ledger.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
WHERE ledger.event_id = ANY(%(events)s::uuid[]) AND (%(dags)s::uuid[] IS NULL OR dag.id = ANY(%(dags)s::uuid[]))
ORDER BY ledger.event_id, job

-- name: unaccounted
-- Lines found missing earlier that still are, and lines missing among events since then; `since` bounds the query while verification is behind.
SELECT (
    SELECT count(*) FROM unaccounted_event AS found
    WHERE NOT EXISTS (SELECT 1 FROM event_ledger AS ledger WHERE ledger.event_id = found.event_id AND ledger.generation_id = found.generation_id)
) + (
    -- Activation and emission both read the clock after their routing lock, so "was subscribed when it was emitted" is exact.
    SELECT count(*)
    FROM dataset_event AS event
    JOIN job_input ON job_input.dataset_id = event.dataset_id AND job_input.trigger
    JOIN job ON job.id = job_input.job_id
    JOIN dag_activation AS activation ON activation.dag_version_id = job.dag_version_id AND activation.at <= event.told_at
    WHERE event.id > (SELECT verified_up_to FROM event_accounting) AND event.id >= %(since)s
      AND NOT EXISTS (SELECT 1 FROM event_ledger AS ledger WHERE ledger.event_id = event.id AND ledger.generation_id = job.generation_id)
)

-- name: lock_accounting
SELECT verified_up_to FROM event_accounting FOR UPDATE SKIP LOCKED

-- name: last_to_verify
-- The last of the next events to be verified; all of them are before the given id.
SELECT id FROM (
    SELECT id FROM dataset_event WHERE id > %(verified)s AND id < %(before)s ORDER BY id LIMIT %(room)s
) AS following
ORDER BY id DESC LIMIT 1

-- name: verify
-- The database records what is missing among the events that it passes.
UPDATE event_accounting SET verified_up_to = %(last)s

-- name: first_unverified
SELECT id FROM dataset_event WHERE id > (SELECT verified_up_to FROM event_accounting) ORDER BY id LIMIT 1
