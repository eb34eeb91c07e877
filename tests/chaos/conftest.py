"""Every chaos test has a database and processes of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.processes import Processes, running_processes


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    with running_processes(database, tmp_path) as running:
        yield running
