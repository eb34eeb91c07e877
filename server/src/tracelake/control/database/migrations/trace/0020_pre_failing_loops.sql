-- Background loops of workers that fail turn after turn, as the workers report them in heartbeats. A row is as true as it is young.
CREATE TABLE failing_loop (
    org_id uuid NOT NULL REFERENCES org,
    worker text NOT NULL,
    loop text NOT NULL,
    code text NOT NULL,  -- of its last failure
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, worker, loop)
);
GRANT SELECT, INSERT, UPDATE (code, reported_at), DELETE ON failing_loop TO tracelake_execute;
