-- The platform's own facts as records: runs and decisions are read in the order in which they were committed.
CREATE INDEX run_history_in_order ON run_history (xid, seq);
CREATE INDEX promotion_status_in_order ON promotion_status (xid, seq);
CREATE INDEX data_version_member_of_place ON data_version_member (generation_id, place);  -- which version a change became part of

-- How far each of the two is emitted. Who holds a stream saves the others the same work; the offset alone decides what is done.
CREATE TABLE emission (
    stream text PRIMARY KEY,
    xid xid8 NOT NULL DEFAULT '0',     -- up to and with this transaction and
    seq bigint NOT NULL DEFAULT 0,     -- this row, everything is emitted
    holder uuid,
    held_until timestamptz,
    CONSTRAINT held_means_by_somebody CHECK (held_until IS NULL OR holder IS NOT NULL)
);
INSERT INTO emission (stream) VALUES ('run_history'), ('promotion_status');

-- Records that the repository did not take, so that nobody takes the rest for whole. Must stay empty.
CREATE TABLE emission_refusal (
    kind text NOT NULL,
    fact text NOT NULL,                -- the run, or the decision with gate and number of the result
    code text NOT NULL,                -- of the problem
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, fact)
);

GRANT SELECT, UPDATE (xid, seq, holder, held_until) ON emission TO tracelake_execute;
GRANT SELECT, INSERT ON emission_refusal TO tracelake_execute;
