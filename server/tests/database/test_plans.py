"""Statements are planned once for a connection; those with conditions that may fall away are planned for the values they have."""

from pathlib import Path

import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase


@pytest.mark.parametrize(("query", "planned"), [
    ("SELECT id FROM task WHERE id = ANY(%(ids)s::uuid[])", 1),
    ("SELECT id FROM task WHERE id = ANY(%(ids)s::uuid[]) AND (%(state)s::task_state IS NULL OR state = %(state)s)", 0),
])
def test_a_statement_is_planned_once_unless_a_condition_may_fall_away(database: StateDatabase, tmp_path: Path, query: str, planned: int):
    with running_control(settings_for(database, tmp_path / "home"), database) as desk, desk.control.database.transaction("plans") as tx:
        for _ in range(10):
            tx.values(query, ids=[], state=None)  # pyright: ignore[reportArgumentType]
        plans = tx.tuples("SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE 'SELECT id FROM task WHERE id = ANY%%'")
        assert [custom for _, custom in plans] == [0] * planned
        assert tx.value("SHOW plan_cache_mode") == "force_generic_plan"
