"""A control with a lake for each test; its loops are quiet, tests move lines themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase
from support.lakes import Lake

QUIET = {"housekeeping_seconds": 60}


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[Lake]:
    with running_control(settings_for(database, tmp_path / "home", tasks=QUIET), database) as desk:
        # Only the test moves lines, so that it can look in between.
        desk.control.movers.stop()
        yield Lake(desk.control, database)
