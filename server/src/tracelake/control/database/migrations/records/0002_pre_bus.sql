-- The bus on Postgres: messages by topic, and how far each subscriber has read.
CREATE TABLE bus_message (
    topic text NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    key text,
    body json NOT NULL,                -- as text, so that it comes back as it was told
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, xid, seq)
);
CREATE INDEX bus_message_by_age ON bus_message USING brin (at);

-- Who holds a subscription saves others the same work; the offset alone decides what is done.
CREATE TABLE bus_offset (
    topic text NOT NULL,
    subscriber text NOT NULL,
    xid xid8 NOT NULL DEFAULT '0',     -- up to and with this transaction and
    seq bigint NOT NULL DEFAULT 0,     -- this message, everything is done with
    holder uuid,
    held_until timestamptz,
    PRIMARY KEY (topic, subscriber),
    CONSTRAINT held_means_by_somebody CHECK (held_until IS NULL OR holder IS NOT NULL)
);

-- Where those left off who read something else than the bus, and tell it there.
CREATE TABLE relay_offset (
    name text PRIMARY KEY,
    behind text NOT NULL               -- opaque
);

GRANT SELECT, INSERT, DELETE ON bus_message TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (xid, seq, holder, held_until) ON bus_offset TO tracelake_execute;
GRANT SELECT, INSERT, UPDATE (behind) ON relay_offset TO tracelake_execute;
