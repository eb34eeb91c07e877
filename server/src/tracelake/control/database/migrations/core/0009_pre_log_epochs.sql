-- Places in logs. What a transaction wrote is ordered by its number, which means something in one cluster and on one timeline only: a dump that is
-- restored elsewhere, or a standby that takes over, may count from further back. An epoch counts these; a place is epoch and number together, with the
-- epoch in the bits above 48, so that whatever a new epoch writes comes after everything that was there before.
CREATE TABLE log_epoch (
    number bigint PRIMARY KEY CONSTRAINT an_epoch_fits_in_a_place CHECK (number BETWEEN 0 AND 16383),
    cluster text NOT NULL,             -- whose numbers these are
    at timestamptz NOT NULL DEFAULT now()
);
CALL make_append_only('log_epoch');
REVOKE INSERT ON log_epoch FROM tracelake_execute;

-- The same for the same cluster and timeline, and for no other.
CREATE FUNCTION this_cluster() RETURNS text LANGUAGE sql STABLE
RETURN (
    SELECT left(encode(sha256(convert_to(system_identifier || ' ' || left(pg_walfile_name(pg_current_wal_lsn()), 8), 'UTF8')), 'hex'), 12)
    FROM pg_control_system()
);

CREATE FUNCTION newest_epoch() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
RETURN (SELECT max(number) FROM public.log_epoch);

-- A transaction's number as a place. Connections of the service know their epoch; everybody else looks it up.
CREATE FUNCTION in_epoch(number xid8) RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE
RETURN ((coalesce(nullif(current_setting('tracelake.epoch', true), '')::bigint, public.newest_epoch()) << 48) + number::text::bigint)::text::xid8;

CREATE FUNCTION begin_epoch() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    INSERT INTO log_epoch (number, cluster) SELECT max(number) + 1, this_cluster() FROM log_epoch RETURNING number
$$;

-- The epoch of this cluster: every connection asks when it is made, and none outlives its cluster. A new cluster begins the next epoch.
CREATE FUNCTION enter_epoch() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    here constant text := this_cluster();
    newest log_epoch;
BEGIN
    SELECT * INTO newest FROM log_epoch ORDER BY number DESC LIMIT 1;
    IF newest.cluster = here THEN
        RETURN newest.number;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('log epoch', 0));
    SELECT * INTO newest FROM log_epoch ORDER BY number DESC LIMIT 1;  -- another process may have been first
    RETURN CASE WHEN newest.cluster = here THEN newest.number ELSE begin_epoch() END;
END $$;
REVOKE ALL ON FUNCTION begin_epoch, enter_epoch FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enter_epoch TO tracelake_execute;

INSERT INTO log_epoch (number, cluster) VALUES (0, this_cluster());
ALTER TABLE audit ALTER COLUMN xid SET DEFAULT in_epoch(pg_current_xact_id());
-- A dump from before there were epochs may already lie ahead of this cluster.
SELECT begin_epoch() WHERE EXISTS (SELECT 1 FROM audit WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()));
