"""Statements are planned once for a connection; those with conditions that may fall away are planned for the values they have."""

from pathlib import Path

import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase


@pytest.mark.parametrize(("query", "planned"), [
    ("SELECT id FROM task WHERE id = ANY(%(ids)s::uuid[])", 1),
    ("SELECT id FROM task WHERE id = ANY(%(ids)s::uuid[]) AND (%(state)s::task_state IS NULL OR state = %(state)s)", 0),
])
def test_a_statement_is_planned_once_unless_a_condition_is_optional(database: StateDatabase, tmp_path: Path, query: str, planned: int):
    with running_control(settings_for(database, tmp_path / "home"), database) as control_plane, control_plane.control.database.transaction("plans") as tx:
        for _ in range(10):
            tx.values(query, ids=[], state=None)  # pyright: ignore[reportArgumentType]
        plans = tx.tuples("SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE 'SELECT id FROM task WHERE id = ANY%%'")
        assert [custom for _, custom in plans] == [0] * planned
        assert tx.value("SHOW plan_cache_mode") == "force_generic_plan"


def test_a_read_opens_no_transaction_and_leaves_its_connection_unchanged(database: StateDatabase, tmp_path: Path):
    with running_control(settings_for(database, tmp_path / "home"), database) as control_plane:
        state = control_plane.control.database
        with state.looking() as look:
            assert look.value("SELECT pg_current_xact_id_if_assigned() IS NULL AND current_user = 'tracelake_execute'")
            first = look.value("SELECT pg_current_xact_id()::text")
            assert look.value("SELECT pg_current_xact_id()::text") != first
        for _ in range(5):
            with state.transaction("test") as tx:
                assert tx.value("SELECT pg_current_xact_id()::text") == tx.value("SELECT pg_current_xact_id()::text")
