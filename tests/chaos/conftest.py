"""Every chaos test has its own database and processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.processes import Processes, running_processes


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    with running_processes(database, tmp_path) as running:
        yield running
