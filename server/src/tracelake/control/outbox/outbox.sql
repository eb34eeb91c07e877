-- name: write
INSERT INTO outbox (id, org_id, kind, body)
SELECT * FROM unnest(%(ids)s::uuid[], %(orgs)s::uuid[], %(kinds)s::text[], %(bodies)s::jsonb[])

-- name: take
-- Its due time is the lease: after a crash of the drainer the row is taken again.
WITH next AS (
    SELECT id FROM outbox
    WHERE sent_at IS NULL AND given_up_at IS NULL AND due_at <= coalesce(%(now)s::timestamptz, now())
    ORDER BY due_at LIMIT %(room)s FOR UPDATE SKIP LOCKED
)
UPDATE outbox SET due_at = coalesce(%(now)s::timestamptz, now()) + %(lease)s::interval, tries = tries + 1
FROM next WHERE outbox.id = next.id
RETURNING outbox.id, outbox.org_id, outbox.kind, outbox.body, outbox.tries, outbox.created_at

-- name: mark_sent
UPDATE outbox SET sent_at = now(), last_error = NULL WHERE id = %(id)s AND sent_at IS NULL

-- name: mark_failed
UPDATE outbox
SET last_error = %(error)s,
    due_at = now() + %(delay)s::interval,
    given_up_at = CASE WHEN %(give_up)s THEN now() END
WHERE id = %(id)s AND sent_at IS NULL

-- name: backlog
SELECT count(*) FROM outbox WHERE sent_at IS NULL AND given_up_at IS NULL
