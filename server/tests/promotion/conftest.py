"""A control with a lake, and one dataset whose rows rules can be about."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase, fresh_database
from support.lakes import BRONZE, Lake

from tracelake.embedded.postgres import EmbeddedPostgres


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[Lake]:
    with running_control(settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 60}), database) as control_plane:
        control_plane.control.movers.stop()  # only the test moves lines
        lake = Lake(control_plane.control, database)
        lake.deploy(BRONZE)
        yield lake


@pytest.fixture(scope="module")
def rights_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The service's login role on a migrated database that stays as it is."""
    with fresh_database(postgres) as fresh:
        yield fresh.service_url
