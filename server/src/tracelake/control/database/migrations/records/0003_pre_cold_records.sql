-- Records that have left Postgres: as files of one Delta table, or for good. Each leaves with its whole partition, in one transaction with the fact of it.
CREATE TABLE compaction (
    one boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_compaction CHECK (one),
    table_id uuid NOT NULL DEFAULT gen_random_uuid(),  -- of the Delta table
    made_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,              -- of the last run that went through
    held_until timestamptz             -- until then nobody else begins one; saves work, decides nothing
);
INSERT INTO compaction DEFAULT VALUES;
GRANT SELECT, UPDATE (ended_at, held_until) ON compaction TO tracelake_execute;

-- A partition whose rows are in files: the bytes of its log entry, before they are put where readers look.
CREATE TABLE cold_partition (
    name text PRIMARY KEY,
    delta_version bigint NOT NULL UNIQUE,
    body bytea NOT NULL,               -- of the log entry
    rows bigint NOT NULL,
    hash text NOT NULL,                -- over all rows, in whatever order
    files json NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CALL make_append_only('cold_partition');

-- The files that answers are read from. A row is here since its partition is gone.
CREATE TABLE cold_file (
    path text PRIMARY KEY,
    partition_name text NOT NULL REFERENCES cold_partition,
    org_id uuid NOT NULL REFERENCES org,
    rows bigint NOT NULL,
    kinds text[] NOT NULL,
    produced_from timestamptz NOT NULL,
    produced_to timestamptz NOT NULL,  -- of its newest record
    first_xid xid8 NOT NULL,           -- of its first record in the log
    first_seq bigint NOT NULL,
    last_xid xid8 NOT NULL,
    last_seq bigint NOT NULL
);
CREATE INDEX cold_file_of_org ON cold_file (org_id, produced_to);
CREATE INDEX cold_file_in_log ON cold_file (org_id, last_xid, last_seq);
CALL make_append_only('cold_file');

-- Up to where records of a kind are gone for good, so that answers can say so.
CREATE TABLE dropped_span (
    org_id uuid NOT NULL REFERENCES org,
    kind text NOT NULL,
    before timestamptz NOT NULL,       -- what was produced earlier and stored in time is gone
    PRIMARY KEY (org_id, kind)
);
GRANT SELECT ON dropped_span TO tracelake_execute;

-- An identity ends with its record, and only with it.
DROP TRIGGER append_only ON record_identity;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON record_identity FOR EACH ROW
    WHEN (old.retention_class NOT LIKE 'drop\_%' OR current_setting('tracelake.drops', true) IS DISTINCT FROM old.retention_class)
    EXECUTE FUNCTION refuse_change();
ALTER TABLE record_identity ENABLE ALWAYS TRIGGER append_only;

CREATE FUNCTION refuse_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'partition % is sealed', TG_TABLE_NAME USING ERRCODE = 'serialization_failure';
END $$;

-- From here on a partition takes no record; waits for those who are about to add one. False: it is gone.
CREATE FUNCTION seal_record_partition(part text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    IF part !~ '^metadata_record_(archive|drop)_[1-9][0-9]{0,4}_[0-9]{8}$' THEN
        RAISE EXCEPTION 'this is no partition that may leave' USING ERRCODE = 'invalid_parameter_value';
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

-- What was stored later and is older in itself becomes the newest of its target; a target of which nothing is left is forgotten.
CREATE PROCEDURE forget_newest(part text, class text) LANGUAGE plpgsql AS $$
DECLARE
    leaving constant text := format('latest.retention_class = %L AND latest.record_id IN (SELECT id FROM public.%I)', class, part);
BEGIN
    -- Locked by a statement of its own: the next one sees what those have stored who had it before.
    EXECUTE 'SELECT 1 FROM metadata_latest AS latest WHERE ' || leaving || ' ORDER BY org_id, kind, target_key FOR UPDATE';
    EXECUTE format(
        'UPDATE metadata_latest AS newest SET produced_at = found.produced_at, record_id = found.id, retention_class = found.retention_class, '
        '    target = found.record -> ''target'', dataset_ids = found.dataset_ids '
        'FROM metadata_latest AS latest CROSS JOIN LATERAL ('
        '    SELECT record.* FROM metadata_record AS record '
        '    WHERE record.org_id = latest.org_id AND record.target_key = latest.target_key AND record.kind = latest.kind AND record.tableoid <> %L::regclass '
        '    ORDER BY record.produced_at DESC, record.id DESC LIMIT 1'
        ') AS found '
        'WHERE (newest.org_id, newest.kind, newest.target_key) = (latest.org_id, latest.kind, latest.target_key) AND %s', 'public.' || part, leaving
    );
    EXECUTE 'DELETE FROM metadata_latest AS latest WHERE ' || leaving;
END $$;

-- Drops a sealed partition. One that is archived must have its files in `cold_partition`, with as many rows; they become those that answers are read from.
-- Of one that is dropped for good, identities and the newest of each target go along, and the span is remembered.
CREATE FUNCTION drop_record_partition(part text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    class constant text := substring(part FROM '^metadata_record_((?:archive|drop)_[1-9][0-9]{0,4})_[0-9]{8}$');
    there bigint;
BEGIN
    IF class IS NULL THEN
        RAISE EXCEPTION 'this is no partition that may leave' USING ERRCODE = 'invalid_parameter_value';
    END IF;
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
        IF there > 0 AND there IS DISTINCT FROM (SELECT rows FROM cold_partition WHERE name = part) THEN
            RAISE EXCEPTION 'the rows of the partition are not all in files' USING ERRCODE = 'object_not_in_prerequisite_state';
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
REVOKE ALL ON FUNCTION seal_record_partition, drop_record_partition FROM PUBLIC;
REVOKE ALL ON PROCEDURE forget_newest FROM PUBLIC;
GRANT EXECUTE ON FUNCTION seal_record_partition, drop_record_partition TO tracelake_execute;
