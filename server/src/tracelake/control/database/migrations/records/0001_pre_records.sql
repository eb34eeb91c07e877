-- Metadata records: facts of registered kinds about targets. This set stands beside `core` alone, so that the records service can run by itself.
CREATE TABLE metadata_kind (
    org_id uuid NOT NULL REFERENCES org,
    name text NOT NULL CONSTRAINT kind_has_a_plain_name CHECK (name ~ '^[a-z][a-z0-9_]{0,63}$'),
    version integer NOT NULL CONSTRAINT kind_versions_count_from_1 CHECK (version >= 1),
    definition json NOT NULL,          -- as text, so that its schema comes back as it was written
    actor text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name, version)
);
CALL make_append_only('metadata_kind');
REVOKE INSERT ON metadata_kind FROM tracelake_execute;
GRANT INSERT ON metadata_kind TO tracelake_define;

CREATE SEQUENCE metadata_record_seq;
GRANT USAGE ON SEQUENCE metadata_record_seq TO tracelake_execute;

-- Partitioned by retention class, then by ranges of the id, which is time: old records leave by dropping a partition.
CREATE TABLE metadata_record (
    retention_class text NOT NULL,     -- `full`, `archive_{days}` or `drop_{days}`: of the kind, when it was stored
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    kind text NOT NULL,
    kind_version integer NOT NULL,
    target_key uuid NOT NULL,          -- half of a SHA-256 of source, schema and table, which are too long for an index
    source_id text NOT NULL,
    schema_name text NOT NULL,
    table_name text NOT NULL,
    producer_id text NOT NULL,
    produced_at timestamptz NOT NULL,
    quality text,
    job_id text,
    run_id text,
    namespace text,
    cluster text NOT NULL,
    workspace text NOT NULL,
    window_start timestamptz,          -- of the payload
    window_end timestamptz,
    dataset_ids uuid[],                -- what it is about; whoever may not read one of them does not see it
    record json NOT NULL,              -- as text, so that it comes back as it was told
    context json NOT NULL,
    stored_at timestamptz NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint NOT NULL DEFAULT nextval('metadata_record_seq'),
    PRIMARY KEY (retention_class, id)
) PARTITION BY LIST (retention_class);
CREATE INDEX metadata_record_of_target ON metadata_record (org_id, target_key, kind, produced_at, id);
CREATE INDEX metadata_record_of_kind ON metadata_record (org_id, kind, produced_at, id);
CREATE INDEX metadata_record_of_run ON metadata_record (org_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX metadata_record_tail ON metadata_record (org_id, xid, seq);
CALL make_append_only('metadata_record');

-- Sameness, kept as long as the record, wherever that is by then.
CREATE TABLE record_identity (
    identity bytea PRIMARY KEY,        -- begins with the tenant
    content bytea NOT NULL,
    record_id uuid NOT NULL,
    retention_class text NOT NULL
);
CREATE INDEX record_identity_of_dropped ON record_identity (retention_class, record_id) WHERE retention_class LIKE 'drop\_%';
CALL make_append_only('record_identity');

-- The newest record of each kind about each target: what would otherwise be looked for in every partition.
CREATE TABLE metadata_latest (
    org_id uuid NOT NULL REFERENCES org,
    kind text NOT NULL,
    target_key uuid NOT NULL,
    produced_at timestamptz NOT NULL,
    record_id uuid NOT NULL,           -- the greater one wins among equal times
    retention_class text NOT NULL,
    target json NOT NULL,
    dataset_ids uuid[],
    PRIMARY KEY (org_id, kind, target_key)
) WITH (fillfactor = 70);
GRANT SELECT, INSERT, UPDATE (produced_at, record_id, retention_class, target, dataset_ids) ON metadata_latest TO tracelake_execute;

-- The partition that takes records of a class made at a moment; made when it is not there. Says up to when it reaches.
-- A partition spans a tenth of what a rolling class keeps, at least a day and at most thirty.
CREATE FUNCTION ensure_record_partition(class text, moment timestamptz) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    days constant integer := least(30, greatest(1, coalesce(substring(class FROM '_([0-9]+)$')::integer, 300) / 10));
    day constant integer := floor(extract(epoch FROM moment) / 86400);
    first constant integer := day - day % days;
    whole constant text := 'metadata_record_' || class;
    part constant text := whole || '_' || to_char(date '1970-01-01' + first, 'YYYYMMDD');
    below constant timestamptz := to_timestamp((first + days) * 86400.0);
BEGIN
    IF class !~ '^(full|(archive|drop)_[1-9][0-9]{0,4})$' OR day NOT BETWEEN 0 AND 1000000 THEN
        RAISE EXCEPTION 'there is no retention class of this name at this moment' USING ERRCODE = 'invalid_parameter_value';
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

CREATE FUNCTION first_record_id(day integer) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(day::bigint * 86400000), 12, '0') || '00000000000000000000')::uuid
$$;

CREATE PROCEDURE attach_record_partition(parent text, part text, bounds text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES %s', parent, part, bounds);
    EXECUTE format('CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.%I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', part);
    EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER append_only', part);
    EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER append_only_whole', part);
END $$;
REVOKE ALL ON FUNCTION ensure_record_partition FROM PUBLIC;
REVOKE ALL ON PROCEDURE attach_record_partition FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_record_partition TO tracelake_execute;
