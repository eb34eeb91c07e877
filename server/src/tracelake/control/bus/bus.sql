-- name: publish
INSERT INTO bus_message (topic, key, body)
SELECT %(topic)s, new.key, new.body::json
FROM unnest(%(keys)s::text[], %(bodies)s::text[]) WITH ORDINALITY AS new (key, body, number) ORDER BY new.number

-- name: subscribe
INSERT INTO bus_offset (topic, subscriber) VALUES (%(topic)s, %(subscriber)s) ON CONFLICT DO NOTHING

-- name: waits
-- Whether there is anything to read, without a write.
SELECT EXISTS (
    SELECT 1 FROM bus_message AS message
    WHERE message.topic = place.topic AND (message.xid, message.seq) > (place.xid, place.seq) AND message.xid < in_epoch(pg_snapshot_xmin(pg_current_snapshot()))
) FROM bus_offset AS place WHERE place.topic = %(topic)s AND place.subscriber = %(subscriber)s

-- name: hold
UPDATE bus_offset SET holder = %(holder)s, held_until = now() + %(lease)s::interval
WHERE topic = %(topic)s AND subscriber = %(subscriber)s AND (held_until IS NULL OR held_until < now() OR holder = %(holder)s)
RETURNING xid::text, seq

-- name: read
SELECT xid::text || '.' || seq AS place, key, body::text AS body FROM bus_message
WHERE topic = %(topic)s AND (xid, seq) > (%(xid)s::text::xid8, %(seq)s::bigint) AND xid < in_epoch(pg_snapshot_xmin(pg_current_snapshot()))
ORDER BY xid, seq LIMIT %(limit)s

-- name: commit
-- Never backwards: a holder that lost its lease in the meantime changes nothing.
UPDATE bus_offset SET xid = %(xid)s::text::xid8, seq = %(seq)s, held_until = NULL
WHERE topic = %(topic)s AND subscriber = %(subscriber)s AND holder = %(holder)s AND (xid, seq) < (%(xid)s::text::xid8, %(seq)s::bigint)

-- name: release
UPDATE bus_offset SET held_until = NULL WHERE topic = %(topic)s AND subscriber = %(subscriber)s AND holder = %(holder)s

-- name: drop_old
-- Messages that are older than the bus keeps them and that every subscriber of their topic has read.
DELETE FROM bus_message WHERE ctid = ANY(ARRAY(
    SELECT message.ctid FROM bus_message AS message
    LEFT JOIN (SELECT DISTINCT ON (topic) topic, xid, seq FROM bus_offset ORDER BY topic, xid, seq) AS slowest ON slowest.topic = message.topic
    WHERE message.at < now() - %(keep)s::interval AND (slowest.topic IS NULL OR (message.xid, message.seq) <= (slowest.xid, slowest.seq))
    LIMIT %(most)s
))
RETURNING seq

-- name: subscribers
-- With the time of the oldest message that each has not read.
SELECT place.topic, place.subscriber, unread.at AS unread_since FROM bus_offset AS place
LEFT JOIN LATERAL (
    SELECT message.at FROM bus_message AS message
    WHERE message.topic = place.topic AND (message.xid, message.seq) > (place.xid, place.seq) ORDER BY message.xid, message.seq LIMIT 1
) AS unread ON true
ORDER BY place.topic, place.subscriber

-- name: forget
DELETE FROM bus_offset WHERE topic = %(topic)s AND subscriber = %(subscriber)s RETURNING subscriber

-- name: bus_name
SELECT name FROM bus_name

-- name: relay
SELECT behind FROM relay_offset WHERE name = %(name)s

-- name: hold_relay
-- One process at a time relays; after a crash another one takes over when the lease expires.
INSERT INTO relay_offset AS relay (name, holder, held_until) VALUES (%(name)s, %(holder)s, now() + %(lease)s::interval)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
WHERE relay.held_until IS NULL OR relay.held_until < now() OR relay.holder = excluded.holder
RETURNING name

-- name: keep_relay
INSERT INTO relay_offset (name, behind) VALUES (%(name)s, %(behind)s) ON CONFLICT (name) DO UPDATE SET behind = excluded.behind

-- name: tenants
SELECT name FROM org ORDER BY name
