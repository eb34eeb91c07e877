"""A control with a lake for each test; its loops are quiet, tests move lines themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.accounting import VERSION_QUESTIONS
from support.controls import running_control, settings_for
from support.databases import StateDatabase
from support.lakes import Lake

QUIET = {"housekeeping_seconds": 60}


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[Lake]:
    with running_control(settings_for(database, tmp_path / "home", tasks=QUIET), database) as control_plane:
        # Only the test moves lines, so that it can look in between.
        control_plane.control.movers.stop()
        tried = Lake(control_plane.control, database)
        yield tried
        account_for_versions(tried)


def account_for_versions(lake: Lake) -> None:
    """Whatever a test did: once its lines have moved, every version, file, event and decision is accounted for."""
    lake.move()
    if lake.query("SELECT 1 FROM line WHERE stopped_at IS NOT NULL"):
        return
    found = {what: rows for what, question in VERSION_QUESTIONS.items() if (rows := lake.query(question))}
    assert not found, "\n".join(f"{what}: {len(rows)}, such as {rows[0]}" for what, rows in found.items())
