"""A workload of the line that is over in seconds and whose every row is known: an append with a duplicate key, a replace behind it, and a run that the gate refuses.

Its operators are the small test program, run by the real wrapper.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.accounting import rows_of, wait_until_quiet
from support.controls import running_control, served, settings_for
from support.lakes import Lake
from support.line_accounting import Table, account_for_lines
from support.parquet_operator import COMMAND
from support.processes import Processes
from tracelake_sdk.client import Client
from tracelake_sdk.tasks import Task

DAG = "small"
LONGEST = 240.0  # seconds that a few runs may take on a busy machine; nothing is measured by it
DEFINITION = """
name: small
defaults: {domain: test, owner: test, max_attempts: 50}
jobs:
  - name: load
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: here/load.json, format: csv}
    outputs: [{layer: bronze, description: Rows as they came}]
    update_strategy: append
    unique_key: [id]
  - name: clean
    activation: reactive
    inputs: [{from: {job: load, output: 0}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: '{"copy": 0}'}
    outputs: [{layer: silver, description: The same rows}]
    update_strategy: replace
publish:
  raw: {job: load, output_index: 0}
"""

# The second run repeats a key of the first one; the third has a row that a rule forbids.
FIRST: dict[str, Any] = {"rows": [[1, "a"], [2, "b"]], "files": 2, "leftover": True}
SECOND: dict[str, Any] = {"rows": [[2, "again"], [3, "c"]]}
REFUSED: dict[str, Any] = {"rows": [[4, "d"], [5, None]], "files": 2}
ALLOWED = [(1, "a"), (2, "b"), (3, "c")]


@dataclass
class SmallLine:
    """`runs`: what the source's first, second, … successful run writes."""

    folder: Path
    runs: list[dict[str, Any]] = field(default_factory=lambda: [FIRST, SECOND, REFUSED])

    def settings(self, **more: str) -> dict[str, str]:
        """For control and worker; leases are long, so that only a test ends one."""
        place = _place(self.folder)
        place.mkdir(exist_ok=True)
        (place / "load.json").write_text(json.dumps({"by_run": {str(number): run for number, run in enumerate(self.runs)}}))
        return {
            "TRACELAKE__LOCATIONS": json.dumps({"here": str(place)}),
            "TRACELAKE__TASKS__LEASE_SECONDS": "60",
            "TRACELAKE__WORKER__COMMANDS": json.dumps({"ingest_files": COMMAND, "sql": COMMAND}),
            "TRACELAKE__WORKER__RUNTIMES": '["spark"]',
            "TRACELAKE__WORKER__SLOTS": "1",
        } | more

    def deploy(self, client: Client) -> None:
        client.dags.deploy(DEFINITION)
        client.rules.add("raw", "NOT_NULL", "value")

    def request(self, client: Client, *numbers: int) -> list[Task]:
        return [client.dags.run(DAG, "load", idempotency_key=f"run {number}") for number in numbers]


def _place(folder: Path) -> Path:
    """The location `here`: beside the home, never around it."""
    return folder / "here"


@contextmanager
def control_here(processes: Processes, folder: Path, *, storage: dict[str, Any] | None = None, **tasks: float) -> Iterator[Lake]:
    """A control that lives in the test itself, where it starts at once, under the address that workers and clients know."""
    settings = settings_for(
        processes.database,
        processes.home,
        api={"port": int(processes.api_url.rpartition(":")[2])},
        locations={"here": str(_place(folder))},
        storage=storage or {},
        tasks={"lease_seconds": 60, "housekeeping_seconds": 0.05, "backoff_seconds": 0.05} | tasks,
    )
    with running_control(settings, processes.database) as control_plane, served(control_plane.control):
        yield Lake(control_plane.control, processes.database)


def end_leases(processes: Processes, worker: str = "%") -> int:
    """The worker is dead: its leases expire now."""
    return len(rows_of(
        processes.database,
        """
        UPDATE task SET lease_expires_at = now() - interval '1 second' FROM task_attempt AS attempt
        WHERE task.state = 'running' AND attempt.task_id = task.id AND attempt.attempt = task.attempt AND attempt.worker LIKE %s
        RETURNING task.id
        """,
        worker,
    ))  # fmt: skip


def sweep(lake: Lake, *, after: timedelta = timedelta(days=30)) -> None:
    while lake.control.sweeper.run_once(now=datetime.now(UTC) + after):
        pass


def settle(processes: Processes, expected: Counter[tuple[str, str]], rows: list[tuple[Any, ...]], *, refused: bool = True) -> tuple[int, dict[str, Table]]:
    """Everything comes to rest as expected: all rows that were allowed, none that was not, in any version; returns the number of attempts and the tables."""
    wait_until_quiet(processes.database, longest=LONGEST)
    for error in rows_of(processes.database, "SELECT task_id, attempt, error_class, error_message FROM task_attempt WHERE error_class IS NOT NULL"):
        print(*error)  # pytest shows it of a test that failed
    account, tables = account_for_lines(processes.database, processes.home / "lake")
    assert account.tasks == expected
    assert tables["load"].rows == tables["clean"].rows == rows
    # A table only ever showed whole runs, in their order.
    for table in tables.values():
        assert all(set(earlier) < set(later) for earlier, later in zip(table.versions, table.versions[1:], strict=False))
    decided = rows_of(processes.database, "SELECT count(*) FILTER (WHERE allowed), count(*) FILTER (WHERE NOT allowed) FROM promotion_status")
    changes = rows_of(processes.database, "SELECT count(*) FROM change")
    assert decided == [(changes[0][0], int(refused))]
    return account.attempts, tables


WHOLE = Counter({("load", "completed"): 2, ("load", "failed"): 1, ("clean", "completed"): 2})
