-- A partition leaves when it is old enough, and an archived one when its files were read back. The database checks both, whoever asks.

-- The fact that the files of a partition were read back from the storage, and held what its log entry says.
CREATE TABLE cold_verification (
    partition_name text PRIMARY KEY REFERENCES cold_partition,
    rows bigint NOT NULL,
    hash text NOT NULL,                -- over all rows, as they were read back
    at timestamptz NOT NULL DEFAULT now()
);
CALL make_append_only('cold_verification');

-- That records leave is a decision; the executing side stores and reads them.
REVOKE INSERT ON cold_partition, cold_file, cold_verification FROM tracelake_execute;
GRANT INSERT ON cold_partition, cold_verification TO tracelake_decide;
REVOKE ALL ON FUNCTION seal_record_partition, drop_record_partition FROM tracelake_execute;
GRANT EXECUTE ON FUNCTION seal_record_partition, drop_record_partition TO tracelake_decide;
REVOKE ALL ON FUNCTION first_record_id, refuse_record FROM PUBLIC;

-- When the youngest record that a partition can hold is as old as its class keeps records; null for one that stays, and for what is not a partition of records.
CREATE FUNCTION record_partition_leaves_at(part text) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT to_timestamp(('x' || substring(replace(bounds[1], '-', '') FOR 12))::bit(48)::bigint / 1000.0) + make_interval(days => days[1]::integer)
    FROM pg_inherits AS of_root
    JOIN pg_inherits AS of_class ON of_class.inhparent = of_root.inhrelid
    JOIN pg_class AS leaf ON leaf.oid = of_class.inhrelid
    CROSS JOIN LATERAL regexp_match(pg_get_expr(leaf.relpartbound, leaf.oid), $re$ TO \('([0-9a-f-]+)'\)$re$) AS bounds
    CROSS JOIN LATERAL regexp_match(leaf.relname, '^metadata_record_(?:archive|drop)_([1-9][0-9]{0,4})_[0-9]{8}$') AS days
    WHERE of_root.inhparent = 'public.metadata_record'::regclass AND leaf.relname = part
$$;
REVOKE ALL ON FUNCTION record_partition_leaves_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION record_partition_leaves_at TO tracelake_execute;

CREATE PROCEDURE check_record_partition_leaves(part text) LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    leaves_at constant timestamptz := record_partition_leaves_at(part);
BEGIN
    IF leaves_at IS NULL AND to_regclass('public.' || part) IS NULL THEN
        RETURN;  -- it has left a moment ago, which whoever asks finds out
    END IF;
    IF leaves_at IS NULL THEN
        RAISE EXCEPTION 'this is not a partition that may leave' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF leaves_at > now() THEN
        RAISE EXCEPTION 'partition % stays until %', part, leaves_at USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;
REVOKE ALL ON PROCEDURE check_record_partition_leaves FROM PUBLIC;

-- From here on a partition takes no record; waits for those who are about to add one. False: it is gone.
CREATE OR REPLACE FUNCTION seal_record_partition(part text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    IF part !~ '^metadata_record_(archive|drop)_[1-9][0-9]{0,4}_[0-9]{8}$' THEN
        RAISE EXCEPTION 'this is not a partition that may leave' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    CALL check_record_partition_leaves(part);
    IF to_regclass('public.' || part) IS NULL THEN
        RETURN false;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass('public.' || part) AND tgname = 'sealed') THEN
        EXECUTE format('CREATE TRIGGER sealed BEFORE INSERT ON public.%I FOR EACH ROW EXECUTE FUNCTION refuse_record()', part);
        EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER sealed', part);
    END IF;
    RETURN true;
EXCEPTION
    WHEN duplicate_object THEN RETURN true;  -- by another process, a moment ago
    WHEN undefined_table THEN RETURN false;
END $$;

-- Drops a sealed partition that is old enough. One that is archived must have its files in `cold_partition`, with as many rows, and these must have been
-- read back; they become those that answers are read from. Of one that is dropped for good, identities and the newest of each target go along, and the
-- span is remembered.
CREATE OR REPLACE FUNCTION drop_record_partition(part text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    class constant text := substring(part FROM '^metadata_record_((?:archive|drop)_[1-9][0-9]{0,4})_[0-9]{8}$');
    there bigint;
BEGIN
    IF class IS NULL THEN
        RAISE EXCEPTION 'this is not a partition that may leave' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    CALL check_record_partition_leaves(part);
    IF to_regclass('public.' || part) IS NULL THEN
        RETURN NULL;
    END IF;
    -- In the order in which readers take them. Whoever drops one has the first: what is there behind it stays.
    EXECUTE format('LOCK TABLE ONLY public.%I IN ACCESS EXCLUSIVE MODE', 'metadata_record_' || class);
    IF to_regclass('public.' || part) IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format('LOCK TABLE public.%I IN ACCESS EXCLUSIVE MODE', part);
    EXECUTE format('SELECT count(*) FROM public.%I', part) INTO there;
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass('public.' || part) AND tgname = 'sealed') THEN
        RAISE EXCEPTION 'the partition is not sealed' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF class LIKE 'archive\_%' THEN
        IF there > 0 AND NOT EXISTS (
            SELECT 1 FROM cold_partition AS frozen JOIN cold_verification AS read_back ON read_back.partition_name = frozen.name
            WHERE frozen.name = part AND frozen.rows = there AND (read_back.rows, read_back.hash) = (frozen.rows, frozen.hash)
        ) THEN
            RAISE EXCEPTION 'the rows of the partition are not all in files that were read back' USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        INSERT INTO cold_file (path, partition_name, org_id, rows, kinds, produced_from, produced_to, first_xid, first_seq, last_xid, last_seq)
        SELECT file.path, part, file.org_id, file.rows, file.kinds, file.produced_from, file.produced_to,
               file.first_xid::xid8, file.first_seq, file.last_xid::xid8, file.last_seq
        FROM cold_partition CROSS JOIN LATERAL json_to_recordset(cold_partition.files) AS file(
            path text, org_id uuid, rows bigint, kinds text[], produced_from timestamptz, produced_to timestamptz,
            first_xid text, first_seq bigint, last_xid text, last_seq bigint
        )
        WHERE cold_partition.name = part
        ON CONFLICT (path) DO NOTHING;  -- an empty partition of the same name, made since
    ELSE
        EXECUTE format(
            'INSERT INTO dropped_span AS known SELECT org_id, kind, max(produced_at) + interval ''1 microsecond'' FROM public.%I GROUP BY org_id, kind '
            'ON CONFLICT (org_id, kind) DO UPDATE SET before = greatest(known.before, excluded.before)', part
        );
        PERFORM set_config('tracelake.drops', class, true);
        EXECUTE format('DELETE FROM record_identity WHERE retention_class = %L AND record_id IN (SELECT id FROM public.%I)', class, part);
        PERFORM set_config('tracelake.drops', '', true);
        CALL forget_newest(part, class);
    END IF;
    EXECUTE format('DROP TABLE public.%I', part);
    RETURN there;
END $$;

-- Records are made now, by the clock of some machine: partitions of a distant future are nobody's.
CREATE OR REPLACE FUNCTION ensure_record_partition(class text, moment timestamptz) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    days constant integer := least(30, greatest(1, coalesce(substring(class FROM '_([0-9]{1,5})$')::integer, 300) / 10));
    day constant integer := floor(extract(epoch FROM moment) / 86400);
    first constant integer := day - day % days;
    whole constant text := 'metadata_record_' || class;
    part constant text := whole || '_' || to_char(date '1970-01-01' + first, 'YYYYMMDD');
    below constant timestamptz := to_timestamp((first + days) * 86400.0);
BEGIN
    IF class !~ '^(full|(archive|drop)_[1-9][0-9]{0,4})$' OR day < 0 OR moment > now() + interval '1 year' THEN
        RAISE EXCEPTION 'retention class or moment is not valid' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF to_regclass('public.' || part) IS NOT NULL THEN
        RETURN below;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('record partitions', 0));
    IF to_regclass('public.' || whole) IS NULL THEN
        EXECUTE format('CREATE TABLE public.%I (LIKE metadata_record INCLUDING DEFAULTS) PARTITION BY RANGE (id)', whole);
        CALL attach_record_partition('metadata_record', whole, format('IN (%L)', class));
    END IF;
    IF to_regclass('public.' || part) IS NULL THEN
        -- Made aside and attached: writers into its neighbours go on.
        EXECUTE format('CREATE TABLE public.%I (LIKE metadata_record INCLUDING DEFAULTS)', part);
        CALL attach_record_partition(whole, part, format('FROM (%L) TO (%L)', first_record_id(first), first_record_id(first + days)));
    END IF;
    RETURN below;
END $$;
