"""Spark itself is killed in the middle of a task: its host by name, and the Java machine below it. The rest of the line's crash points use a small program instead."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.accounting import rows_of
from support.databases import StateDatabase
from support.process_trees import java
from support.processes import Processes, running_processes, wait_until
from support.small_lines import control_here, settle

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

LONGEST = 400.0
DAG = """
name: small
defaults: {domain: test, owner: test, max_attempts: 50}
jobs:
  - name: load
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: here/landing, format: csv, schema: "id BIGINT, value STRING"}
    outputs: [{layer: bronze, description: Rows as they came}]
    update_strategy: append
    unique_key: [id]
  - name: clean
    activation: reactive
    inputs: [{from: {job: load, output: 0}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: SELECT * FROM input_0}
    outputs: [{layer: silver, description: The same rows}]
    update_strategy: replace
"""


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    settings = {"TRACELAKE__WORKER__RUNTIMES": '["spark"]', "TRACELAKE__WORKER__SLOTS": "1"}
    with running_processes(database, tmp_path, settings) as running:
        yield running


@pytest.mark.proves("T3.4")
def test_spark_dies_in_the_middle_of_a_task_and_the_task_is_done_once(processes: Processes, tmp_path: Path):
    landing = tmp_path / "here" / "landing"
    landing.mkdir(parents=True)
    (landing / "1.csv").write_text("id,value\n1,a\n2,b\n")
    with control_here(processes, tmp_path, lease_seconds=60), processes.client() as client:
        client.deploy(DAG)
        client.run("small", "load")
        # The host dies with half of its files written, in its first task.
        worker = processes.worker(kill_at="half_the_files")
        wait_until(lambda: bool(rows_of(processes.database, "SELECT 1 FROM task_attempt WHERE ended_at IS NOT NULL")), "the host has died", longest=LONGEST)
        [(name, message)] = rows_of(processes.database, "SELECT error_class, error_message FROM task_attempt WHERE ended_at IS NOT NULL")
        assert (name, "ended with -9 " in message) == ("no_outcome", True)

        # The next one starts, and its Java machine is killed while it works.
        wait_until(lambda: bool(java(worker.pid)), "another Spark has started", longest=LONGEST)
        [machine] = java(worker.pid)
        os.kill(machine, signal.SIGKILL)
        wait_until(lambda: machine not in java(worker.pid), "it is gone", longest=LONGEST)

        _, tables = settle(processes, Counter({("load", "completed"): 1, ("clean", "completed"): 1}), [(1, "a"), (2, "b")], refused=False)
        assert [table.versions for table in tables.values()] == [[[(1, "a"), (2, "b")]]] * 2
        ended = rows_of(processes.database, "SELECT outcome::text, error_class FROM task_attempt ORDER BY started_at")
        assert ended[0] == ("failed", "no_outcome")
        assert ended[1][0] == "failed"
        assert worker.exit_code is None
