-- Places in logs are what the database computes: no setting of a connection and no statement of the service says them.
CREATE OR REPLACE FUNCTION in_epoch(number xid8) RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE
RETURN ((public.newest_epoch() << 48) + number::text::bigint)::text::xid8;

-- The newest epoch is written into a function, which only the owner can replace: every row of a log asks for it, and a constant costs nothing.
-- Not IMMUTABLE: plans that were made before would keep the old one.
CREATE PROCEDURE know_newest_epoch() LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE (
        SELECT format('CREATE OR REPLACE FUNCTION public.newest_epoch() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE RETURN %s::bigint', max(number))
        FROM public.log_epoch
    );
END $$;
REVOKE ALL ON PROCEDURE know_newest_epoch FROM PUBLIC;
CALL know_newest_epoch();

CREATE OR REPLACE FUNCTION begin_epoch() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    INSERT INTO log_epoch (number, cluster) SELECT max(number) + 1, this_cluster() FROM log_epoch;
    CALL know_newest_epoch();
    RETURN (SELECT max(number) FROM log_epoch);
END $$;

-- Whoever inserts into a log names every column but those of its place; these have the database's defaults.
CREATE PROCEDURE keep_places(log regclass) LANGUAGE plpgsql AS $$
DECLARE
    named constant text := (
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = log AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('xid', 'seq')
    );
    inserter regrole;
BEGIN
    FOR inserter IN
        SELECT DISTINCT granted.grantee::regrole FROM pg_class CROSS JOIN LATERAL aclexplode(relacl) AS granted
        WHERE pg_class.oid = log AND granted.privilege_type = 'INSERT' AND granted.grantee <> relowner
    LOOP
        EXECUTE format('REVOKE INSERT ON %s FROM %s', log, inserter);
        EXECUTE format('GRANT INSERT (%s) ON %s TO %s', named, log, inserter);
    END LOOP;
END $$;
REVOKE ALL ON PROCEDURE keep_places FROM PUBLIC;

CALL keep_places('audit');
