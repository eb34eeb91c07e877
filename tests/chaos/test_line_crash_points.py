"""Crash points of the line by name: operator, measuring, wrapper or control dies by SIGKILL there, and every unit of work becomes visible once, whole, or not at all.

Each test says what there was at the moment of death, so that a point that moved is noticed, then lets the others go on, and accounts for
everything in Postgres and in the lake.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.accounting import ask, rows_of
from support.databases import StateDatabase
from support.line_accounting import log_entries
from support.processes import Processes, assert_killed, running_processes
from support.sizes import some
from support.small_lines import ALLOWED, REFUSED, WHOLE, SmallLine, control_here, end_leases, settle

from tracelake.embedded.processes import Child

DOOMED = {"TRACELAKE__WORKER__NAME": "doomed"}


@pytest.fixture
def line(tmp_path: Path) -> SmallLine:
    return SmallLine(tmp_path)


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path, line: SmallLine) -> Iterator[Processes]:
    with running_processes(database, tmp_path, line.settings()) as running:
        yield running


def killed_below(processes: Processes) -> list[tuple[str, int]]:
    """Attempts whose program was killed, by error and by the exit code that the wrapper saw."""
    rows = rows_of(
        processes.database, "SELECT error_class, error_message FROM task_attempt WHERE error_class IN ('no_outcome', 'measuring_died') ORDER BY started_at"
    )
    return [(name, int(message.partition(" ended with exit code ")[2].split()[0])) for name, message in rows]


@pytest.mark.proves("T3.4")
@pytest.mark.parametrize("point", some(["operator_start", "half_the_files", "all_files", "measuring:sealed", "measuring:measured"], "half_the_files", "measuring:sealed"))
def test_what_dies_below_a_worker_is_tried_again(processes: Processes, line: SmallLine, tmp_path: Path, point: str):
    with control_here(processes, tmp_path), processes.client() as client:
        line.deploy(client)
        line.request(client, 1, 2, 3)
        worker = processes.worker(kill_at=point)
        attempts, _ = settle(processes, WHOLE, ALLOWED)
        assert killed_below(processes) == [("measuring_died" if point.startswith("measuring") else "no_outcome", -9)]
        assert attempts == WHOLE.total() + 1
        assert worker.exit_code is None


@pytest.mark.proves("T3.4")
@pytest.mark.proves("T3.5")
@pytest.mark.parametrize("point", some(["operator_started", "operator_ended", "measured", "complete_sent", "complete_answered"], "operator_ended", "complete_sent"))
def test_what_a_dead_worker_held_is_done_by_another(processes: Processes, line: SmallLine, tmp_path: Path, point: str):
    with control_here(processes, tmp_path), processes.client() as client:
        line.deploy(client)
        line.request(client, 1, 2, 3)
        assert_killed(processes.worker(DOOMED, kill_at=point))
        decided = point == "complete_answered"
        assert ask(processes.database, "SELECT count(*) FROM change") == int(decided)
        assert end_leases(processes, "doomed") == int(not decided)
        processes.worker()
        attempts, _ = settle(processes, WHOLE, ALLOWED)
        assert attempts == WHOLE.total() + int(not decided)


# What there is when control dies at its point in the first run: attempts, changes, frozen entries, entries in the log, versions.
CONTROL = {
    "claim:before_commit": (0, 0, 0, 0, 0),
    "claim:after_commit": (1, 0, 0, 0, 0),
    "complete:before_commit": (1, 0, 0, 0, 0),
    "complete:after_commit": (1, 1, 0, 0, 0),
    "freeze:before_commit": (1, 1, 0, 0, 0),
    "freeze:after_commit": (1, 1, 1, 0, 0),
    "put:before": (1, 1, 1, 0, 0),
    "put:temporary_written": (1, 1, 1, 0, 0),
    "put:linked": (1, 1, 1, 1, 0),
    "put:folder_synced": (1, 1, 1, 1, 0),
    "put:answered": (1, 1, 1, 1, 0),
    "record:before_commit": (1, 1, 1, 1, 0),
    "record:after_commit": (1, 1, 1, 1, 1),
}


def there(processes: Processes) -> tuple[int, ...]:
    [counted] = rows_of(
        processes.database,
        "SELECT (SELECT count(*) FROM task_attempt), (SELECT count(*) FROM change), (SELECT count(*) FROM delta_commit), (SELECT count(*) FROM data_version)",
    )
    *state, versions = counted
    entries = sum(len(log_entries(log.parent)) for log in (processes.home / "lake").rglob("_delta_log"))
    return (*state, entries, versions)


def control_that_dies(processes: Processes, line: SmallLine, point: str) -> Child:
    """There is one queued run, and no worker yet."""
    control = processes.control(kill_at=point)
    with processes.client() as client:
        line.deploy(client)
        line.request(client, 1)
    return control


@pytest.mark.proves("T2.6")
@pytest.mark.proves("T3.4")
@pytest.mark.parametrize("point", some([*CONTROL], *[*CONTROL][1::2]))
def test_a_worker_outlives_control_and_nothing_is_done_twice(processes: Processes, line: SmallLine, tmp_path: Path, point: str):
    control = control_that_dies(processes, line, point)
    worker = processes.worker()
    assert_killed(control)
    assert there(processes) == CONTROL[point]
    temporary = list((processes.home / "lake").rglob("_delta_log/.*.tmp"))
    assert len(temporary) == int(point in ("put:temporary_written", "put:linked"))

    with control_here(processes, tmp_path), processes.client() as client:
        line.request(client, 1, 2, 3)
        attempts, _ = settle(processes, WHOLE, ALLOWED)
        # The same claim returned the same task, and the same report its first answer: no attempt was lost to the crash.
        assert attempts == WHOLE.total()
        assert worker.exit_code is None


@pytest.mark.proves("G1.6")
@pytest.mark.parametrize("side", ["before_commit", "after_commit"])
def test_a_refusal_is_stored_once_and_shows_nothing(processes: Processes, line: SmallLine, tmp_path: Path, side: str):
    line.runs[:] = [REFUSED]
    line.settings()
    control = control_that_dies(processes, line, f"complete:{side}")
    processes.worker()
    assert_killed(control)
    assert ask(processes.database, "SELECT count(*) FROM promotion_status") == int(side == "after_commit")
    with control_here(processes, tmp_path):
        attempts, tables = settle(processes, Counter({("load", "failed"): 1}), [])
    assert attempts == 1
    assert tables["load"].versions == []
    assert list((processes.home / "lake").rglob("_delta_log")) == []


# A run that publishes two batches while it runs: the small tasks that adopt them belong to the same job.
BATCHES = {"rows": [[1, "a"], [2, "b"]], "batches": 2}
BATCHED = Counter({("load", "completed"): 3, ("clean", "completed"): 2})


@pytest.mark.proves("T2.2")
@pytest.mark.parametrize("point", some(["batch_ready", "batch_posted", "post:before_commit", "post:after_commit"], "batch_posted", "post:after_commit"))
def test_a_batch_is_posted_once(processes: Processes, line: SmallLine, tmp_path: Path, point: str):
    line.runs[:] = [BATCHES]
    line.settings()
    if point.startswith("post:"):
        control = control_that_dies(processes, line, point)
        processes.worker()
        assert_killed(control)
        assert ask(processes.database, "SELECT count(*) FROM batch") == int(point == "post:after_commit")
    with control_here(processes, tmp_path), processes.client() as client:
        if not point.startswith("post:"):
            line.deploy(client)
            line.request(client, 1)
            worker = processes.worker(DOOMED, kill_at=point)
        if point == "batch_posted":
            assert_killed(worker)
            assert ask(processes.database, "SELECT count(*) FROM batch") in (1, 2)  # the second may have been ready, too
            end_leases(processes, "doomed")
            processes.worker()
        attempts, tables = settle(processes, BATCHED, [(1, "a"), (2, "b")], refused=False)
        assert killed_below(processes) == ([("no_outcome", -9)] if point == "batch_ready" else [])
        assert attempts == BATCHED.total() + int(not point.startswith("post:"))
        # Each batch by itself, in the order in which they were posted; the run behind them adds nothing.
        assert tables["load"].versions in ([[(1, "a")], [(1, "a"), (2, "b")]], [[(1, "a"), (2, "b")]])
        assert rows_of(processes.database, "SELECT name FROM batch ORDER BY name") == [("batch-0001",), ("batch-0002",)]
