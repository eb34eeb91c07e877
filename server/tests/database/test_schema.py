"""What the schema promises: enums that match the code's, and facts that Postgres itself refuses to change."""

from enum import StrEnum

import psycopg
import pytest
from support.databases import StateDatabase

from tracelake_sdk.access import DagRight, TokenKind
from tracelake_sdk.dags import Layer
from tracelake_sdk.queries import QueryStatus
from tracelake_sdk.rules import RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, GateStage, GateVerdict
from tracelake_sdk.tasks import AttemptOutcome, TaskState, TriggerKind, Waits
from tracelake_sdk.tasks.events import EventKind, LedgerOutcome
from tracelake_sdk.tasks.runs import RunStatus

ENUMS: dict[str, type[StrEnum]] = {
    "token_kind": TokenKind,
    "dag_right": DagRight,
    "layer": Layer,
    "event_kind": EventKind,
    "told": LedgerOutcome,
    "task_state": TaskState,
    "trigger_kind": TriggerKind,
    "waits": Waits,
    "attempt_outcome": AttemptOutcome,
    "run_status": RunStatus,
    "severity": Severity,
    "rule_scope": RuleScope,
    "enforcement": Enforcement,
    "gate_stage": GateStage,
    "gate_verdict": GateVerdict,
    "query_status": QueryStatus,
}
ONLY_IN_POSTGRES = {"activation_kind"}  # one value, written by one query

APPEND_ONLY = {
    "location", "location_revision", "unaccounted_event",
    "audit", "dag_version", "generation", "job", "job_input", "dataset", "dataset_revision", "dataset_version", "pointer", "dag_activation",
    "dataset_event", "event_ledger", "run_history", "quality_rule", "policy_rule", "promotion_status", "quality_result", "policy_result", "change",
    "change_output", "change_scope", "data_version", "data_version_member", "materialization", "materialization_input", "task_input", "batch", "query_run",
    "metadata_kind", "metadata_record", "record_identity", "cold_partition", "cold_file", "cold_verification", "log_epoch",
}  # fmt: skip


def test_every_postgres_enum_equals_its_python_enum(database: StateDatabase):
    with psycopg.connect(database.owner_url) as connection:
        rows = connection.execute("SELECT t.typname, array_agg(e.enumlabel::text) FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid GROUP BY 1").fetchall()
    found = {name: set(labels) for name, labels in rows if name not in ONLY_IN_POSTGRES}
    assert found == {name: {member.value for member in enum} for name, enum in ENUMS.items()}


def test_the_append_only_tables_are_exactly_the_ones_meant(database: StateDatabase):
    with psycopg.connect(database.owner_url) as connection:
        rows = connection.execute("SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'append_only' AND tgenabled = 'A'").fetchall()
    assert {name for (name,) in rows} == APPEND_ONLY


CHANGES = [
    "UPDATE {table} SET {column} = {column}",
    "DELETE FROM {table}",
    "TRUNCATE {table} CASCADE",
    "ALTER TABLE {table} ADD COLUMN extra integer",
    "ALTER TABLE {table} DISABLE TRIGGER append_only",
    "ALTER TABLE {table} DISABLE TRIGGER ALL",
    "DROP TRIGGER append_only ON {table}",
    "DROP TABLE {table} CASCADE",
    "SET session_replication_role = replica",
]


@pytest.mark.proves("G1.3")
@pytest.mark.parametrize("role", ["tracelake_service", "tracelake_execute", "tracelake_decide", "tracelake_define"])
@pytest.mark.parametrize("table", sorted(APPEND_ONLY))
def test_the_service_cannot_change_a_fact(postgres_state: str, table: str, role: str):
    with psycopg.connect(postgres_state) as connection:
        column = connection.execute(
            "SELECT attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relname = %s AND attnum = 1", [table]
        ).fetchone()
        assert column is not None
        if role != "tracelake_service":
            connection.execute(f"SET ROLE {role}")  # pyright: ignore[reportArgumentType]
        for change in CHANGES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(change.format(table=f"public.{table}", column=column[0]))  # pyright: ignore[reportArgumentType]


@pytest.mark.proves("G1.3")
@pytest.mark.parametrize("change", ["UPDATE {table} SET {column} = {column}", "DELETE FROM {table}", "TRUNCATE {table} CASCADE"])
@pytest.mark.parametrize("as_replica", [False, True])
def test_even_the_owner_and_a_superuser_meet_the_trigger(database: StateDatabase, change: str, as_replica: bool):
    url = database.superuser_url if as_replica else database.owner_url
    with psycopg.connect(url) as connection:
        if as_replica:
            connection.execute("SET session_replication_role = replica")
        connection.execute("INSERT INTO org (id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'facts')")
        connection.execute(
            "INSERT INTO audit (id, org_id, actor, action, object) VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'a', 'b', 'c')"
        )
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            connection.execute(change.format(table="audit", column="actor"))  # pyright: ignore[reportArgumentType]


def test_the_login_role_owns_nothing(database: StateDatabase):
    with psycopg.connect(database.superuser_url) as connection:
        owned = connection.execute("SELECT relname FROM pg_class WHERE relowner = 'tracelake_service'::regrole").fetchall()
    assert owned == []


@pytest.mark.parametrize("table", ["task", "run_history", "api_token"])
def test_the_login_role_may_do_nothing_before_it_takes_a_role(postgres_state: str, table: str):
    with psycopg.connect(postgres_state) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"SELECT * FROM public.{table}")  # pyright: ignore[reportArgumentType]
