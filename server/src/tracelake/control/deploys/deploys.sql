-- name: unfinished
-- By partial indexes: the cost depends on the backlog, not on history.
SELECT id, pool_id, state, waits, seq, ordinal, attempt, trigger_kind FROM task
WHERE id IN (
    SELECT id FROM task WHERE state = 'queued' AND seq IS NOT NULL AND pool_id = %(pool)s AND generation_id = %(generation)s
    UNION ALL
    SELECT id FROM task WHERE generation_id = %(generation)s AND state = 'running'
    UNION ALL
    SELECT id FROM task WHERE generation_id = %(generation)s AND ordinal IS NOT NULL AND state IN ('queued', 'running')
    UNION ALL
    SELECT id FROM task WHERE generation_id = %(generation)s AND waits = 'paused'
    UNION ALL
    SELECT id FROM task WHERE generation_id = %(generation)s AND waits = 'input'
    UNION ALL
    SELECT id FROM task WHERE generation_id = %(generation)s AND waits = 'line'
    UNION ALL
    SELECT id FROM task WHERE generation_id = %(generation)s AND waits = 'retry'
)
ORDER BY id FOR UPDATE

-- name: follow
-- New places are in the order of the list, after all existing ones.
WITH changed AS (
    SELECT changed.id, changed.pool_id, changed.waits, changed.ordinal, changed.stays, CASE WHEN changed.placed THEN nextval('task_seq') END AS seq
    FROM (
        SELECT * FROM unnest(
            %(tasks)s::uuid[], %(pools)s::uuid[], %(waits)s::waits[], %(ordinals)s::bigint[], %(stays)s::boolean[], %(placed)s::boolean[]
        ) WITH ORDINALITY AS changed (id, pool_id, waits, ordinal, stays, placed, number) ORDER BY number
    ) AS changed
)
UPDATE task
SET pool_id = changed.pool_id, waits = changed.waits, ordinal = changed.ordinal, seq = CASE WHEN changed.stays THEN task.seq ELSE changed.seq END
FROM changed WHERE task.id = changed.id
