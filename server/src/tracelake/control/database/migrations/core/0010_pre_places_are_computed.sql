-- Places in logs are what the database computes: no setting of a connection and no statement of the service says them.
CREATE OR REPLACE FUNCTION in_epoch(number xid8) RETURNS xid8 LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (((SELECT max(epoch.number) FROM public.log_epoch AS epoch) << 48) + in_epoch.number::text::bigint)::text::xid8;
END $$;
DROP FUNCTION newest_epoch;

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
