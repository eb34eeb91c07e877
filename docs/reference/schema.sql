-- Generated from the migrations by `make docs`, for readers; nothing runs it.

CREATE TYPE public.activation_kind AS ENUM (
    'deploy'
);

CREATE TYPE public.attempt_outcome AS ENUM (
    'succeeded',
    'failed',
    'canceled',
    'timed_out',
    'superseded',
    'given_back'
);

CREATE TYPE public.dag_right AS ENUM (
    'deploy',
    'trigger'
);

CREATE TYPE public.enforcement AS ENUM (
    'BLOCK',
    'ALERT'
);

CREATE TYPE public.event_kind AS ENUM (
    'materialized',
    'rewritten'
);

CREATE TYPE public.gate_stage AS ENUM (
    'eligibility',
    'execution',
    'policies',
    'quality',
    'decision'
);

CREATE TYPE public.gate_verdict AS ENUM (
    'pass',
    'warn',
    'fail',
    'error',
    'not_evaluated'
);

CREATE TYPE public.layer AS ENUM (
    'bronze',
    'silver',
    'gold'
);

CREATE TYPE public.query_status AS ENUM (
    'done',
    'refused',
    'failed',
    'over_limit'
);

CREATE TYPE public.rule_scope AS ENUM (
    'batch',
    'table'
);

CREATE TYPE public.run_status AS ENUM (
    'SUCCESS',
    'FAILED',
    'BLOCKED'
);

CREATE TYPE public.scope_span AS RANGE (
    subtype = text,
    multirange_type_name = public.scope_span_multirange,
    collation = pg_catalog."C"
);

CREATE TYPE public.severity AS ENUM (
    'FAIL',
    'WARN'
);

CREATE TYPE public.task_state AS ENUM (
    'queued',
    'running',
    'committing',
    'completed',
    'failed',
    'canceled'
);

CREATE TYPE public.token_kind AS ENUM (
    'user',
    'service',
    'worker'
);

CREATE TYPE public.told AS ENUM (
    'task',
    'filtered'
);

CREATE TYPE public.trigger_kind AS ENUM (
    'event',
    'request',
    'batch'
);

CREATE TYPE public.waits AS ENUM (
    'turn',
    'paused',
    'retry',
    'input',
    'line',
    'right'
);

CREATE PROCEDURE public.attach_record_partition(IN parent text, IN part text, IN bounds text)
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES %s', parent, part, bounds);
    EXECUTE format('CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.%I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', part);
    EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER append_only', part);
    EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER append_only_whole', part);
END $$;

CREATE FUNCTION public.begin_epoch() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO log_epoch (number, cluster) SELECT max(number) + 1, this_cluster() FROM log_epoch;
    CALL know_newest_epoch();
    RETURN (SELECT max(number) FROM log_epoch);
END $$;

CREATE FUNCTION public.check_bus_offset() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF (new.xid, new.seq) < (old.xid, old.seq)
        OR NOT EXISTS (SELECT 1 FROM bus_message AS message WHERE message.topic = new.topic AND (message.xid, message.seq) = (new.xid, new.seq))
    THEN
        RAISE EXCEPTION 'an offset moves forward, to a message of its topic' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN new;
END $$;

CREATE FUNCTION public.check_emission_offset() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF NOT (CASE new.stream
        WHEN 'run_history' THEN EXISTS (SELECT 1 FROM run_history WHERE (xid, seq) = (new.xid, new.seq))
        WHEN 'promotion_status' THEN EXISTS (SELECT 1 FROM promotion_status WHERE (xid, seq) = (new.xid, new.seq))
        ELSE false
    END) THEN
        RAISE EXCEPTION 'an offset of emission moves forward only to a fact of its stream' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN new;
END $$;

CREATE FUNCTION public.check_messages_are_read() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone JOIN bus_offset AS place ON place.topic = gone.topic WHERE (gone.xid, gone.seq) > (place.xid, place.seq)) THEN
        RAISE EXCEPTION 'a message stays until every subscriber of its topic has read it' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE PROCEDURE public.check_record_partition_leaves(IN part text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
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

CREATE FUNCTION public.drop_record_partition(part text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET lock_timeout TO '5s'
    AS $_$
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
END $_$;

CREATE FUNCTION public.ensure_record_partition(class text, moment timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $_$
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
END $_$;

CREATE FUNCTION public.enter_epoch() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
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

CREATE FUNCTION public.first_record_id(day integer) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (lpad(to_hex(day::bigint * 86400000), 12, '0') || '00000000000000000000')::uuid
$$;

CREATE PROCEDURE public.forget_newest(IN part text, IN class text)
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.newest_epoch() RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (0)::bigint;

CREATE FUNCTION public.in_epoch(number xid8) RETURNS xid8
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((((public.newest_epoch() << 48) + ((number)::text)::bigint))::text)::xid8;

CREATE PROCEDURE public.keep_places(IN log regclass)
    LANGUAGE plpgsql
    AS $$
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

CREATE PROCEDURE public.know_newest_epoch()
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE (
        SELECT format('CREATE OR REPLACE FUNCTION public.newest_epoch() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE RETURN %s::bigint', max(number))
        FROM public.log_epoch
    );
END $$;

CREATE PROCEDURE public.make_append_only(IN appended regclass)
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION refuse_change()', appended);
    EXECUTE format('CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', appended);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER append_only', appended);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER append_only_whole', appended);
    EXECUTE format('GRANT SELECT, INSERT ON %s TO tracelake_execute', appended);
END $$;

CREATE PROCEDURE public.make_decision(IN decided regclass)
    LANGUAGE plpgsql
    AS $$
BEGIN
    CALL make_append_only(decided);
    EXECUTE format('REVOKE INSERT ON %s FROM tracelake_execute', decided);
    EXECUTE format('GRANT INSERT ON %s TO tracelake_decide', decided);
END $$;

CREATE PROCEDURE public.make_definition(IN defined regclass)
    LANGUAGE plpgsql
    AS $$
BEGIN
    CALL make_append_only(defined);
    EXECUTE format('REVOKE INSERT ON %s FROM tracelake_execute', defined);
    EXECUTE format('GRANT INSERT ON %s TO tracelake_define', defined);
END $$;

CREATE FUNCTION public.record_partition_leaves_at(part text) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $_$
    SELECT to_timestamp(('x' || substring(replace(bounds[1], '-', '') FOR 12))::bit(48)::bigint / 1000.0) + make_interval(days => days[1]::integer)
    FROM pg_inherits AS of_root
    JOIN pg_inherits AS of_class ON of_class.inhparent = of_root.inhrelid
    JOIN pg_class AS leaf ON leaf.oid = of_class.inhrelid
    CROSS JOIN LATERAL regexp_match(pg_get_expr(leaf.relpartbound, leaf.oid), $re$ TO \('([0-9a-f-]+)'\)$re$) AS bounds
    CROSS JOIN LATERAL regexp_match(leaf.relname, '^metadata_record_(?:archive|drop)_([1-9][0-9]{0,4})_[0-9]{8}$') AS days
    WHERE of_root.inhparent = 'public.metadata_record'::regclass AND leaf.relname = part
$_$;

CREATE FUNCTION public.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION public.refuse_record() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'partition % is sealed', TG_TABLE_NAME USING ERRCODE = 'serialization_failure';
END $$;

CREATE FUNCTION public.seal_record_partition(part text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    SET lock_timeout TO '5s'
    AS $_$
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
END $_$;

CREATE FUNCTION public.this_cluster() RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT "left"(encode(sha256(convert_to(((pg_control_system.system_identifier || ' '::text) || "left"(pg_walfile_name(pg_current_wal_lsn()), 8)), 'UTF8'::name)), 'hex'::text), 12) AS "left" FROM pg_control_system() pg_control_system(pg_control_version, catalog_version_no, system_identifier, pg_control_last_modified));

CREATE FUNCTION public.verify_events() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
    IF new.verified_up_to < old.verified_up_to OR NOT EXISTS (SELECT 1 FROM dataset_event WHERE id = new.verified_up_to) THEN
        RAISE EXCEPTION 'verifying moves forward, to an event' USING ERRCODE = 'restrict_violation';
    END IF;
    -- The ledger's lines are written with their events, and which jobs subscribed at an event's time does not change: verified once is verified for good.
    INSERT INTO unaccounted_event (event_id, generation_id)
    SELECT DISTINCT event.id, job.generation_id
    FROM dataset_event AS event
    JOIN job_input ON job_input.dataset_id = event.dataset_id AND job_input.trigger
    JOIN job ON job.id = job_input.job_id
    JOIN dag_activation AS activation ON activation.dag_version_id = job.dag_version_id AND activation.at <= event.told_at
    WHERE event.id > old.verified_up_to AND event.id <= new.verified_up_to
      AND NOT EXISTS (SELECT 1 FROM event_ledger AS ledger WHERE ledger.event_id = event.id AND ledger.generation_id = job.generation_id)
    ON CONFLICT DO NOTHING;
    RETURN new;
END $$;

CREATE TABLE public.api_token (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    kind public.token_kind NOT NULL,
    user_id uuid,
    label text NOT NULL,
    sha256 bytea NOT NULL,
    scopes text[] DEFAULT '{}'::text[] NOT NULL,
    pools text[],
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT user_token_has_a_user CHECK (((kind = 'user'::public.token_kind) = (user_id IS NOT NULL)))
);

CREATE TABLE public.app_user (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    name text NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    disabled_at timestamp with time zone
);

CREATE TABLE public.audit (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL
);

CREATE TABLE public.batch (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    producer_task_id uuid NOT NULL,
    attempt integer NOT NULL,
    name text NOT NULL,
    output_index integer NOT NULL,
    files text[] NOT NULL,
    state jsonb,
    task_id uuid NOT NULL,
    posted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE public.bus_message (
    topic text NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL,
    seq bigint NOT NULL,
    key text,
    body json NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE public.bus_message ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.bus_message_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.bus_name (
    one boolean DEFAULT true NOT NULL,
    name text NOT NULL,
    CONSTRAINT there_is_one_bus_name CHECK (one)
);

CREATE TABLE public.bus_offset (
    topic text NOT NULL,
    subscriber text NOT NULL,
    xid xid8 DEFAULT '0'::xid8 NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    holder uuid,
    held_until timestamp with time zone,
    CONSTRAINT held_means_by_somebody CHECK (((held_until IS NULL) OR (holder IS NOT NULL)))
);

CREATE TABLE public.change (
    generation_id uuid NOT NULL,
    place bigint NOT NULL,
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    base bigint NOT NULL,
    custom jsonb NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    CONSTRAINT built_on_what_was_there CHECK ((base < place)),
    CONSTRAINT places_start_at_one CHECK ((place >= 1))
);

CREATE TABLE public.change_output (
    generation_id uuid NOT NULL,
    place bigint NOT NULL,
    dataset_version_id uuid NOT NULL,
    promotion_id uuid NOT NULL,
    allowed boolean DEFAULT true NOT NULL,
    table_schema jsonb NOT NULL,
    schema_hash text NOT NULL,
    row_count bigint NOT NULL,
    fingerprint text NOT NULL,
    CONSTRAINT only_what_is_allowed CHECK (allowed)
);

CREATE TABLE public.change_scope (
    dataset_version_id uuid NOT NULL,
    place bigint NOT NULL,
    scope jsonb NOT NULL,
    span public.scope_span NOT NULL,
    kind public.event_kind NOT NULL
);

CREATE TABLE public.cold_file (
    path text NOT NULL,
    partition_name text NOT NULL,
    org_id uuid NOT NULL,
    rows bigint NOT NULL,
    kinds text[] NOT NULL,
    produced_from timestamp with time zone NOT NULL,
    produced_to timestamp with time zone NOT NULL,
    first_xid xid8 NOT NULL,
    first_seq bigint NOT NULL,
    last_xid xid8 NOT NULL,
    last_seq bigint NOT NULL
);

CREATE TABLE public.cold_partition (
    name text NOT NULL,
    delta_version bigint NOT NULL,
    body bytea NOT NULL,
    rows bigint NOT NULL,
    hash text NOT NULL,
    files json NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.cold_verification (
    partition_name text NOT NULL,
    rows bigint NOT NULL,
    hash text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.compaction (
    one boolean DEFAULT true NOT NULL,
    table_id uuid DEFAULT gen_random_uuid() NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    held_until timestamp with time zone,
    CONSTRAINT there_is_one_compaction CHECK (one)
);

CREATE TABLE public.dag (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    name text NOT NULL,
    active_version_id uuid,
    paused_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT dag_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,127}$'::text))
);

CREATE TABLE public.dag_version (
    id uuid NOT NULL,
    dag_id uuid NOT NULL,
    number integer NOT NULL,
    spec jsonb NOT NULL,
    spec_hash text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text NOT NULL
);

CREATE TABLE public.job (
    id uuid NOT NULL,
    dag_version_id uuid NOT NULL,
    job_key_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    pool_id uuid NOT NULL,
    spec jsonb NOT NULL,
    config_hash text NOT NULL,
    ordered boolean NOT NULL,
    turns integer,
    CONSTRAINT ordered_means_one_turn CHECK (((NOT ordered) OR (turns = 1))),
    CONSTRAINT turns_are_at_least_one CHECK ((turns >= 1))
);

CREATE TABLE public.job_key (
    id uuid NOT NULL,
    dag_id uuid NOT NULL,
    name text NOT NULL,
    paused_at timestamp with time zone,
    pause_reason text,
    CONSTRAINT job_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,127}$'::text)),
    CONSTRAINT paused_means_a_reason CHECK (((paused_at IS NULL) = (pause_reason IS NULL)))
);

CREATE TABLE public.worker_pool (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    runtime text NOT NULL,
    name text NOT NULL
);

CREATE VIEW public.current_job AS
 SELECT job.id,
    job.generation_id,
    job.job_key_id,
    job_key.dag_id,
    dag.org_id,
    dag.name AS dag,
    version.number AS dag_version,
    job_key.name,
    job.pool_id,
    pool.name AS pool,
    job.spec,
    job.config_hash,
    job.ordered,
    job.turns,
    ((dag.paused_at IS NOT NULL) OR (job_key.paused_at IS NOT NULL)) AS paused
   FROM ((((public.job
     JOIN public.dag_version version ON ((version.id = job.dag_version_id)))
     JOIN public.dag ON ((dag.active_version_id = version.id)))
     JOIN public.job_key ON ((job_key.id = job.job_key_id)))
     JOIN public.worker_pool pool ON ((pool.id = job.pool_id)));

CREATE TABLE public.dag_activation (
    id uuid NOT NULL,
    dag_id uuid NOT NULL,
    dag_version_id uuid NOT NULL,
    kind public.activation_kind NOT NULL,
    previous_id uuid,
    pointer_set_hash text NOT NULL,
    actor text NOT NULL,
    at timestamp with time zone NOT NULL,
    user_id uuid,
    token_id uuid,
    CONSTRAINT activated_by_one CHECK ((num_nonnulls(user_id, token_id) <= 1))
);

CREATE TABLE public.dag_grant (
    dag_id uuid NOT NULL,
    dag_right public.dag_right NOT NULL,
    role_id uuid,
    user_id uuid,
    token_id uuid,
    actor text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT granted_to_one CHECK ((num_nonnulls(role_id, user_id, token_id) = 1))
);

CREATE TABLE public.data_file (
    dataset_version_id uuid NOT NULL,
    path text NOT NULL,
    scope jsonb NOT NULL,
    span public.scope_span NOT NULL,
    added_place bigint NOT NULL,
    removed_place bigint,
    added_version bigint,
    removed_version bigint,
    size bigint NOT NULL,
    rows bigint NOT NULL,
    statistics jsonb NOT NULL,
    schema_hash text NOT NULL,
    seal text NOT NULL,
    key_min jsonb,
    key_max jsonb,
    hashes text,
    CONSTRAINT paths_are_plain CHECK (((path ~ '^[A-Za-z0-9_./-]+$'::text) AND (path !~ '(^|/)[.]{1,2}(/|$)'::text) AND ("left"(path, 1) <> '/'::text))),
    CONSTRAINT recorded_in_order CHECK (((removed_version IS NULL) OR ((added_version IS NOT NULL) AND (removed_place IS NOT NULL) AND (removed_version > added_version)))),
    CONSTRAINT removed_after_added CHECK (((removed_place IS NULL) OR (removed_place > added_place)))
);

CREATE TABLE public.data_version (
    dataset_id uuid NOT NULL,
    version bigint NOT NULL,
    org_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    delta_version bigint NOT NULL,
    snapshot_ref text NOT NULL,
    table_schema jsonb NOT NULL,
    schema_hash text NOT NULL,
    row_count bigint NOT NULL,
    promoted_at timestamp with time zone NOT NULL,
    promoted_by text NOT NULL,
    seq bigint NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL
);

CREATE TABLE public.data_version_member (
    dataset_id uuid NOT NULL,
    version bigint NOT NULL,
    generation_id uuid NOT NULL,
    place bigint NOT NULL,
    dataset_version_id uuid NOT NULL
);

ALTER TABLE public.data_version ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.data_version_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.data_versions AS
 SELECT (dataset_id)::text AS dataset_id,
    version,
    snapshot_ref,
    schema_hash,
    row_count,
    promoted_at,
    promoted_by,
    org_id,
    seq
   FROM public.data_version;

CREATE TABLE public.dataset (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    job_key_id uuid NOT NULL,
    output_index integer NOT NULL,
    layer public.layer NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    has_files boolean DEFAULT false NOT NULL
);

CREATE TABLE public.dataset_event (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    producer_task_id uuid NOT NULL,
    kind public.event_kind NOT NULL,
    scope jsonb NOT NULL,
    revision text NOT NULL,
    event_time timestamp with time zone,
    payload jsonb NOT NULL,
    told_at timestamp with time zone NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL
);

CREATE TABLE public.dataset_name (
    org_id uuid NOT NULL,
    name text NOT NULL,
    dataset_id uuid NOT NULL,
    CONSTRAINT dataset_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,127}$'::text))
);

CREATE TABLE public.dataset_read_role (
    dataset_id uuid NOT NULL,
    role_id uuid NOT NULL
);

CREATE TABLE public.role (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    name text NOT NULL,
    CONSTRAINT role_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,62}$'::text))
);

CREATE VIEW public.dataset_reader AS
 SELECT reads.dataset_id,
    reads.role_id,
    NULL::uuid AS user_id,
    NULL::uuid AS token_id
   FROM public.dataset_read_role reads
UNION ALL
 SELECT dataset.id AS dataset_id,
    held.role_id,
    held.user_id,
    held.token_id
   FROM ((public.dag_grant held
     JOIN public.job_key ON ((job_key.dag_id = held.dag_id)))
     JOIN public.dataset ON ((dataset.job_key_id = job_key.id)))
UNION ALL
 SELECT dataset.id AS dataset_id,
    role.id AS role_id,
    NULL::uuid AS user_id,
    NULL::uuid AS token_id
   FROM (public.dataset
     JOIN public.role ON (((role.org_id = dataset.org_id) AND (role.name = 'admin'::text))));

CREATE TABLE public.dataset_revision (
    dataset_id uuid NOT NULL,
    revision integer NOT NULL,
    domain text NOT NULL,
    owner text NOT NULL,
    description text NOT NULL,
    active boolean NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    actor text NOT NULL
);

CREATE VIEW public.dataset_registry AS
 SELECT (dataset.id)::text AS dataset_id,
    name.name AS dataset_name,
    revision.domain,
    dataset.layer,
    revision.owner,
    revision.description,
    revision.active,
    dataset.created_at,
    dataset.org_id,
    revision.revision
   FROM ((public.dataset
     JOIN public.dataset_revision revision ON ((revision.dataset_id = dataset.id)))
     LEFT JOIN public.dataset_name name ON ((name.dataset_id = dataset.id)));

CREATE TABLE public.dataset_snapshot (
    org_id uuid NOT NULL,
    name text NOT NULL,
    dataset_id uuid NOT NULL,
    version bigint NOT NULL,
    actor text NOT NULL,
    user_id uuid,
    token_id uuid,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT snapshot_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,127}$'::text))
);

CREATE TABLE public.dataset_version (
    id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.delta_commit (
    dataset_version_id uuid NOT NULL,
    delta_version bigint NOT NULL,
    generation_id uuid NOT NULL,
    first_place bigint NOT NULL,
    last_place bigint NOT NULL,
    body bytea,
    sha256 bytea NOT NULL,
    written_as timestamp with time zone NOT NULL,
    frozen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    recorded_at timestamp with time zone,
    CONSTRAINT cleared_once_recorded CHECK (((body IS NULL) = (recorded_at IS NOT NULL)))
);

CREATE TABLE public.dropped_span (
    org_id uuid NOT NULL,
    kind text NOT NULL,
    before timestamp with time zone NOT NULL
);

CREATE TABLE public.emission (
    stream text NOT NULL,
    xid xid8 DEFAULT '0'::xid8 NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    holder uuid,
    held_until timestamp with time zone,
    CONSTRAINT held_means_by_somebody CHECK (((held_until IS NULL) OR (holder IS NOT NULL)))
);

CREATE TABLE public.emission_refusal (
    kind text NOT NULL,
    fact text NOT NULL,
    code text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.event_accounting (
    one boolean DEFAULT true NOT NULL,
    verified_up_to uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL,
    CONSTRAINT one_row CHECK (one)
);

CREATE TABLE public.event_ledger (
    event_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    outcome public.told NOT NULL,
    task_id uuid,
    CONSTRAINT a_task_where_one_was_made CHECK (((outcome = 'task'::public.told) = (task_id IS NOT NULL)))
);

CREATE TABLE public.failing_loop (
    org_id uuid NOT NULL,
    worker text NOT NULL,
    loop text NOT NULL,
    code text NOT NULL,
    reported_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.generation (
    id uuid NOT NULL,
    job_key_id uuid NOT NULL,
    lineage_hash text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.idempotency (
    org_id uuid NOT NULL,
    kind text NOT NULL,
    key bytea NOT NULL,
    body_sha256 bytea NOT NULL,
    id uuid NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.job_input (
    job_id uuid NOT NULL,
    index integer NOT NULL,
    dataset_id uuid NOT NULL,
    trigger boolean NOT NULL,
    filter jsonb
);

CREATE TABLE public.line (
    generation_id uuid NOT NULL,
    next_ordinal bigint DEFAULT 1 NOT NULL,
    decided bigint DEFAULT 0 NOT NULL,
    frozen bigint DEFAULT 0 NOT NULL,
    recorded bigint DEFAULT 0 NOT NULL,
    stopped_at timestamp with time zone,
    stopped_reason text,
    turn_task_id uuid,
    turn_attempt integer,
    reserved_task_id uuid,
    CONSTRAINT a_turn_is_an_attempts CHECK (((turn_task_id IS NULL) = (turn_attempt IS NULL))),
    CONSTRAINT places_come_in_order CHECK (((recorded <= frozen) AND (frozen <= decided))),
    CONSTRAINT stopped_means_a_reason CHECK (((stopped_at IS NULL) = (stopped_reason IS NULL)))
);

CREATE TABLE public.location (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    name text NOT NULL,
    CONSTRAINT location_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,127}$'::text))
);

CREATE TABLE public.location_revision (
    location_id uuid NOT NULL,
    revision integer NOT NULL,
    url text,
    actor text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT location_is_a_folder_or_a_prefix CHECK ((url ~ '^(file:///|s3://[^/])'::text)),
    CONSTRAINT revisions_count_from_one CHECK ((revision >= 1))
);

CREATE TABLE public.location_role (
    location_id uuid NOT NULL,
    role_id uuid NOT NULL
);

CREATE TABLE public.log_epoch (
    number bigint NOT NULL,
    cluster text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT an_epoch_fits_in_a_place CHECK (((number >= 0) AND (number <= 16383)))
);

CREATE TABLE public.materialization (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    version bigint NOT NULL,
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    scope jsonb NOT NULL,
    span public.scope_span NOT NULL,
    custom jsonb NOT NULL,
    at timestamp with time zone NOT NULL
);

CREATE TABLE public.materialization_input (
    materialization_id uuid NOT NULL,
    index integer NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    version bigint NOT NULL
);

CREATE TABLE public.metadata_kind (
    org_id uuid NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    definition json NOT NULL,
    actor text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT kind_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,63}$'::text)),
    CONSTRAINT kind_versions_count_from_1 CHECK ((version >= 1))
);

CREATE TABLE public.metadata_latest (
    org_id uuid NOT NULL,
    kind text NOT NULL,
    target_key uuid NOT NULL,
    produced_at timestamp with time zone NOT NULL,
    record_id uuid NOT NULL,
    retention_class text NOT NULL,
    target json NOT NULL,
    dataset_ids uuid[]
)
WITH (fillfactor='70');

CREATE SEQUENCE public.metadata_record_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.metadata_record (
    retention_class text NOT NULL,
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    kind text NOT NULL,
    kind_version integer NOT NULL,
    target_key uuid NOT NULL,
    source_id text NOT NULL,
    schema_name text NOT NULL,
    table_name text NOT NULL,
    producer_id text NOT NULL,
    produced_at timestamp with time zone NOT NULL,
    quality text,
    job_id text,
    run_id text,
    namespace text,
    cluster text NOT NULL,
    workspace text NOT NULL,
    window_start timestamp with time zone,
    window_end timestamp with time zone,
    dataset_ids uuid[],
    record json NOT NULL,
    context json NOT NULL,
    stored_at timestamp with time zone NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL,
    seq bigint DEFAULT nextval('public.metadata_record_seq'::regclass) NOT NULL
)
PARTITION BY LIST (retention_class);

CREATE TABLE public.operator_state (
    generation_id uuid NOT NULL,
    revision bigint NOT NULL,
    value jsonb NOT NULL,
    CONSTRAINT revisions_start_at_one CHECK ((revision >= 1))
);

CREATE TABLE public.org (
    id uuid NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    disabled_at timestamp with time zone,
    operates boolean DEFAULT false NOT NULL,
    CONSTRAINT org_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,62}$'::text)),
    CONSTRAINT the_operating_org_is_not_disabled CHECK (((NOT operates) OR (disabled_at IS NULL)))
);

CREATE TABLE public.outbox (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    kind text NOT NULL,
    body jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    last_error text,
    sent_at timestamp with time zone,
    given_up_at timestamp with time zone,
    CONSTRAINT sent_or_given_up_not_both CHECK (((sent_at IS NULL) OR (given_up_at IS NULL)))
);

CREATE TABLE public.pin (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    caller text NOT NULL,
    user_id uuid,
    token_id uuid,
    taken_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease_expires_at timestamp with time zone NOT NULL,
    released_at timestamp with time zone
);

CREATE TABLE public.pin_dataset (
    pin_id uuid NOT NULL,
    name text NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    version bigint NOT NULL
);

CREATE TABLE public.pointer (
    dag_version_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL
);

CREATE TABLE public.policy_result (
    promotion_id uuid NOT NULL,
    number integer NOT NULL,
    policy_id uuid NOT NULL,
    revision integer NOT NULL,
    policy_type text NOT NULL,
    verdict public.gate_verdict NOT NULL,
    sentence text NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL
);

CREATE TABLE public.policy_rule (
    id uuid NOT NULL,
    revision integer NOT NULL,
    org_id uuid NOT NULL,
    applies_to_layer public.layer NOT NULL,
    policy_type text NOT NULL,
    policy_expression text NOT NULL,
    enforcement public.enforcement NOT NULL,
    active boolean NOT NULL,
    actor text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seq bigint NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL,
    CONSTRAINT policy_revisions_start_at_one CHECK ((revision >= 1))
);

ALTER TABLE public.policy_rule ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.policy_rule_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.policy_rules AS
 SELECT (id)::text AS policy_id,
    applies_to_layer,
    policy_type,
    policy_expression,
    enforcement,
    active,
    org_id,
    revision
   FROM public.policy_rule;

CREATE TABLE public.promotion_status (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    run_id text NOT NULL,
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    from_layer text NOT NULL,
    to_layer public.layer NOT NULL,
    allowed boolean NOT NULL,
    stage public.gate_stage NOT NULL,
    reason text NOT NULL,
    evidence jsonb NOT NULL,
    evaluated_at timestamp with time zone NOT NULL,
    seq bigint NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL,
    CONSTRAINT allowed_means_decided CHECK ((allowed = (stage = 'decision'::public.gate_stage))),
    CONSTRAINT from_the_layer_below CHECK (((((from_layer = 'source'::text) AND (to_layer = 'bronze'::public.layer)) OR ((from_layer = 'bronze'::text) AND (to_layer = 'silver'::public.layer))) OR ((from_layer = 'silver'::text) AND (to_layer = 'gold'::public.layer))))
);

ALTER TABLE public.promotion_status ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.promotion_status_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.quality_result (
    promotion_id uuid NOT NULL,
    number integer NOT NULL,
    rule_id uuid,
    revision integer,
    rule_type text NOT NULL,
    verdict public.gate_verdict NOT NULL,
    violations bigint,
    examined bigint,
    method text,
    milliseconds double precision,
    samples jsonb DEFAULT '[]'::jsonb NOT NULL,
    sentence text NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL
);

CREATE TABLE public.quality_rule (
    id uuid NOT NULL,
    revision integer NOT NULL,
    org_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    rule_type text NOT NULL,
    rule_expression text NOT NULL,
    tree jsonb NOT NULL,
    severity public.severity NOT NULL,
    scope public.rule_scope NOT NULL,
    active boolean NOT NULL,
    actor text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seq bigint NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL,
    CONSTRAINT rule_revisions_start_at_one CHECK ((revision >= 1))
);

ALTER TABLE public.quality_rule ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.quality_rule_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.quality_rules AS
 SELECT (rule.id)::text AS rule_id,
    (rule.dataset_id)::text AS dataset_id,
    dataset.layer,
    rule.rule_type,
    rule.rule_expression,
    rule.severity,
    rule.active,
    rule.org_id,
    rule.revision
   FROM (public.quality_rule rule
     JOIN public.dataset ON ((dataset.id = rule.dataset_id)));

CREATE TABLE public.query_run (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    actor text NOT NULL,
    user_id uuid,
    token_id uuid,
    sql text NOT NULL,
    sql_sha256 text NOT NULL,
    pins jsonb NOT NULL,
    status public.query_status NOT NULL,
    error_code text,
    result_hash text,
    left_out text[] NOT NULL,
    row_count bigint,
    row_limit bigint NOT NULL,
    milliseconds double precision NOT NULL,
    engine_version text NOT NULL,
    replayable boolean NOT NULL,
    why_not text,
    replay_of uuid,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT done_means_a_result CHECK ((((status = 'done'::public.query_status) = (error_code IS NULL)) AND ((status <> 'done'::public.query_status) OR ((result_hash IS NOT NULL) AND (row_count IS NOT NULL))))),
    CONSTRAINT not_replayable_means_a_reason CHECK ((replayable OR (status <> 'done'::public.query_status) OR (why_not IS NOT NULL))),
    CONSTRAINT replayable_means_done CHECK (((NOT replayable) OR (status = 'done'::public.query_status)))
);

CREATE TABLE public.record_identity (
    identity bytea NOT NULL,
    content bytea NOT NULL,
    record_id uuid NOT NULL,
    retention_class text NOT NULL
);

CREATE TABLE public.relay_offset (
    name text NOT NULL,
    behind text,
    holder uuid,
    held_until timestamp with time zone,
    CONSTRAINT held_means_by_somebody CHECK (((held_until IS NULL) OR (holder IS NOT NULL)))
);

CREATE TABLE public.role_member (
    role_id uuid NOT NULL,
    user_id uuid NOT NULL
);

CREATE TABLE public.run_history (
    run_id text NOT NULL,
    org_id uuid NOT NULL,
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    generation_id uuid NOT NULL,
    dataset_id uuid,
    layer public.layer,
    status public.run_status NOT NULL,
    start_time timestamp with time zone NOT NULL,
    end_time timestamp with time zone NOT NULL,
    error_message text,
    triggered_by text NOT NULL,
    seq bigint NOT NULL,
    xid xid8 DEFAULT public.in_epoch(pg_current_xact_id()) NOT NULL,
    dag_version integer
);

ALTER TABLE public.run_history ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.run_history_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.saved_query (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    user_id uuid,
    token_id uuid,
    name text NOT NULL,
    sql text NOT NULL,
    description text NOT NULL,
    saved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT saved_by_one CHECK ((num_nonnulls(user_id, token_id) = 1)),
    CONSTRAINT saved_query_has_a_plain_name CHECK ((name ~ '^[a-z][a-z0-9_]{0,127}$'::text))
);

CREATE TABLE public.schema_migration (
    set text NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.scope_state (
    dataset_version_id uuid NOT NULL,
    scope jsonb NOT NULL,
    span public.scope_span NOT NULL,
    place bigint NOT NULL
);

CREATE TABLE public.table_rule_state (
    dataset_version_id uuid NOT NULL,
    rule_id uuid NOT NULL,
    revision integer NOT NULL,
    place bigint NOT NULL,
    violations bigint NOT NULL,
    CONSTRAINT violations_are_counted CHECK ((violations >= 0))
);

CREATE TABLE public.task (
    id uuid NOT NULL,
    org_id uuid NOT NULL,
    dag_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    pool_id uuid NOT NULL,
    state public.task_state DEFAULT 'queued'::public.task_state NOT NULL,
    waits public.waits,
    seq bigint,
    ordinal bigint,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    trigger_kind public.trigger_kind NOT NULL,
    trigger_id uuid NOT NULL,
    scope jsonb,
    request jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    due_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    cancel_asked_at timestamp with time zone,
    finished_at timestamp with time zone,
    superseded integer DEFAULT 0 NOT NULL,
    CONSTRAINT failures_are_attempts CHECK ((failures <= attempt)),
    CONSTRAINT final_means_finished CHECK (((state = ANY (ARRAY['completed'::public.task_state, 'failed'::public.task_state, 'canceled'::public.task_state])) = (finished_at IS NOT NULL))),
    CONSTRAINT not_queued_means_no_place CHECK (((state = 'queued'::public.task_state) OR (num_nonnulls(seq, waits) = 0))),
    CONSTRAINT queued_means_claimable_or_waiting CHECK (((state = 'queued'::public.task_state) = (num_nonnulls(seq, waits) = 1))),
    CONSTRAINT retry_means_due CHECK (((waits IS DISTINCT FROM 'retry'::public.waits) OR (due_at IS NOT NULL))),
    CONSTRAINT running_means_leased CHECK (((state = 'running'::public.task_state) = (lease_expires_at IS NOT NULL))),
    CONSTRAINT turn_means_ordinal CHECK (((waits IS DISTINCT FROM 'turn'::public.waits) OR (ordinal IS NOT NULL)))
);

CREATE TABLE public.task_attempt (
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    claim_sha256 bytea NOT NULL,
    token_sha256 bytea NOT NULL,
    worker text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    last_heartbeat_at timestamp with time zone,
    state_revision bigint,
    deadline_at timestamp with time zone NOT NULL,
    timed_out_at timestamp with time zone,
    ended_at timestamp with time zone,
    outcome public.attempt_outcome,
    error_class text,
    error_message text,
    body_sha256 bytea,
    result jsonb,
    base bigint,
    scopes jsonb,
    rebases integer DEFAULT 0 NOT NULL,
    swept_at timestamp with time zone,
    dag_version integer,
    summary jsonb DEFAULT '[]'::jsonb NOT NULL,
    sweep_not_before timestamp with time zone,
    CONSTRAINT ended_means_an_outcome CHECK (((ended_at IS NULL) = (outcome IS NULL))),
    CONSTRAINT taken_means_answered CHECK (((body_sha256 IS NULL) = (result IS NULL)))
);

CREATE TABLE public.task_input (
    task_id uuid NOT NULL,
    attempt integer NOT NULL,
    index integer NOT NULL,
    dataset_id uuid NOT NULL,
    dataset_version_id uuid NOT NULL,
    version bigint NOT NULL
);

CREATE SEQUENCE public.task_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.token_role (
    token_id uuid NOT NULL,
    role_id uuid NOT NULL
);

CREATE TABLE public.unaccounted_event (
    event_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    found_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.version_counter (
    dataset_id uuid NOT NULL,
    last bigint NOT NULL
);

ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_sha256_key UNIQUE (sha256);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_org_id_name_key UNIQUE (org_id, name);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_producer_task_id_name_key UNIQUE (producer_task_id, name);

ALTER TABLE ONLY public.bus_message
    ADD CONSTRAINT bus_message_pkey PRIMARY KEY (topic, xid, seq);

ALTER TABLE ONLY public.bus_name
    ADD CONSTRAINT bus_name_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.bus_offset
    ADD CONSTRAINT bus_offset_pkey PRIMARY KEY (topic, subscriber);

ALTER TABLE ONLY public.change_output
    ADD CONSTRAINT change_output_pkey PRIMARY KEY (generation_id, place, dataset_version_id);

ALTER TABLE ONLY public.change
    ADD CONSTRAINT change_pkey PRIMARY KEY (generation_id, place);

ALTER TABLE ONLY public.change_scope
    ADD CONSTRAINT change_scope_pkey PRIMARY KEY (dataset_version_id, place, span);

ALTER TABLE ONLY public.change
    ADD CONSTRAINT change_task_id_attempt_key UNIQUE (task_id, attempt);

ALTER TABLE ONLY public.cold_file
    ADD CONSTRAINT cold_file_pkey PRIMARY KEY (path);

ALTER TABLE ONLY public.cold_partition
    ADD CONSTRAINT cold_partition_delta_version_key UNIQUE (delta_version);

ALTER TABLE ONLY public.cold_partition
    ADD CONSTRAINT cold_partition_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.cold_verification
    ADD CONSTRAINT cold_verification_pkey PRIMARY KEY (partition_name);

ALTER TABLE ONLY public.compaction
    ADD CONSTRAINT compaction_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.dag_activation
    ADD CONSTRAINT dag_activation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dag
    ADD CONSTRAINT dag_org_id_name_key UNIQUE (org_id, name);

ALTER TABLE ONLY public.dag
    ADD CONSTRAINT dag_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dag_version
    ADD CONSTRAINT dag_version_dag_id_number_key UNIQUE (dag_id, number);

ALTER TABLE ONLY public.dag_version
    ADD CONSTRAINT dag_version_dag_id_spec_hash_key UNIQUE (dag_id, spec_hash);

ALTER TABLE ONLY public.dag_version
    ADD CONSTRAINT dag_version_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.data_file
    ADD CONSTRAINT data_file_pkey PRIMARY KEY (dataset_version_id, path);

ALTER TABLE ONLY public.data_version
    ADD CONSTRAINT data_version_dataset_version_id_delta_version_key UNIQUE (dataset_version_id, delta_version);

ALTER TABLE ONLY public.data_version_member
    ADD CONSTRAINT data_version_member_pkey PRIMARY KEY (dataset_id, version, place);

ALTER TABLE ONLY public.data_version
    ADD CONSTRAINT data_version_pkey PRIMARY KEY (dataset_id, version);

ALTER TABLE ONLY public.dataset_event
    ADD CONSTRAINT dataset_event_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_job_key_id_output_index_key UNIQUE (job_key_id, output_index);

ALTER TABLE ONLY public.dataset_name
    ADD CONSTRAINT dataset_name_dataset_id_key UNIQUE (dataset_id);

ALTER TABLE ONLY public.dataset_name
    ADD CONSTRAINT dataset_name_pkey PRIMARY KEY (org_id, name);

ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dataset_read_role
    ADD CONSTRAINT dataset_read_role_pkey PRIMARY KEY (dataset_id, role_id);

ALTER TABLE ONLY public.dataset_revision
    ADD CONSTRAINT dataset_revision_pkey PRIMARY KEY (dataset_id, revision);

ALTER TABLE ONLY public.dataset_snapshot
    ADD CONSTRAINT dataset_snapshot_pkey PRIMARY KEY (org_id, name);

ALTER TABLE ONLY public.dataset_version
    ADD CONSTRAINT dataset_version_dataset_id_generation_id_key UNIQUE (dataset_id, generation_id);

ALTER TABLE ONLY public.dataset_version
    ADD CONSTRAINT dataset_version_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.delta_commit
    ADD CONSTRAINT delta_commit_pkey PRIMARY KEY (dataset_version_id, delta_version);

ALTER TABLE ONLY public.dropped_span
    ADD CONSTRAINT dropped_span_pkey PRIMARY KEY (org_id, kind);

ALTER TABLE ONLY public.emission
    ADD CONSTRAINT emission_pkey PRIMARY KEY (stream);

ALTER TABLE ONLY public.emission_refusal
    ADD CONSTRAINT emission_refusal_pkey PRIMARY KEY (kind, fact);

ALTER TABLE ONLY public.event_accounting
    ADD CONSTRAINT event_accounting_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.event_ledger
    ADD CONSTRAINT event_ledger_pkey PRIMARY KEY (event_id, generation_id);

ALTER TABLE ONLY public.failing_loop
    ADD CONSTRAINT failing_loop_pkey PRIMARY KEY (org_id, worker, loop);

ALTER TABLE ONLY public.generation
    ADD CONSTRAINT generation_job_key_id_lineage_hash_key UNIQUE (job_key_id, lineage_hash);

ALTER TABLE ONLY public.generation
    ADD CONSTRAINT generation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.dag_grant
    ADD CONSTRAINT granted_once UNIQUE NULLS NOT DISTINCT (dag_id, dag_right, role_id, user_id, token_id);

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (org_id, kind, key);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_dag_version_id_job_key_id_key UNIQUE (dag_version_id, job_key_id);

ALTER TABLE ONLY public.job_input
    ADD CONSTRAINT job_input_pkey PRIMARY KEY (job_id, index);

ALTER TABLE ONLY public.job_key
    ADD CONSTRAINT job_key_dag_id_name_key UNIQUE (dag_id, name);

ALTER TABLE ONLY public.job_key
    ADD CONSTRAINT job_key_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.line
    ADD CONSTRAINT line_pkey PRIMARY KEY (generation_id);

ALTER TABLE ONLY public.location
    ADD CONSTRAINT location_is_named_once UNIQUE (org_id, name);

ALTER TABLE ONLY public.location
    ADD CONSTRAINT location_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.location_revision
    ADD CONSTRAINT location_revision_pkey PRIMARY KEY (location_id, revision);

ALTER TABLE ONLY public.location_role
    ADD CONSTRAINT location_role_pkey PRIMARY KEY (location_id, role_id);

ALTER TABLE ONLY public.log_epoch
    ADD CONSTRAINT log_epoch_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.materialization_input
    ADD CONSTRAINT materialization_input_pkey PRIMARY KEY (materialization_id, index);

ALTER TABLE ONLY public.materialization
    ADD CONSTRAINT materialization_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.materialization
    ADD CONSTRAINT materialization_task_id_dataset_version_id_span_key UNIQUE (task_id, dataset_version_id, span);

ALTER TABLE ONLY public.metadata_kind
    ADD CONSTRAINT metadata_kind_pkey PRIMARY KEY (org_id, name, version);

ALTER TABLE ONLY public.metadata_latest
    ADD CONSTRAINT metadata_latest_pkey PRIMARY KEY (org_id, kind, target_key);

ALTER TABLE ONLY public.metadata_record
    ADD CONSTRAINT metadata_record_pkey PRIMARY KEY (retention_class, id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT one_task_per_trigger UNIQUE (generation_id, trigger_id);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT one_user_of_an_identity UNIQUE (org_id, issuer, subject);

ALTER TABLE ONLY public.operator_state
    ADD CONSTRAINT operator_state_pkey PRIMARY KEY (generation_id);

ALTER TABLE ONLY public.org
    ADD CONSTRAINT org_name_key UNIQUE (name);

ALTER TABLE ONLY public.org
    ADD CONSTRAINT org_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pin_dataset
    ADD CONSTRAINT pin_dataset_pkey PRIMARY KEY (pin_id, name);

ALTER TABLE ONLY public.pin
    ADD CONSTRAINT pin_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pointer
    ADD CONSTRAINT pointer_pkey PRIMARY KEY (dag_version_id, dataset_id);

ALTER TABLE ONLY public.policy_result
    ADD CONSTRAINT policy_result_pkey PRIMARY KEY (promotion_id, number);

ALTER TABLE ONLY public.policy_rule
    ADD CONSTRAINT policy_rule_pkey PRIMARY KEY (id, revision);

ALTER TABLE ONLY public.promotion_status
    ADD CONSTRAINT promotion_status_id_allowed_key UNIQUE (id, allowed);

ALTER TABLE ONLY public.promotion_status
    ADD CONSTRAINT promotion_status_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.promotion_status
    ADD CONSTRAINT promotion_status_run_id_key UNIQUE (run_id);

ALTER TABLE ONLY public.quality_result
    ADD CONSTRAINT quality_result_pkey PRIMARY KEY (promotion_id, number);

ALTER TABLE ONLY public.quality_rule
    ADD CONSTRAINT quality_rule_pkey PRIMARY KEY (id, revision);

ALTER TABLE ONLY public.query_run
    ADD CONSTRAINT query_run_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.record_identity
    ADD CONSTRAINT record_identity_pkey PRIMARY KEY (identity);

ALTER TABLE ONLY public.relay_offset
    ADD CONSTRAINT relay_offset_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.role_member
    ADD CONSTRAINT role_member_pkey PRIMARY KEY (role_id, user_id);

ALTER TABLE ONLY public.role
    ADD CONSTRAINT role_org_id_name_key UNIQUE (org_id, name);

ALTER TABLE ONLY public.role
    ADD CONSTRAINT role_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.run_history
    ADD CONSTRAINT run_history_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY public.saved_query
    ADD CONSTRAINT saved_once UNIQUE NULLS NOT DISTINCT (org_id, user_id, token_id, name);

ALTER TABLE ONLY public.saved_query
    ADD CONSTRAINT saved_query_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.schema_migration
    ADD CONSTRAINT schema_migration_pkey PRIMARY KEY (set, name);

ALTER TABLE ONLY public.scope_state
    ADD CONSTRAINT scopes_never_overlap EXCLUDE USING gist (dataset_version_id WITH =, span WITH &&);

ALTER TABLE ONLY public.table_rule_state
    ADD CONSTRAINT table_rule_state_pkey PRIMARY KEY (dataset_version_id, rule_id);

ALTER TABLE ONLY public.task_attempt
    ADD CONSTRAINT task_attempt_pkey PRIMARY KEY (task_id, attempt);

ALTER TABLE ONLY public.task_input
    ADD CONSTRAINT task_input_pkey PRIMARY KEY (task_id, attempt, index);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.token_role
    ADD CONSTRAINT token_role_pkey PRIMARY KEY (token_id, role_id);

ALTER TABLE ONLY public.unaccounted_event
    ADD CONSTRAINT unaccounted_event_pkey PRIMARY KEY (event_id, generation_id);

ALTER TABLE ONLY public.version_counter
    ADD CONSTRAINT version_counter_pkey PRIMARY KEY (dataset_id);

ALTER TABLE ONLY public.worker_pool
    ADD CONSTRAINT worker_pool_org_id_runtime_name_key UNIQUE (org_id, runtime, name);

ALTER TABLE ONLY public.worker_pool
    ADD CONSTRAINT worker_pool_pkey PRIMARY KEY (id);

CREATE INDEX audit_of_org ON public.audit USING btree (org_id, id);

CREATE INDEX bus_message_by_age ON public.bus_message USING brin (at);

CREATE INDEX change_output_of_version ON public.change_output USING btree (dataset_version_id, place DESC);

CREATE INDEX cold_file_in_log ON public.cold_file USING btree (org_id, last_xid, last_seq);

CREATE INDEX cold_file_of_org ON public.cold_file USING btree (org_id, produced_to);

CREATE INDEX dag_activation_of_version ON public.dag_activation USING btree (dag_version_id);

CREATE INDEX data_file_added ON public.data_file USING btree (dataset_version_id, added_place);

CREATE INDEX data_file_current ON public.data_file USING btree (dataset_version_id, added_place) WHERE (removed_place IS NULL);

CREATE INDEX data_file_removed ON public.data_file USING btree (dataset_version_id, removed_place) WHERE (removed_place IS NOT NULL);

CREATE INDEX data_file_span ON public.data_file USING gist (dataset_version_id, span) WHERE (removed_place IS NULL);

CREATE INDEX data_version_member_of_place ON public.data_version_member USING btree (generation_id, place);

CREATE INDEX data_version_of_table ON public.data_version USING btree (dataset_version_id, version DESC);

CREATE INDEX dataset_event_of_dataset ON public.dataset_event USING btree (dataset_id, id);

CREATE INDEX dataset_event_of_producer ON public.dataset_event USING btree (producer_task_id);

CREATE INDEX dataset_snapshot_of_dataset ON public.dataset_snapshot USING btree (dataset_id);

CREATE INDEX delta_commit_to_put ON public.delta_commit USING btree (generation_id, first_place) WHERE (recorded_at IS NULL);

CREATE INDEX job_input_of_dataset ON public.job_input USING btree (dataset_id) WHERE trigger;

CREATE INDEX job_of_generation ON public.job USING btree (generation_id);

CREATE INDEX line_reserved ON public.line USING btree (reserved_task_id) WHERE (reserved_task_id IS NOT NULL);

CREATE INDEX line_to_move ON public.line USING btree (generation_id) WHERE ((decided > recorded) AND (stopped_at IS NULL));

CREATE INDEX materialization_of_version ON public.materialization USING btree (dataset_id, version);

CREATE INDEX metadata_record_of_kind ON ONLY public.metadata_record USING btree (org_id, kind, produced_at, id);

CREATE INDEX metadata_record_of_run ON ONLY public.metadata_record USING btree (org_id, run_id) WHERE (run_id IS NOT NULL);

CREATE INDEX metadata_record_of_target ON ONLY public.metadata_record USING btree (org_id, target_key, kind, produced_at, id);

CREATE INDEX metadata_record_tail ON ONLY public.metadata_record USING btree (org_id, xid, seq);

CREATE UNIQUE INDEX one_change_per_task ON public.change USING btree (task_id);

CREATE UNIQUE INDEX one_org_operates ON public.org USING btree (operates) WHERE operates;

CREATE INDEX outbox_due ON public.outbox USING btree (due_at) WHERE ((sent_at IS NULL) AND (given_up_at IS NULL));

CREATE INDEX pin_dataset_of_version ON public.pin_dataset USING btree (dataset_version_id, version);

CREATE INDEX pin_to_drop ON public.pin USING btree (lease_expires_at);

CREATE INDEX policy_rule_of_layer ON public.policy_rule USING btree (org_id, applies_to_layer, id, revision DESC);

CREATE INDEX promotion_status_in_order ON public.promotion_status USING btree (xid, seq);

CREATE INDEX promotion_status_of_dataset ON public.promotion_status USING btree (dataset_id, seq DESC);

CREATE INDEX quality_rule_of_dataset ON public.quality_rule USING btree (dataset_id, id, revision DESC);

CREATE INDEX query_run_of_org ON public.query_run USING btree (org_id, id DESC);

CREATE INDEX record_identity_of_dropped ON public.record_identity USING btree (retention_class, record_id) WHERE (retention_class ~~ 'drop\_%'::text);

CREATE INDEX role_member_of_user ON public.role_member USING btree (user_id);

CREATE INDEX run_history_in_order ON public.run_history USING btree (xid, seq);

CREATE INDEX run_history_of_generation ON public.run_history USING btree (generation_id, seq);

CREATE INDEX scope_state_by_place ON public.scope_state USING btree (dataset_version_id, place);

CREATE INDEX task_attempt_of_claim ON public.task_attempt USING btree (claim_sha256);

CREATE INDEX task_attempt_to_sweep ON public.task_attempt USING btree (ended_at) WHERE ((swept_at IS NULL) AND (base IS NOT NULL));

CREATE INDEX task_due ON public.task USING btree (due_at) WHERE (waits = 'retry'::public.waits);

CREATE INDEX task_has_turn ON public.task USING btree (generation_id) WHERE ((ordinal IS NOT NULL) AND (state = ANY (ARRAY['queued'::public.task_state, 'running'::public.task_state])) AND (waits IS NULL));

CREATE INDEX task_leased ON public.task USING btree (lease_expires_at) WHERE (state = 'running'::public.task_state);

CREATE INDEX task_paused ON public.task USING btree (generation_id) WHERE (waits = 'paused'::public.waits);

CREATE INDEX task_queue ON public.task USING btree (pool_id, seq) WHERE ((state = 'queued'::public.task_state) AND (seq IS NOT NULL));

CREATE INDEX task_running ON public.task USING btree (generation_id) WHERE (state = 'running'::public.task_state);

CREATE INDEX task_scope ON public.task USING btree (generation_id, md5((scope)::text)) WHERE ((ordinal IS NOT NULL) AND (state = 'completed'::public.task_state));

CREATE UNIQUE INDEX task_turn ON public.task USING btree (generation_id, ordinal) WHERE ((ordinal IS NOT NULL) AND (state = ANY (ARRAY['queued'::public.task_state, 'running'::public.task_state])));

CREATE INDEX task_waits_input ON public.task USING btree (generation_id) WHERE (waits = 'input'::public.waits);

CREATE INDEX task_waits_line ON public.task USING btree (generation_id) WHERE (waits = 'line'::public.waits);

CREATE INDEX task_waits_right ON public.task USING btree (generation_id) WHERE (waits = 'right'::public.waits);

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.audit FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.audit ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.batch FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.batch ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.change FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.change ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.change_output FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.change_output ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.change_scope FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.change_scope ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.cold_file FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.cold_file ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.cold_partition FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.cold_partition ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.cold_verification FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.cold_verification ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.dag_activation FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dag_activation ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.dag_version FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dag_version ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.data_version FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.data_version ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.data_version_member FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.data_version_member ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.dataset FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.dataset_event FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset_event ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.dataset_revision FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset_revision ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.dataset_version FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset_version ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.event_ledger FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.event_ledger ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.generation FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.generation ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.job FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.job ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.job_input FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.job_input ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.location FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.location ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.location_revision FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.location_revision ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.log_epoch FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.log_epoch ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.materialization FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.materialization ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.materialization_input FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.materialization_input ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.metadata_kind FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.metadata_kind ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.metadata_record FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.metadata_record ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.pointer FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.pointer ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.policy_result FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.policy_result ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.policy_rule FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.policy_rule ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.promotion_status FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.promotion_status ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.quality_result FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.quality_result ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.quality_rule FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.quality_rule ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.query_run FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.query_run ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.record_identity FOR EACH ROW WHEN (((old.retention_class !~~ 'drop\_%'::text) OR (current_setting('tracelake.drops'::text, true) IS DISTINCT FROM old.retention_class))) EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.record_identity ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.run_history FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.run_history ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.task_input FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.task_input ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON public.unaccounted_event FOR EACH ROW EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.unaccounted_event ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.audit FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.audit ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.batch FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.batch ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.change FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.change ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.change_output FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.change_output ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.change_scope FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.change_scope ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.cold_file FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.cold_file ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.cold_partition FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.cold_partition ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.cold_verification FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.cold_verification ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.dag_activation FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dag_activation ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.dag_version FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dag_version ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.data_version FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.data_version ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.data_version_member FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.data_version_member ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.dataset FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.dataset_event FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset_event ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.dataset_revision FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset_revision ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.dataset_version FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.dataset_version ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.event_ledger FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.event_ledger ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.generation FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.generation ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.job FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.job ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.job_input FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.job_input ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.location FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.location ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.location_revision FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.location_revision ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.log_epoch FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.log_epoch ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.materialization FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.materialization ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.materialization_input FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.materialization_input ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.metadata_kind FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.metadata_kind ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.metadata_record FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.metadata_record ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.pointer FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.pointer ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.policy_result FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.policy_result ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.policy_rule FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.policy_rule ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.promotion_status FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.promotion_status ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.quality_result FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.quality_result ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.quality_rule FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.quality_rule ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.query_run FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.query_run ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.record_identity FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.record_identity ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.run_history FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.run_history ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.task_input FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.task_input ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON public.unaccounted_event FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.unaccounted_event ENABLE ALWAYS TRIGGER append_only_whole;

CREATE TRIGGER follows_facts BEFORE UPDATE ON public.emission FOR EACH ROW WHEN ((ROW(new.xid, new.seq) > ROW(old.xid, old.seq))) EXECUTE FUNCTION public.check_emission_offset();

ALTER TABLE public.emission ENABLE ALWAYS TRIGGER follows_facts;

CREATE TRIGGER follows_messages BEFORE UPDATE ON public.bus_offset FOR EACH ROW WHEN (((old.xid IS DISTINCT FROM new.xid) OR (old.seq IS DISTINCT FROM new.seq))) EXECUTE FUNCTION public.check_bus_offset();

ALTER TABLE public.bus_offset ENABLE ALWAYS TRIGGER follows_messages;

CREATE TRIGGER moving_on_verifies BEFORE UPDATE ON public.event_accounting FOR EACH ROW WHEN ((old.verified_up_to <> new.verified_up_to)) EXECUTE FUNCTION public.verify_events();

ALTER TABLE public.event_accounting ENABLE ALWAYS TRIGGER moving_on_verifies;

CREATE TRIGGER stay_until_read AFTER DELETE ON public.bus_message REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.check_messages_are_read();

ALTER TABLE public.bus_message ENABLE ALWAYS TRIGGER stay_until_read;

ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_producer_task_id_fkey FOREIGN KEY (producer_task_id) REFERENCES public.task(id);

ALTER TABLE ONLY public.change
    ADD CONSTRAINT change_generation_id_fkey FOREIGN KEY (generation_id) REFERENCES public.generation(id);

ALTER TABLE ONLY public.change_output
    ADD CONSTRAINT change_output_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.change_output
    ADD CONSTRAINT change_output_generation_id_place_fkey FOREIGN KEY (generation_id, place) REFERENCES public.change(generation_id, place);

ALTER TABLE ONLY public.change_output
    ADD CONSTRAINT change_output_promotion_id_allowed_fkey FOREIGN KEY (promotion_id, allowed) REFERENCES public.promotion_status(id, allowed);

ALTER TABLE ONLY public.change_scope
    ADD CONSTRAINT change_scope_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.change
    ADD CONSTRAINT change_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.task(id);

ALTER TABLE ONLY public.cold_file
    ADD CONSTRAINT cold_file_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.cold_file
    ADD CONSTRAINT cold_file_partition_name_fkey FOREIGN KEY (partition_name) REFERENCES public.cold_partition(name);

ALTER TABLE ONLY public.cold_verification
    ADD CONSTRAINT cold_verification_partition_name_fkey FOREIGN KEY (partition_name) REFERENCES public.cold_partition(name);

ALTER TABLE ONLY public.dag_activation
    ADD CONSTRAINT dag_activation_dag_id_fkey FOREIGN KEY (dag_id) REFERENCES public.dag(id);

ALTER TABLE ONLY public.dag_activation
    ADD CONSTRAINT dag_activation_dag_version_id_fkey FOREIGN KEY (dag_version_id) REFERENCES public.dag_version(id);

ALTER TABLE ONLY public.dag_activation
    ADD CONSTRAINT dag_activation_previous_id_fkey FOREIGN KEY (previous_id) REFERENCES public.dag_activation(id);

ALTER TABLE ONLY public.dag_activation
    ADD CONSTRAINT dag_activation_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.api_token(id);

ALTER TABLE ONLY public.dag_activation
    ADD CONSTRAINT dag_activation_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.dag
    ADD CONSTRAINT dag_active_version_id_fkey FOREIGN KEY (active_version_id) REFERENCES public.dag_version(id);

ALTER TABLE ONLY public.dag_grant
    ADD CONSTRAINT dag_grant_dag_id_fkey FOREIGN KEY (dag_id) REFERENCES public.dag(id);

ALTER TABLE ONLY public.dag_grant
    ADD CONSTRAINT dag_grant_role_id_fkey FOREIGN KEY (role_id) REFERENCES public.role(id);

ALTER TABLE ONLY public.dag_grant
    ADD CONSTRAINT dag_grant_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.api_token(id);

ALTER TABLE ONLY public.dag_grant
    ADD CONSTRAINT dag_grant_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.dag
    ADD CONSTRAINT dag_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.dag_version
    ADD CONSTRAINT dag_version_dag_id_fkey FOREIGN KEY (dag_id) REFERENCES public.dag(id);

ALTER TABLE ONLY public.data_file
    ADD CONSTRAINT data_file_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.data_version
    ADD CONSTRAINT data_version_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.data_version
    ADD CONSTRAINT data_version_dataset_version_id_delta_version_fkey FOREIGN KEY (dataset_version_id, delta_version) REFERENCES public.delta_commit(dataset_version_id, delta_version);

ALTER TABLE ONLY public.data_version
    ADD CONSTRAINT data_version_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.data_version_member
    ADD CONSTRAINT data_version_member_dataset_id_version_fkey FOREIGN KEY (dataset_id, version) REFERENCES public.data_version(dataset_id, version);

ALTER TABLE ONLY public.data_version_member
    ADD CONSTRAINT data_version_member_generation_id_place_dataset_version_id_fkey FOREIGN KEY (generation_id, place, dataset_version_id) REFERENCES public.change_output(generation_id, place, dataset_version_id);

ALTER TABLE ONLY public.dataset_event
    ADD CONSTRAINT dataset_event_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_job_key_id_fkey FOREIGN KEY (job_key_id) REFERENCES public.job_key(id);

ALTER TABLE ONLY public.dataset_name
    ADD CONSTRAINT dataset_name_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.dataset_name
    ADD CONSTRAINT dataset_name_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.dataset_read_role
    ADD CONSTRAINT dataset_read_role_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.dataset_read_role
    ADD CONSTRAINT dataset_read_role_role_id_fkey FOREIGN KEY (role_id) REFERENCES public.role(id);

ALTER TABLE ONLY public.dataset_revision
    ADD CONSTRAINT dataset_revision_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.dataset_snapshot
    ADD CONSTRAINT dataset_snapshot_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.dataset_snapshot
    ADD CONSTRAINT dataset_snapshot_dataset_id_version_fkey FOREIGN KEY (dataset_id, version) REFERENCES public.data_version(dataset_id, version);

ALTER TABLE ONLY public.dataset_snapshot
    ADD CONSTRAINT dataset_snapshot_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.dataset_snapshot
    ADD CONSTRAINT dataset_snapshot_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.api_token(id);

ALTER TABLE ONLY public.dataset_snapshot
    ADD CONSTRAINT dataset_snapshot_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.dataset_version
    ADD CONSTRAINT dataset_version_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.dataset_version
    ADD CONSTRAINT dataset_version_generation_id_fkey FOREIGN KEY (generation_id) REFERENCES public.generation(id);

ALTER TABLE ONLY public.delta_commit
    ADD CONSTRAINT delta_commit_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.dropped_span
    ADD CONSTRAINT dropped_span_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.failing_loop
    ADD CONSTRAINT failing_loop_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.generation
    ADD CONSTRAINT generation_job_key_id_fkey FOREIGN KEY (job_key_id) REFERENCES public.job_key(id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_dag_version_id_fkey FOREIGN KEY (dag_version_id) REFERENCES public.dag_version(id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_generation_id_fkey FOREIGN KEY (generation_id) REFERENCES public.generation(id);

ALTER TABLE ONLY public.job_input
    ADD CONSTRAINT job_input_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.job_input
    ADD CONSTRAINT job_input_job_id_fkey FOREIGN KEY (job_id) REFERENCES public.job(id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_job_key_id_fkey FOREIGN KEY (job_key_id) REFERENCES public.job_key(id);

ALTER TABLE ONLY public.job_key
    ADD CONSTRAINT job_key_dag_id_fkey FOREIGN KEY (dag_id) REFERENCES public.dag(id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_pool_id_fkey FOREIGN KEY (pool_id) REFERENCES public.worker_pool(id);

ALTER TABLE ONLY public.line
    ADD CONSTRAINT line_generation_id_fkey FOREIGN KEY (generation_id) REFERENCES public.generation(id);

ALTER TABLE ONLY public.location
    ADD CONSTRAINT location_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.location_revision
    ADD CONSTRAINT location_revision_location_id_fkey FOREIGN KEY (location_id) REFERENCES public.location(id);

ALTER TABLE ONLY public.location_role
    ADD CONSTRAINT location_role_location_id_fkey FOREIGN KEY (location_id) REFERENCES public.location(id);

ALTER TABLE ONLY public.location_role
    ADD CONSTRAINT location_role_role_id_fkey FOREIGN KEY (role_id) REFERENCES public.role(id);

ALTER TABLE ONLY public.materialization
    ADD CONSTRAINT materialization_dataset_id_version_fkey FOREIGN KEY (dataset_id, version) REFERENCES public.data_version(dataset_id, version);

ALTER TABLE ONLY public.materialization_input
    ADD CONSTRAINT materialization_input_materialization_id_fkey FOREIGN KEY (materialization_id) REFERENCES public.materialization(id);

ALTER TABLE ONLY public.metadata_kind
    ADD CONSTRAINT metadata_kind_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.metadata_latest
    ADD CONSTRAINT metadata_latest_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.operator_state
    ADD CONSTRAINT operator_state_generation_id_fkey FOREIGN KEY (generation_id) REFERENCES public.generation(id);

ALTER TABLE ONLY public.pin_dataset
    ADD CONSTRAINT pin_dataset_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.pin_dataset
    ADD CONSTRAINT pin_dataset_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.pin_dataset
    ADD CONSTRAINT pin_dataset_pin_id_fkey FOREIGN KEY (pin_id) REFERENCES public.pin(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.pin
    ADD CONSTRAINT pin_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.pin
    ADD CONSTRAINT pin_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.api_token(id);

ALTER TABLE ONLY public.pin
    ADD CONSTRAINT pin_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.pointer
    ADD CONSTRAINT pointer_dag_version_id_fkey FOREIGN KEY (dag_version_id) REFERENCES public.dag_version(id);

ALTER TABLE ONLY public.pointer
    ADD CONSTRAINT pointer_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.pointer
    ADD CONSTRAINT pointer_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.policy_result
    ADD CONSTRAINT policy_result_policy_id_revision_fkey FOREIGN KEY (policy_id, revision) REFERENCES public.policy_rule(id, revision);

ALTER TABLE ONLY public.policy_result
    ADD CONSTRAINT policy_result_promotion_id_fkey FOREIGN KEY (promotion_id) REFERENCES public.promotion_status(id);

ALTER TABLE ONLY public.policy_rule
    ADD CONSTRAINT policy_rule_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.promotion_status
    ADD CONSTRAINT promotion_status_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.promotion_status
    ADD CONSTRAINT promotion_status_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.quality_result
    ADD CONSTRAINT quality_result_promotion_id_fkey FOREIGN KEY (promotion_id) REFERENCES public.promotion_status(id);

ALTER TABLE ONLY public.quality_result
    ADD CONSTRAINT quality_result_rule_id_revision_fkey FOREIGN KEY (rule_id, revision) REFERENCES public.quality_rule(id, revision);

ALTER TABLE ONLY public.quality_rule
    ADD CONSTRAINT quality_rule_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.quality_rule
    ADD CONSTRAINT quality_rule_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.query_run
    ADD CONSTRAINT query_run_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.query_run
    ADD CONSTRAINT query_run_replay_of_fkey FOREIGN KEY (replay_of) REFERENCES public.query_run(id);

ALTER TABLE ONLY public.query_run
    ADD CONSTRAINT query_run_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.api_token(id);

ALTER TABLE ONLY public.query_run
    ADD CONSTRAINT query_run_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.role_member
    ADD CONSTRAINT role_member_role_id_fkey FOREIGN KEY (role_id) REFERENCES public.role(id);

ALTER TABLE ONLY public.role_member
    ADD CONSTRAINT role_member_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.role
    ADD CONSTRAINT role_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.saved_query
    ADD CONSTRAINT saved_query_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

ALTER TABLE ONLY public.saved_query
    ADD CONSTRAINT saved_query_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.api_token(id);

ALTER TABLE ONLY public.saved_query
    ADD CONSTRAINT saved_query_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);

ALTER TABLE ONLY public.scope_state
    ADD CONSTRAINT scope_state_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.table_rule_state
    ADD CONSTRAINT table_rule_state_dataset_version_id_fkey FOREIGN KEY (dataset_version_id) REFERENCES public.dataset_version(id);

ALTER TABLE ONLY public.table_rule_state
    ADD CONSTRAINT table_rule_state_rule_id_revision_fkey FOREIGN KEY (rule_id, revision) REFERENCES public.quality_rule(id, revision);

ALTER TABLE ONLY public.task_attempt
    ADD CONSTRAINT task_attempt_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.task(id);

ALTER TABLE ONLY public.token_role
    ADD CONSTRAINT token_role_role_id_fkey FOREIGN KEY (role_id) REFERENCES public.role(id);

ALTER TABLE ONLY public.token_role
    ADD CONSTRAINT token_role_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.api_token(id);

ALTER TABLE ONLY public.version_counter
    ADD CONSTRAINT version_counter_dataset_id_fkey FOREIGN KEY (dataset_id) REFERENCES public.dataset(id);

ALTER TABLE ONLY public.worker_pool
    ADD CONSTRAINT worker_pool_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.org(id);

REVOKE USAGE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO tracelake_execute;
GRANT USAGE ON SCHEMA public TO tracelake_decide;
GRANT USAGE ON SCHEMA public TO tracelake_define;

REVOKE ALL ON PROCEDURE public.attach_record_partition(IN parent text, IN part text, IN bounds text) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.begin_epoch() FROM PUBLIC;

REVOKE ALL ON PROCEDURE public.check_record_partition_leaves(IN part text) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.drop_record_partition(part text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.drop_record_partition(part text) TO tracelake_decide;

REVOKE ALL ON FUNCTION public.ensure_record_partition(class text, moment timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION public.ensure_record_partition(class text, moment timestamp with time zone) TO tracelake_execute;

REVOKE ALL ON FUNCTION public.enter_epoch() FROM PUBLIC;
GRANT ALL ON FUNCTION public.enter_epoch() TO tracelake_execute;

REVOKE ALL ON FUNCTION public.first_record_id(day integer) FROM PUBLIC;

REVOKE ALL ON PROCEDURE public.forget_newest(IN part text, IN class text) FROM PUBLIC;

REVOKE ALL ON PROCEDURE public.keep_places(IN log regclass) FROM PUBLIC;

REVOKE ALL ON PROCEDURE public.know_newest_epoch() FROM PUBLIC;

REVOKE ALL ON PROCEDURE public.make_append_only(IN appended regclass) FROM PUBLIC;

REVOKE ALL ON PROCEDURE public.make_decision(IN decided regclass) FROM PUBLIC;

REVOKE ALL ON PROCEDURE public.make_definition(IN defined regclass) FROM PUBLIC;

REVOKE ALL ON FUNCTION public.record_partition_leaves_at(part text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.record_partition_leaves_at(part text) TO tracelake_execute;

REVOKE ALL ON FUNCTION public.refuse_change() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.refuse_record() FROM PUBLIC;

REVOKE ALL ON FUNCTION public.seal_record_partition(part text) FROM PUBLIC;
GRANT ALL ON FUNCTION public.seal_record_partition(part text) TO tracelake_decide;

GRANT SELECT ON TABLE public.api_token TO tracelake_execute;
GRANT INSERT ON TABLE public.api_token TO tracelake_define;

GRANT UPDATE(revoked_at) ON TABLE public.api_token TO tracelake_define;

GRANT SELECT ON TABLE public.app_user TO tracelake_execute;
GRANT INSERT ON TABLE public.app_user TO tracelake_define;

GRANT UPDATE(disabled_at) ON TABLE public.app_user TO tracelake_define;

GRANT SELECT ON TABLE public.audit TO tracelake_execute;

GRANT INSERT(id) ON TABLE public.audit TO tracelake_execute;

GRANT INSERT(org_id) ON TABLE public.audit TO tracelake_execute;

GRANT INSERT(actor) ON TABLE public.audit TO tracelake_execute;

GRANT INSERT(action) ON TABLE public.audit TO tracelake_execute;

GRANT INSERT(object) ON TABLE public.audit TO tracelake_execute;

GRANT INSERT(detail) ON TABLE public.audit TO tracelake_execute;

GRANT INSERT(at) ON TABLE public.audit TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.batch TO tracelake_execute;

GRANT SELECT,DELETE ON TABLE public.bus_message TO tracelake_execute;

GRANT INSERT(topic) ON TABLE public.bus_message TO tracelake_execute;

GRANT INSERT(key) ON TABLE public.bus_message TO tracelake_execute;

GRANT INSERT(body) ON TABLE public.bus_message TO tracelake_execute;

GRANT INSERT(at) ON TABLE public.bus_message TO tracelake_execute;

GRANT SELECT ON TABLE public.bus_name TO tracelake_execute;

GRANT SELECT ON TABLE public.bus_offset TO tracelake_execute;
GRANT DELETE ON TABLE public.bus_offset TO tracelake_define;

GRANT INSERT(topic) ON TABLE public.bus_offset TO tracelake_execute;

GRANT INSERT(subscriber) ON TABLE public.bus_offset TO tracelake_execute;

GRANT UPDATE(xid) ON TABLE public.bus_offset TO tracelake_execute;

GRANT UPDATE(seq) ON TABLE public.bus_offset TO tracelake_execute;

GRANT INSERT(holder),UPDATE(holder) ON TABLE public.bus_offset TO tracelake_execute;

GRANT INSERT(held_until),UPDATE(held_until) ON TABLE public.bus_offset TO tracelake_execute;

GRANT SELECT ON TABLE public.change TO tracelake_execute;
GRANT INSERT ON TABLE public.change TO tracelake_decide;

GRANT SELECT ON TABLE public.change_output TO tracelake_execute;
GRANT INSERT ON TABLE public.change_output TO tracelake_decide;

GRANT SELECT ON TABLE public.change_scope TO tracelake_execute;
GRANT INSERT ON TABLE public.change_scope TO tracelake_decide;

GRANT SELECT ON TABLE public.cold_file TO tracelake_execute;

GRANT SELECT ON TABLE public.cold_partition TO tracelake_execute;
GRANT INSERT ON TABLE public.cold_partition TO tracelake_decide;

GRANT SELECT ON TABLE public.cold_verification TO tracelake_execute;
GRANT INSERT ON TABLE public.cold_verification TO tracelake_decide;

GRANT SELECT ON TABLE public.compaction TO tracelake_execute;

GRANT UPDATE(ended_at) ON TABLE public.compaction TO tracelake_execute;

GRANT UPDATE(held_until) ON TABLE public.compaction TO tracelake_execute;

GRANT SELECT ON TABLE public.dag TO tracelake_execute;
GRANT INSERT ON TABLE public.dag TO tracelake_define;

GRANT UPDATE(active_version_id) ON TABLE public.dag TO tracelake_define;

GRANT UPDATE(paused_at) ON TABLE public.dag TO tracelake_execute;

GRANT SELECT ON TABLE public.dag_version TO tracelake_execute;
GRANT INSERT ON TABLE public.dag_version TO tracelake_define;

GRANT SELECT ON TABLE public.job TO tracelake_execute;
GRANT INSERT ON TABLE public.job TO tracelake_define;

GRANT SELECT ON TABLE public.job_key TO tracelake_execute;
GRANT INSERT ON TABLE public.job_key TO tracelake_define;

GRANT UPDATE(paused_at) ON TABLE public.job_key TO tracelake_execute;

GRANT UPDATE(pause_reason) ON TABLE public.job_key TO tracelake_execute;

GRANT SELECT ON TABLE public.worker_pool TO tracelake_execute;
GRANT INSERT ON TABLE public.worker_pool TO tracelake_define;

GRANT SELECT ON TABLE public.current_job TO tracelake_execute;

GRANT SELECT ON TABLE public.dag_activation TO tracelake_execute;
GRANT INSERT ON TABLE public.dag_activation TO tracelake_define;

GRANT SELECT ON TABLE public.dag_grant TO tracelake_execute;
GRANT INSERT,DELETE ON TABLE public.dag_grant TO tracelake_define;

GRANT SELECT ON TABLE public.data_file TO tracelake_execute;
GRANT INSERT ON TABLE public.data_file TO tracelake_decide;

GRANT UPDATE(removed_place) ON TABLE public.data_file TO tracelake_decide;

GRANT UPDATE(added_version) ON TABLE public.data_file TO tracelake_decide;

GRANT UPDATE(removed_version) ON TABLE public.data_file TO tracelake_decide;

GRANT SELECT ON TABLE public.data_version TO tracelake_execute;

GRANT INSERT(dataset_id) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(version) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(org_id) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(dataset_version_id) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(delta_version) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(snapshot_ref) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(table_schema) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(schema_hash) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(row_count) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(promoted_at) ON TABLE public.data_version TO tracelake_decide;

GRANT INSERT(promoted_by) ON TABLE public.data_version TO tracelake_decide;

GRANT SELECT ON TABLE public.data_version_member TO tracelake_execute;
GRANT INSERT ON TABLE public.data_version_member TO tracelake_decide;

GRANT SELECT ON TABLE public.data_versions TO tracelake_execute;

GRANT SELECT ON TABLE public.dataset TO tracelake_execute;
GRANT INSERT ON TABLE public.dataset TO tracelake_define;

GRANT SELECT ON TABLE public.dataset_event TO tracelake_execute;

GRANT INSERT(id) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(org_id) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(dataset_id) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(dataset_version_id) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(producer_task_id) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(kind) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(scope) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(revision) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(event_time) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(payload) ON TABLE public.dataset_event TO tracelake_decide;

GRANT INSERT(told_at) ON TABLE public.dataset_event TO tracelake_decide;

GRANT SELECT ON TABLE public.dataset_name TO tracelake_execute;
GRANT INSERT,DELETE ON TABLE public.dataset_name TO tracelake_define;

GRANT UPDATE(dataset_id) ON TABLE public.dataset_name TO tracelake_define;

GRANT SELECT ON TABLE public.dataset_read_role TO tracelake_execute;
GRANT INSERT,DELETE ON TABLE public.dataset_read_role TO tracelake_define;

GRANT SELECT ON TABLE public.role TO tracelake_execute;
GRANT INSERT ON TABLE public.role TO tracelake_define;

GRANT SELECT ON TABLE public.dataset_reader TO tracelake_execute;

GRANT SELECT ON TABLE public.dataset_revision TO tracelake_execute;
GRANT INSERT ON TABLE public.dataset_revision TO tracelake_define;

GRANT SELECT ON TABLE public.dataset_registry TO tracelake_execute;

GRANT SELECT ON TABLE public.dataset_snapshot TO tracelake_execute;
GRANT INSERT,DELETE ON TABLE public.dataset_snapshot TO tracelake_define;

GRANT SELECT ON TABLE public.dataset_version TO tracelake_execute;
GRANT INSERT ON TABLE public.dataset_version TO tracelake_define;

GRANT SELECT ON TABLE public.delta_commit TO tracelake_execute;
GRANT INSERT ON TABLE public.delta_commit TO tracelake_decide;

GRANT UPDATE(body) ON TABLE public.delta_commit TO tracelake_decide;

GRANT UPDATE(recorded_at) ON TABLE public.delta_commit TO tracelake_decide;

GRANT SELECT ON TABLE public.dropped_span TO tracelake_execute;

GRANT SELECT ON TABLE public.emission TO tracelake_execute;

GRANT UPDATE(xid) ON TABLE public.emission TO tracelake_execute;

GRANT UPDATE(seq) ON TABLE public.emission TO tracelake_execute;

GRANT UPDATE(holder) ON TABLE public.emission TO tracelake_execute;

GRANT UPDATE(held_until) ON TABLE public.emission TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.emission_refusal TO tracelake_execute;

GRANT SELECT ON TABLE public.event_accounting TO tracelake_execute;

GRANT UPDATE(verified_up_to) ON TABLE public.event_accounting TO tracelake_execute;

GRANT SELECT ON TABLE public.event_ledger TO tracelake_execute;
GRANT INSERT ON TABLE public.event_ledger TO tracelake_decide;

GRANT SELECT,INSERT,DELETE ON TABLE public.failing_loop TO tracelake_execute;

GRANT UPDATE(code) ON TABLE public.failing_loop TO tracelake_execute;

GRANT UPDATE(reported_at) ON TABLE public.failing_loop TO tracelake_execute;

GRANT SELECT ON TABLE public.generation TO tracelake_execute;
GRANT INSERT ON TABLE public.generation TO tracelake_define;

GRANT SELECT,INSERT ON TABLE public.idempotency TO tracelake_execute;

GRANT SELECT ON TABLE public.job_input TO tracelake_execute;
GRANT INSERT ON TABLE public.job_input TO tracelake_define;

GRANT SELECT ON TABLE public.line TO tracelake_execute;
GRANT INSERT ON TABLE public.line TO tracelake_define;

GRANT UPDATE(next_ordinal) ON TABLE public.line TO tracelake_execute;

GRANT UPDATE(decided) ON TABLE public.line TO tracelake_decide;

GRANT UPDATE(frozen) ON TABLE public.line TO tracelake_decide;

GRANT UPDATE(recorded) ON TABLE public.line TO tracelake_decide;

GRANT UPDATE(stopped_at) ON TABLE public.line TO tracelake_execute;

GRANT UPDATE(stopped_reason) ON TABLE public.line TO tracelake_execute;

GRANT UPDATE(turn_task_id) ON TABLE public.line TO tracelake_decide;

GRANT UPDATE(turn_attempt) ON TABLE public.line TO tracelake_decide;

GRANT UPDATE(reserved_task_id) ON TABLE public.line TO tracelake_execute;

GRANT SELECT ON TABLE public.location TO tracelake_execute;
GRANT INSERT ON TABLE public.location TO tracelake_define;

GRANT SELECT ON TABLE public.location_revision TO tracelake_execute;
GRANT INSERT ON TABLE public.location_revision TO tracelake_define;

GRANT SELECT ON TABLE public.location_role TO tracelake_execute;
GRANT INSERT,DELETE ON TABLE public.location_role TO tracelake_define;

GRANT SELECT ON TABLE public.log_epoch TO tracelake_execute;

GRANT SELECT ON TABLE public.materialization TO tracelake_execute;
GRANT INSERT ON TABLE public.materialization TO tracelake_decide;

GRANT SELECT ON TABLE public.materialization_input TO tracelake_execute;
GRANT INSERT ON TABLE public.materialization_input TO tracelake_decide;

GRANT SELECT ON TABLE public.metadata_kind TO tracelake_execute;
GRANT INSERT ON TABLE public.metadata_kind TO tracelake_define;

GRANT SELECT,INSERT ON TABLE public.metadata_latest TO tracelake_execute;

GRANT UPDATE(produced_at) ON TABLE public.metadata_latest TO tracelake_execute;

GRANT UPDATE(record_id) ON TABLE public.metadata_latest TO tracelake_execute;

GRANT UPDATE(retention_class) ON TABLE public.metadata_latest TO tracelake_execute;

GRANT UPDATE(target) ON TABLE public.metadata_latest TO tracelake_execute;

GRANT UPDATE(dataset_ids) ON TABLE public.metadata_latest TO tracelake_execute;

GRANT USAGE ON SEQUENCE public.metadata_record_seq TO tracelake_execute;

GRANT SELECT ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(retention_class) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(id) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(org_id) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(kind) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(kind_version) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(target_key) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(source_id) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(schema_name) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(table_name) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(producer_id) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(produced_at) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(quality) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(job_id) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(run_id) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(namespace) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(cluster) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(workspace) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(window_start) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(window_end) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(dataset_ids) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(record) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(context) ON TABLE public.metadata_record TO tracelake_execute;

GRANT INSERT(stored_at) ON TABLE public.metadata_record TO tracelake_execute;

GRANT SELECT ON TABLE public.operator_state TO tracelake_execute;
GRANT INSERT ON TABLE public.operator_state TO tracelake_decide;

GRANT UPDATE(revision) ON TABLE public.operator_state TO tracelake_decide;

GRANT UPDATE(value) ON TABLE public.operator_state TO tracelake_decide;

GRANT SELECT ON TABLE public.org TO tracelake_execute;
GRANT INSERT ON TABLE public.org TO tracelake_define;

GRANT UPDATE(disabled_at) ON TABLE public.org TO tracelake_define;

GRANT SELECT,INSERT ON TABLE public.outbox TO tracelake_execute;

GRANT UPDATE(due_at) ON TABLE public.outbox TO tracelake_execute;

GRANT UPDATE(tries) ON TABLE public.outbox TO tracelake_execute;

GRANT UPDATE(last_error) ON TABLE public.outbox TO tracelake_execute;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO tracelake_execute;

GRANT UPDATE(given_up_at) ON TABLE public.outbox TO tracelake_execute;

GRANT SELECT,INSERT,DELETE ON TABLE public.pin TO tracelake_execute;

GRANT UPDATE(lease_expires_at) ON TABLE public.pin TO tracelake_execute;

GRANT UPDATE(released_at) ON TABLE public.pin TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.pin_dataset TO tracelake_execute;

GRANT SELECT ON TABLE public.pointer TO tracelake_execute;
GRANT INSERT ON TABLE public.pointer TO tracelake_define;

GRANT SELECT ON TABLE public.policy_result TO tracelake_execute;

GRANT INSERT(promotion_id) ON TABLE public.policy_result TO tracelake_decide;

GRANT INSERT(number) ON TABLE public.policy_result TO tracelake_decide;

GRANT INSERT(policy_id) ON TABLE public.policy_result TO tracelake_decide;

GRANT INSERT(revision) ON TABLE public.policy_result TO tracelake_decide;

GRANT INSERT(policy_type) ON TABLE public.policy_result TO tracelake_decide;

GRANT INSERT(verdict) ON TABLE public.policy_result TO tracelake_decide;

GRANT INSERT(sentence) ON TABLE public.policy_result TO tracelake_decide;

GRANT SELECT ON TABLE public.policy_rule TO tracelake_execute;

GRANT INSERT(id) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(revision) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(org_id) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(applies_to_layer) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(policy_type) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(policy_expression) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(enforcement) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(active) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(actor) ON TABLE public.policy_rule TO tracelake_define;

GRANT INSERT(at) ON TABLE public.policy_rule TO tracelake_define;

GRANT SELECT ON TABLE public.policy_rules TO tracelake_execute;

GRANT SELECT ON TABLE public.promotion_status TO tracelake_execute;

GRANT INSERT(id) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(org_id) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(dataset_id) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(dataset_version_id) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(run_id) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(task_id) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(attempt) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(from_layer) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(to_layer) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(allowed) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(stage) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(reason) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(evidence) ON TABLE public.promotion_status TO tracelake_decide;

GRANT INSERT(evaluated_at) ON TABLE public.promotion_status TO tracelake_decide;

GRANT SELECT ON TABLE public.quality_result TO tracelake_execute;

GRANT INSERT(promotion_id) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(number) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(rule_id) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(revision) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(rule_type) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(verdict) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(violations) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(examined) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(method) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(milliseconds) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(samples) ON TABLE public.quality_result TO tracelake_decide;

GRANT INSERT(sentence) ON TABLE public.quality_result TO tracelake_decide;

GRANT SELECT ON TABLE public.quality_rule TO tracelake_execute;

GRANT INSERT(id) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(revision) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(org_id) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(dataset_id) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(rule_type) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(rule_expression) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(tree) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(severity) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(scope) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(active) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(actor) ON TABLE public.quality_rule TO tracelake_define;

GRANT INSERT(at) ON TABLE public.quality_rule TO tracelake_define;

GRANT SELECT ON TABLE public.quality_rules TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.query_run TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.record_identity TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.relay_offset TO tracelake_execute;

GRANT UPDATE(behind) ON TABLE public.relay_offset TO tracelake_execute;

GRANT UPDATE(holder) ON TABLE public.relay_offset TO tracelake_execute;

GRANT UPDATE(held_until) ON TABLE public.relay_offset TO tracelake_execute;

GRANT SELECT ON TABLE public.role_member TO tracelake_execute;
GRANT INSERT,DELETE ON TABLE public.role_member TO tracelake_define;

GRANT SELECT ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(run_id) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(org_id) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(task_id) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(attempt) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(generation_id) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(dataset_id) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(layer) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(status) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(start_time) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(end_time) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(error_message) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(triggered_by) ON TABLE public.run_history TO tracelake_execute;

GRANT INSERT(dag_version) ON TABLE public.run_history TO tracelake_execute;

GRANT SELECT,INSERT,DELETE ON TABLE public.saved_query TO tracelake_execute;

GRANT UPDATE(sql) ON TABLE public.saved_query TO tracelake_execute;

GRANT UPDATE(description) ON TABLE public.saved_query TO tracelake_execute;

GRANT UPDATE(saved_at) ON TABLE public.saved_query TO tracelake_execute;

GRANT SELECT ON TABLE public.schema_migration TO tracelake_execute;
GRANT SELECT ON TABLE public.schema_migration TO tracelake_decide;

GRANT SELECT ON TABLE public.scope_state TO tracelake_execute;
GRANT INSERT,DELETE,UPDATE ON TABLE public.scope_state TO tracelake_decide;

GRANT SELECT ON TABLE public.table_rule_state TO tracelake_execute;
GRANT INSERT ON TABLE public.table_rule_state TO tracelake_decide;

GRANT UPDATE(revision) ON TABLE public.table_rule_state TO tracelake_decide;

GRANT UPDATE(place) ON TABLE public.table_rule_state TO tracelake_decide;

GRANT UPDATE(violations) ON TABLE public.table_rule_state TO tracelake_decide;

GRANT SELECT,INSERT ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(pool_id) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(state) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(waits) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(seq) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(ordinal) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(attempt) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(failures) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(due_at) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(lease_expires_at) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(cancel_asked_at) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(finished_at) ON TABLE public.task TO tracelake_execute;

GRANT UPDATE(superseded) ON TABLE public.task TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(last_heartbeat_at) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(timed_out_at) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(ended_at) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(outcome) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(error_class) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(error_message) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(body_sha256) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(result) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(base) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(scopes) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(rebases) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(swept_at) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(summary) ON TABLE public.task_attempt TO tracelake_execute;

GRANT UPDATE(sweep_not_before) ON TABLE public.task_attempt TO tracelake_execute;

GRANT SELECT,INSERT ON TABLE public.task_input TO tracelake_execute;

GRANT USAGE ON SEQUENCE public.task_seq TO tracelake_execute;

GRANT SELECT ON TABLE public.token_role TO tracelake_execute;
GRANT INSERT ON TABLE public.token_role TO tracelake_define;

GRANT SELECT,INSERT ON TABLE public.unaccounted_event TO tracelake_execute;

GRANT SELECT ON TABLE public.version_counter TO tracelake_execute;
GRANT INSERT ON TABLE public.version_counter TO tracelake_decide;

GRANT UPDATE(last) ON TABLE public.version_counter TO tracelake_decide;
