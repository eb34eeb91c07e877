"""A control whose tasks a test claims by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase
from support.lakes import Lake


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[Lake]:
    with running_control(settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 60}), database) as control_plane:
        control_plane.control.movers.stop()  # only the test moves lines
        yield Lake(control_plane.control, database)
