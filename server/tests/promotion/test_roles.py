"""Who may write what: every statement that a role must not run is run under it, against the real schema."""

from collections.abc import Iterator

import psycopg
import pytest
from support.lakes import Lake

EXECUTE, DECIDE, DEFINE = "tracelake_execute", "tracelake_decide", "tracelake_define"

# What people define: an admin's act, or a deploy's.
DEFINITIONS = {
    "api_token", "app_user", "dag", "dag_activation", "dag_grant", "dag_version", "dataset", "dataset_name", "dataset_read_role", "dataset_revision",
    "dataset_snapshot", "dataset_version", "generation", "job", "job_input", "job_key", "line", "location", "location_revision", "location_role", "org", "pointer", "policy_rule", "quality_rule", "role",
    "role_member", "token_role", "worker_pool",
    "metadata_kind",
}  # fmt: skip
# What the gate decided, and what became of it; and that records leave.
DECISIONS = {
    "change", "change_output", "change_scope", "data_file", "data_version", "data_version_member", "dataset_event", "delta_commit", "event_ledger",
    "materialization", "materialization_input", "operator_state", "policy_result", "promotion_status", "quality_result", "scope_state", "table_rule_state",
    "version_counter", "cold_partition", "cold_verification",
}  # fmt: skip
# What happens: accepted, claimed, reported, emitted, audited. Every role does this.
EXECUTIONS = {
    "audit", "batch", "idempotency", "outbox", "run_history", "task", "task_attempt", "task_input",
    "pin", "pin_dataset", "query_run", "saved_query",
    "metadata_record", "metadata_latest", "record_identity", "bus_message", "bus_offset", "relay_offset", "emission_refusal", "unaccounted_event",
    "failing_loop",
}  # fmt: skip
# Rows that a migration or a function of the database itself makes, and nobody else.
GIVEN = {"schema_migration", "compaction", "dropped_span", "emission", "cold_file", "bus_name", "log_epoch", "event_accounting"}

# Columns that may change, and tables whose rows may go, under every role; everything else stays as it was written.
EXECUTING = {
    "bus_offset": {"xid", "seq", "holder", "held_until"}, "compaction": {"ended_at", "held_until"}, "dag": {"paused_at"},
    "emission": {"xid", "seq", "holder", "held_until"}, "event_accounting": {"verified_up_to"}, "failing_loop": {"code", "reported_at"}, "job_key": {"paused_at", "pause_reason"},
    "line": {"next_ordinal", "reserved_task_id", "stopped_at", "stopped_reason"},
    "metadata_latest": {"produced_at", "record_id", "retention_class", "target", "dataset_ids"},
    "outbox": {"due_at", "tries", "last_error", "sent_at", "given_up_at"}, "pin": {"lease_expires_at", "released_at"}, "relay_offset": {"behind", "holder", "held_until"},
    "saved_query": {"sql", "description", "saved_at"},
    "task": {"pool_id", "state", "waits", "seq", "ordinal", "attempt", "failures", "due_at", "lease_expires_at", "cancel_asked_at", "finished_at", "superseded"},
    "task_attempt": {
        "last_heartbeat_at", "timed_out_at", "ended_at", "outcome", "error_class", "error_message", "body_sha256", "result", "base", "scopes", "rebases", "swept_at",
        "summary", "sweep_not_before",
    },
}  # fmt: skip
CHANGING = {
    EXECUTE: {},
    DECIDE: {
        "scope_state": {"dataset_version_id", "scope", "span", "place"}, "data_file": {"removed_place", "added_version", "removed_version"},
        "delta_commit": {"body", "recorded_at"}, "version_counter": {"last"}, "operator_state": {"revision", "value"},
        "table_rule_state": {"revision", "place", "violations"},
        "line": {"decided", "frozen", "recorded", "turn_task_id", "turn_attempt"},
    },
    DEFINE: {
        "dag": {"active_version_id"}, "dataset_name": {"dataset_id"}, "org": {"disabled_at"}, "app_user": {"disabled_at"}, "api_token": {"revoked_at"},
    },
}  # fmt: skip
REMOVING = {
    EXECUTE: {"bus_message", "failing_loop", "pin", "saved_query"}, DECIDE: {"scope_state"},
    DEFINE: {"bus_offset", "dag_grant", "dataset_name", "dataset_read_role", "dataset_snapshot", "location_role", "role_member"},
}  # fmt: skip
INSERTING = {EXECUTE: EXECUTIONS, DECIDE: EXECUTIONS | DECISIONS, DEFINE: EXECUTIONS | DEFINITIONS}
# Functions of the database that act with its owner's rights, and who may call them.
CALLING = {
    "ensure_record_partition('full', now())": {EXECUTE, DECIDE, DEFINE},
    "enter_epoch()": {EXECUTE, DECIDE, DEFINE},
    "begin_epoch()": set(),
    "seal_record_partition('metadata_record_drop_7_20200101')": {DECIDE},
    "drop_record_partition('metadata_record_drop_7_20200101')": {DECIDE},
}


@pytest.fixture(scope="module")
def service(rights_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(rights_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def columns(service: psycopg.Connection) -> dict[str, list[str]]:
    rows = service.execute(
        "SELECT relname, array_agg(attname::text ORDER BY attnum) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped AND attidentity = ''"
        " GROUP BY relname"
    ).fetchall()
    return dict(rows)


def refused(service: psycopg.Connection, role: str, statement: str) -> bool:
    """Whether the role lacks the right; a statement that it may run is undone, or fails for another reason."""
    try:
        with service.transaction(force_rollback=True):
            service.execute(f"SET LOCAL ROLE {role}")  # pyright: ignore[reportArgumentType]
            service.execute(statement)  # pyright: ignore[reportArgumentType]
    except psycopg.errors.InsufficientPrivilege:
        return True
    except psycopg.errors.IntegrityError:
        return False  # it may, but not like this
    return False


def test_every_table_belongs_to_a_role(columns: dict[str, list[str]]):
    assert set(columns) - GIVEN == DEFINITIONS | DECISIONS | EXECUTIONS


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize("role", [EXECUTE, DECIDE, DEFINE])
def test_a_role_inserts_what_is_its_to_insert_and_nothing_else(service: psycopg.Connection, columns: dict[str, list[str]], role: str):
    may = {table for table in columns if not refused(service, role, f"INSERT INTO public.{table} DEFAULT VALUES")}
    assert may == INSERTING[role]


@pytest.mark.proves("G3.5", "G1.3")
@pytest.mark.parametrize("role", [EXECUTE, DECIDE, DEFINE])
def test_a_role_changes_what_is_its_to_change_and_nothing_else(service: psycopg.Connection, columns: dict[str, list[str]], role: str):
    removing = REMOVING[EXECUTE] | REMOVING[role]
    for table in sorted(columns):
        may = {column for column in columns[table] if not refused(service, role, f"UPDATE public.{table} SET {column} = {column}")}
        assert may == EXECUTING.get(table, set()) | CHANGING[role].get(table, set()), table
        assert refused(service, role, f"DELETE FROM public.{table}") is (table not in removing), table
        assert refused(service, role, f"TRUNCATE public.{table} CASCADE"), table


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize("role", [EXECUTE, DECIDE, DEFINE])
def test_a_role_calls_what_is_its_to_call_and_nothing_else(service: psycopg.Connection, role: str):
    assert {call: refused(service, role, f"SELECT {call}") for call in CALLING} == {call: role not in callers for call, callers in CALLING.items()}


@pytest.mark.proves("G3.5")
def test_functions_that_act_as_the_owner_look_in_fixed_places_and_are_not_everybodys(service: psycopg.Connection):
    rows = service.execute(
        "SELECT proname, proconfig, has_function_privilege('public', oid, 'EXECUTE') FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace AND prosecdef"
    ).fetchall()
    assert {name for name, _, _ in rows} >= {call.partition("(")[0] for call in CALLING}
    for name, settings, everybodys in rows:
        assert "search_path=pg_catalog, public, pg_temp" in (settings or []), name
        assert not everybodys, name


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize("role", [EXECUTE, DECIDE, DEFINE])
def test_a_role_reads_registry_rules_and_policies_and_adds_run_rows(service: psycopg.Connection, role: str):
    for table in sorted(DEFINITIONS | DECISIONS | {"run_history", "dataset_registry", "data_versions", "quality_rules", "policy_rules"}):
        assert not refused(service, role, f"SELECT * FROM public.{table}"), table
    assert not refused(service, role, "INSERT INTO public.run_history DEFAULT VALUES")


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize("role", [EXECUTE, DECIDE, DEFINE])
@pytest.mark.parametrize(
    "statement",
    [
        # Who holds no grant option is only warned, and nothing is granted.
        "GRANT INSERT ON public.promotion_status TO tracelake_execute; SET LOCAL ROLE tracelake_execute; INSERT INTO public.promotion_status DEFAULT VALUES",
        "GRANT tracelake_owner TO tracelake_service",
        "SET ROLE tracelake_owner",
        "SET SESSION AUTHORIZATION tracelake_owner",
        "ALTER TABLE public.change_output DROP CONSTRAINT only_what_is_allowed",
        "ALTER TABLE public.promotion_status DISABLE TRIGGER ALL",
        "CREATE TABLE public.another (id integer)",
        "CREATE TRIGGER allow BEFORE INSERT ON public.promotion_status EXECUTE FUNCTION refuse_change()",
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CALL make_decision('public.task')",
        "DROP VIEW public.data_versions",
    ],
)
def test_no_role_widens_its_rights(service: psycopg.Connection, role: str, statement: str):
    assert refused(service, role, statement)


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize("role", [EXECUTE, DECIDE, DEFINE])
def test_no_role_names_a_place_in_a_log(service: psycopg.Connection, role: str):
    logs = service.execute(
        "SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND attname IN ('xid', 'seq') AND relname <> 'task' AND NOT relispartition"
    ).fetchall()
    assert {("audit", "xid"), ("dataset_event", "xid"), ("metadata_record", "seq"), ("bus_message", "xid"), ("bus_offset", "xid")} <= set(logs)
    for table, column in logs:
        assert refused(service, role, f"INSERT INTO public.{table} ({column}) OVERRIDING SYSTEM VALUE VALUES ('1')"), (table, column)
    with service.transaction(force_rollback=True):
        service.execute(f"SET LOCAL ROLE {role}")  # pyright: ignore[reportArgumentType]
        before = service.execute("SELECT in_epoch('7'::xid8)::text").fetchone()
        service.execute("SET LOCAL tracelake.epoch = 9")
        assert service.execute("SELECT in_epoch('7'::xid8)::text").fetchone() == before


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM bus_message",
        "UPDATE bus_offset SET xid = '9223372036854775807'",
        "UPDATE bus_offset SET seq = seq + 1000",
        "INSERT INTO bus_offset (topic, subscriber, xid, seq) VALUES ('t', 'another', '9', 9)",
        "UPDATE emission SET xid = '9223372036854775807'",
        "UPDATE event_accounting SET verified_up_to = 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    ],
)
def test_no_offset_passes_what_exists_and_no_unread_message_is_deleted(lake: Lake, statement: str):
    lake.query("INSERT INTO bus_message (topic, body) SELECT 't', '{}' FROM generate_series(1, 3)")
    lake.query("INSERT INTO bus_offset (topic, subscriber) VALUES ('t', 'reads all'), ('t', 'reads nothing')")
    with psycopg.connect(lake.database.service_url) as connection:
        connection.execute("SET ROLE tracelake_execute")
        connection.execute("UPDATE bus_offset SET (xid, seq) = (SELECT xid, seq FROM bus_message ORDER BY xid DESC, seq DESC LIMIT 1) WHERE subscriber = 'reads all'")
        with pytest.raises((psycopg.errors.RestrictViolation, psycopg.errors.InsufficientPrivilege)):
            connection.execute(statement)  # pyright: ignore[reportArgumentType]


@pytest.mark.proves("G3.5")
def test_verifying_only_moves_forward_and_notes_what_it_passes(lake: Lake):
    lake.run()
    lake.write(lake.take_one(), [(1, "a")])
    lake.move()
    [(first,)] = lake.query("SELECT id FROM dataset_event ORDER BY id LIMIT 1")
    with psycopg.connect(lake.database.service_url) as connection:
        connection.execute("SET ROLE tracelake_execute")
        connection.execute("UPDATE event_accounting SET verified_up_to = %s", [first])
        with pytest.raises(psycopg.errors.RestrictViolation):
            connection.execute("UPDATE event_accounting SET verified_up_to = '00000000-0000-0000-0000-000000000001'")


@pytest.mark.proves("G3.5")
def test_a_change_cannot_refer_to_a_refusal(lake: Lake):
    lake.run()
    lake.write(lake.take_one(), [(1, "a")])
    lake.move()
    lake.run()
    task = lake.take_one()
    lake.report(task, lake.measured([lake.stage(task, [(2, "b")])], outside_scope=1))
    [(refusal, generation, dataset_version)] = lake.query(
        "SELECT promotion.id, generation_id, dataset_version_id FROM promotion_status AS promotion"
        " JOIN dataset_version AS version ON version.id = dataset_version_id WHERE NOT allowed"
    )
    allowance = lake.one("SELECT id FROM promotion_status WHERE allowed")

    def publish(promotion: object, *, allowed: bool = True) -> None:
        with psycopg.connect(lake.database.service_url) as connection, connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL ROLE tracelake_decide")
            connection.execute(
                "INSERT INTO change (generation_id, place, task_id, attempt, base, custom, decided_at) VALUES (%s, 9, %s, 1, 0, '{}', now())",
                [generation, task.payload.task_id],
            )
            connection.execute(
                "INSERT INTO change_output (generation_id, place, dataset_version_id, promotion_id, allowed, table_schema, schema_hash, row_count, fingerprint)"
                " VALUES (%s, 9, %s, %s, %s, '{}', '', 1, '')",
                [generation, dataset_version, promotion, allowed],
            )

    publish(allowance)  # the statement itself is good
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        publish(refusal)
    with pytest.raises(psycopg.errors.CheckViolation):
        publish(refusal, allowed=False)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        publish(task.payload.task_id)  # no decision at all


@pytest.mark.proves("G3.5")
def test_a_refusal_is_not_a_decision_of_the_last_stage_and_the_reverse(lake: Lake):
    [dataset_version] = lake.query("SELECT id FROM dataset_version")[0]
    insert = (
        "INSERT INTO promotion_status (id, org_id, dataset_id, dataset_version_id, run_id, task_id, attempt, from_layer, to_layer, allowed, stage, reason,"
        " evidence, evaluated_at) SELECT gen_random_uuid(), org_id, dataset.id, %s, 'r', gen_random_uuid(), 1, %s, %s, %s, %s, '', '{}', now() FROM dataset"
    )
    for from_layer, to_layer, allowed, stage in [
        ("source", "bronze", True, "quality"),
        ("source", "bronze", False, "decision"),
        ("source", "gold", True, "decision"),
        ("source", "silver", True, "decision"),
        ("bronze", "gold", True, "decision"),
        ("gold", "silver", True, "decision"),
    ]:
        with psycopg.connect(lake.database.service_url) as connection:
            connection.execute("SET ROLE tracelake_decide")
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(insert, [dataset_version, from_layer, to_layer, allowed, stage])
