"""A line whose files Spark itself writes, wherever its lake is, and a walk on which one part after the other is killed below its worker."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.accounting import rows_of, wait_until_quiet
from support.line_accounting import account_for_lines
from support.process_trees import java
from support.processes import AT_ONCE, Processes, wait_until
from tracelake.embedded.processes import Child

LONGEST = 400.0  # seconds that one run may take on a busy machine: it starts Spark twice
SETTINGS = {"TRACELAKE__WORKER__RUNTIMES": '["spark"]', "TRACELAKE__WORKER__SLOTS": "1"}
# The second output has several scopes: on an object store these are copied, where one scope is written in its place.
DEFINITION = """
name: small
defaults: {domain: test, owner: test, max_attempts: 50}
jobs:
  - name: load
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: here/landing, format: csv, schema: "id BIGINT, day STRING"}
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
    outputs: [{layer: silver, description: The same rows by day, partition_by: {column: day}}]
    update_strategy: replace
"""

JAVA = "java"  # the Java machine of the host, killed from outside as soon as it is there
# The host dies at each of its moments, with all files written in the first job and in the second; then the process that measures; then Java.
POINTS = ("operator_start", "half_the_files", "all_files", "all_files*2", "before_outcome", "measuring:sealed", "measuring:measured", JAVA)

Rows = list[tuple[Any, ...]]


def land(folder: Path, number: int) -> Rows:
    """A file more in the location `here`, and its rows."""
    rows: Rows = [(number * 10 + at, f"2024-01-0{at}") for at in (1, 2, 3)]
    landing = folder / "here" / "landing"
    landing.mkdir(parents=True, exist_ok=True)
    (landing / f"{number}.csv").write_text("id,day\n" + "".join(f"{id},{day}\n" for id, day in rows))
    return rows


def walk(processes: Processes, folder: Path, points: Sequence[str], look: Callable[[Child], None] = lambda worker: None) -> list[Rows]:
    """One run for each point, at which something dies below the worker; the rows that each version of both tables must have. `look` sees each worker after its run."""
    versions: list[Rows] = []
    with processes.client() as client:
        client.dags.deploy(DEFINITION)
        for number, point in enumerate(points):
            versions.append(sorted([*(versions[-1] if versions else []), *land(folder, number)], key=str))
            client.dags.run("small", "load")
            before = _failures(processes)
            worker = processes.worker(kill_at=None if point == JAVA else point)
            if point == JAVA:
                _kill_java(worker)
            wait_until_quiet(processes.database, longest=LONGEST)
            [(error, message)] = _failures(processes)[len(before) :]
            assert point == JAVA or (error == ("measuring_died" if point.startswith("measuring") else "no_outcome") and " ended with exit code -9 " in message), (point, error, message)
            assert worker.exit_code is None, point
            look(worker)
            worker.stop(AT_ONCE)
    return versions


def _kill_java(worker: Child) -> None:
    wait_until(lambda: bool(java(worker.pid)), "Spark has started", longest=LONGEST)
    [machine] = java(worker.pid)
    os.kill(machine, signal.SIGKILL)
    wait_until(lambda: machine not in java(worker.pid), "its Java machine is gone", longest=LONGEST)


def _failures(processes: Processes) -> list[tuple[Any, ...]]:
    return rows_of(processes.database, "SELECT error_class, error_message FROM task_attempt WHERE outcome = 'failed' ORDER BY ended_at")


def account_for_walk(processes: Processes, lake: Path, versions: list[Rows]) -> None:
    """Every run is there once and whole, in each version that a reader ever saw; each run has failed once."""
    account, tables = account_for_lines(processes.database, lake)
    runs = len(versions)
    assert account.tasks == Counter({("load", "completed"): runs, ("clean", "completed"): runs})
    assert account.attempts == 3 * runs
    assert {job: table.versions for job, table in tables.items()} == {"load": versions, "clean": versions}
