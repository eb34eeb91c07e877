-- name: waiting
-- Which streams have facts after their offset; facts of open transactions are not included yet.
SELECT emission.stream FROM emission
WHERE CASE emission.stream
    WHEN 'run_history' THEN EXISTS (
        SELECT 1 FROM run_history AS run
        WHERE (run.xid, run.seq) > (emission.xid, emission.seq) AND run.xid < in_epoch(pg_snapshot_xmin(pg_current_snapshot())))
    WHEN 'promotion_status' THEN EXISTS (
        SELECT 1 FROM promotion_status AS decision
        WHERE (decision.xid, decision.seq) > (emission.xid, emission.seq) AND decision.xid < in_epoch(pg_snapshot_xmin(pg_current_snapshot())))
END
ORDER BY emission.stream

-- name: take
-- One process at a time emits a stream; after a crash another one takes over when the lease expires.
UPDATE emission SET holder = %(holder)s, held_until = now() + %(lease)s::interval
WHERE stream = %(stream)s AND (held_until IS NULL OR held_until < now() OR holder = %(holder)s)
RETURNING xid::text, seq

-- name: move_on
UPDATE emission SET xid = %(xid)s::text::xid8, seq = %(seq)s, held_until = NULL
WHERE stream = %(stream)s AND holder = %(holder)s
RETURNING stream

-- name: runs
SELECT run.run_id, run.task_id, run.attempt, org.name AS tenant, dag.name AS dag, dag.id AS dag_id, job_key.name AS job, run.generation_id, run.dataset_id,
       run.layer::text AS layer, run.status::text AS status, run.start_time, run.end_time, run.triggered_by, run.dag_version, attempt.error_class AS error_code,
       member.version, run.xid::text AS xid, run.seq
FROM (
    SELECT * FROM run_history
    WHERE (xid, seq) > (%(xid)s::text::xid8, %(seq)s::bigint) AND xid < in_epoch(pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY xid, seq LIMIT %(limit)s
) AS run
JOIN org ON org.id = run.org_id
JOIN generation ON generation.id = run.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
JOIN task_attempt AS attempt ON attempt.task_id = run.task_id AND attempt.attempt = run.attempt
LEFT JOIN change ON change.task_id = run.task_id AND change.attempt = run.attempt
LEFT JOIN data_version_member AS member
  ON member.generation_id = change.generation_id AND member.place = change.place AND member.dataset_id = run.dataset_id
ORDER BY run.xid, run.seq

-- name: decisions
SELECT decision.id, decision.run_id, decision.task_id, decision.attempt, org.name AS tenant, dag.name AS dag, job_key.name AS job,
       version.generation_id, decision.dataset_id, decision.dataset_version_id, decision.from_layer, decision.to_layer::text AS to_layer, decision.allowed,
       decision.stage::text AS stage, decision.reason, decision.evaluated_at, decision.xid::text AS xid, decision.seq
FROM (
    SELECT * FROM promotion_status
    WHERE (xid, seq) > (%(xid)s::text::xid8, %(seq)s::bigint) AND xid < in_epoch(pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY xid, seq LIMIT %(limit)s
) AS decision
JOIN org ON org.id = decision.org_id
JOIN dataset_version AS version ON version.id = decision.dataset_version_id
JOIN generation ON generation.id = version.generation_id
JOIN job_key ON job_key.id = generation.job_key_id
JOIN dag ON dag.id = job_key.dag_id
ORDER BY decision.xid, decision.seq

-- name: results
-- Of policies and of rules; samples and sentences are not included, since they need permission to read rows.
SELECT promotion_id, 'policy' AS gate, number, policy_id AS rule_id, revision, policy_type AS rule_type, verdict::text AS verdict,
       NULL::bigint AS violations, NULL::bigint AS examined, NULL::text AS method, NULL::double precision AS milliseconds
FROM policy_result WHERE promotion_id = ANY(%(promotions)s::uuid[])
UNION ALL
SELECT promotion_id, 'quality', number, rule_id, revision, rule_type, verdict::text, violations, examined, method, milliseconds
FROM quality_result WHERE promotion_id = ANY(%(promotions)s::uuid[])
ORDER BY promotion_id, gate, number

-- name: refuse
INSERT INTO emission_refusal (kind, fact, code)
SELECT * FROM unnest(%(kinds)s::text[], %(facts)s::text[], %(codes)s::text[])
ON CONFLICT DO NOTHING

-- name: refusals
SELECT count(*) FROM emission_refusal

-- name: behind
-- How many facts wait to be emitted, counted up to a limit: the cost depends on the backlog, not on history.
SELECT sum(waiting.number)::bigint FROM emission
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM (
        SELECT 1 FROM run_history AS run
        WHERE emission.stream = 'run_history' AND (run.xid, run.seq) > (emission.xid, emission.seq) LIMIT %(most)s
    ) AS runs
    UNION ALL
    SELECT count(*) FROM (
        SELECT 1 FROM promotion_status AS decision
        WHERE emission.stream = 'promotion_status' AND (decision.xid, decision.seq) > (emission.xid, emission.seq) LIMIT %(most)s
    ) AS decisions
) AS waiting

-- name: emitted
SELECT xid::text AS xid, seq FROM emission WHERE stream = %(stream)s

-- name: run_before
SELECT xid::text AS xid, seq FROM run_history
WHERE (xid, seq) <= (%(xid)s::text::xid8, %(seq)s::bigint) ORDER BY run_history.xid DESC, seq DESC OFFSET %(places)s LIMIT 1

-- name: decision_before
SELECT xid::text AS xid, seq FROM promotion_status
WHERE (xid, seq) <= (%(xid)s::text::xid8, %(seq)s::bigint) ORDER BY promotion_status.xid DESC, seq DESC OFFSET %(places)s LIMIT 1

-- name: waiting_since
-- When the oldest fact was made that is not emitted yet; null where none waits.
SELECT min(waiting.since) FROM emission
CROSS JOIN LATERAL (
    (SELECT run.end_time AS since FROM run_history AS run
     WHERE emission.stream = 'run_history' AND (run.xid, run.seq) > (emission.xid, emission.seq) ORDER BY run.xid, run.seq LIMIT 1)
    UNION ALL
    (SELECT decision.evaluated_at FROM promotion_status AS decision
     WHERE emission.stream = 'promotion_status' AND (decision.xid, decision.seq) > (emission.xid, emission.seq) ORDER BY decision.xid, decision.seq LIMIT 1)
) AS waiting
