-- Side effects that a committed change asked for. Written in the change's own transaction, performed by the drainer.
CREATE TABLE outbox (
    id uuid PRIMARY KEY,               -- also the idempotency key that the receiver sees
    org_id uuid NOT NULL,
    kind text NOT NULL,                -- names the sender
    body jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL DEFAULT now(),
    tries integer NOT NULL DEFAULT 0,
    last_error text,
    sent_at timestamptz,
    given_up_at timestamptz,
    CONSTRAINT sent_or_given_up_not_both CHECK (sent_at IS NULL OR given_up_at IS NULL)
);
CREATE INDEX outbox_due ON outbox (due_at) WHERE sent_at IS NULL AND given_up_at IS NULL;

-- Sameness: an effect's key is made of what it is about, and the first to insert it has the effect.
CREATE TABLE idempotency (
    org_id uuid NOT NULL,
    kind text NOT NULL,
    key bytea NOT NULL,
    body_sha256 bytea NOT NULL,
    id uuid NOT NULL,                  -- of what the effect made
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, kind, key)
);

GRANT SELECT, INSERT, UPDATE (due_at, tries, last_error, sent_at, given_up_at) ON outbox TO tracelake_execute;
GRANT SELECT, INSERT ON idempotency TO tracelake_execute;
