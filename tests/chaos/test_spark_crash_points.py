"""Spark itself is killed in the middle of a task: its host by name, and the Java machine below it. The rest of the line's crash points use a small program instead."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.line_accounting import named_files, staged_files
from support.processes import Processes, running_processes
from support.sizes import full
from support.small_lines import control_here, sweep
from support.spark_lines import JAVA, POINTS, SETTINGS, account_for_walk, walk

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    with running_processes(database, tmp_path, SETTINGS) as running:
        yield running


@pytest.mark.proves("T3.4")
def test_spark_dies_in_the_middle_of_a_task_and_the_task_is_done_once(processes: Processes, tmp_path: Path):
    """Every day Java alone: on S3 the host dies every day, by the same walk."""
    lake_folder = processes.home / "lake"
    with control_here(processes, tmp_path) as lake:
        versions = walk(processes, tmp_path, POINTS if full() else [JAVA])
        account_for_walk(processes, lake_folder, versions)
        sweep(lake)
    account_for_walk(processes, lake_folder, versions)
    assert staged_files(lake_folder) == named_files(processes.database, lake_folder)
