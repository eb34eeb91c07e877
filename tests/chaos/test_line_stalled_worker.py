"""Workers that sleep past their leases, and storage that is away for longer than files are kept: nothing late becomes visible, nothing decided is lost."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.accounting import ask, rows_of
from support.databases import StateDatabase
from support.line_accounting import named_files, staged_files
from support.processes import Processes, running_processes, wait_until
from support.small_lines import ALLOWED, DAG, FIRST, REFUSED, SECOND, WHOLE, SmallLine, control_here, end_leases, settle, sweep

from tracelake_sdk.home import HomeFiles

LONGEST = 240.0


@pytest.fixture
def line(tmp_path: Path) -> SmallLine:
    return SmallLine(tmp_path)


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path, line: SmallLine) -> Iterator[Processes]:
    with running_processes(database, tmp_path, line.settings()) as running:
        yield running


def elsewhere(processes: Processes, folder: Path) -> dict[str, str]:
    """A worker on a separate machine: it shares only the lake with the others."""
    (folder / "elsewhere").mkdir()
    token = HomeFiles(processes.home).worker_token() or ""
    lake = (processes.home / "lake").as_uri()
    return {"TRACELAKE__WORKER__NAME": "sleeper", "TRACELAKE_HOME": str(folder / "elsewhere"), "TRACELAKE__WORKER__TOKEN": token, "TRACELAKE__STORAGE__URL": lake}


def operators(folder: Path) -> list[int]:
    """The operators that run for workers of this test, by their process ids."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # gone meanwhile
        if "parquet_operator" in command and f"{folder}/" in command:
            found.append(int(process.name))
    return found


def said(processes: Processes, event: str) -> list[dict[str, Any]]:
    """What workers logged under this name."""
    lines = [json.loads(line) for line in processes.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def sleep_in_the_middle(processes: Processes, line: SmallLine, tmp_path: Path) -> tuple[int, list[int]]:
    """A worker and its operator, asleep with all files of the first run written; the operator ends when it may."""
    line.runs[:] = [FIRST | {"by_attempt": {"1": {"wait_before_outcome": str(tmp_path / "go")}}}, SECOND, REFUSED]
    line.settings()
    sleeper = processes.worker(elsewhere(processes, tmp_path))
    with processes.client() as client:
        line.deploy(client)
        line.request(client, 1, 2, 3)
    wait_until(lambda: len(staged_files(processes.home / "lake")) == 3, "its operator has written everything", longest=LONGEST)
    [operator] = operators(tmp_path)
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.kill(operator, signal.SIGSTOP)
    return sleeper.pid, [operator]


def everything(processes: Processes) -> list[list[tuple[Any, ...]]]:
    return [
        rows_of(processes.database, "SELECT task_id, attempt, worker, ended_at, outcome::text, body_sha256 FROM task_attempt ORDER BY task_id, attempt"),
        rows_of(processes.database, "SELECT * FROM run_history ORDER BY seq"),
        rows_of(processes.database, "SELECT * FROM line ORDER BY generation_id"),
        rows_of(processes.database, "SELECT dataset_version_id, path, added_version, removed_version FROM data_file ORDER BY 1, 2"),
    ]


@pytest.mark.proves("T3.4")
def test_a_worker_that_slept_past_its_lease_is_refused_and_shows_nothing(processes: Processes, line: SmallLine, tmp_path: Path):
    # So long a lease that it has not asked again when it wakes up: it only hears of it when it reports.
    with control_here(processes, tmp_path, lease_seconds=3600) as lake:
        worker, [operator] = sleep_in_the_middle(processes, line, tmp_path)
        assert end_leases(processes, "sleeper") == 1
        processes.worker({"TRACELAKE__WORKER__NAME": "awake"})
        attempts, tables = settle(processes, WHOLE, ALLOWED)
        assert attempts == WHOLE.total() + 1
        before, shown = everything(processes), {job: table.versions for job, table in tables.items()}
        late = staged_files(processes.home / "lake") - named_files(processes.database, processes.home / "lake")

        (tmp_path / "go").touch()
        os.kill(operator, signal.SIGCONT)
        wait_until(lambda: not operators(tmp_path), "its operator has ended", longest=LONGEST)
        os.kill(worker, signal.SIGCONT)
        wait_until(lambda: any(line["result"] == "stale" for line in said(processes, "reported")), "its report was answered", longest=LONGEST)
        [answer] = [line for line in said(processes, "reported") if line["result"] == "stale"]
        assert (answer["attempt"], answer["outcome"], answer["code"]) == (1, "succeeded", "stale_attempt")

        assert everything(processes) == before
        _, tables = settle(processes, WHOLE, ALLOWED)
        assert {job: table.versions for job, table in tables.items()} == shown
        first = f"{answer['task_id']}-1"
        assert {file for file in late if first in file.parts} <= staged_files(processes.home / "lake")
        sweep(lake)
        assert staged_files(processes.home / "lake") == named_files(processes.database, processes.home / "lake")
        assert not any(first in file.parts for file in staged_files(processes.home / "lake"))
        settle(processes, WHOLE, ALLOWED)


@pytest.mark.proves("T3.4")
def test_a_worker_whose_lease_ran_out_ends_its_operator(processes: Processes, line: SmallLine, tmp_path: Path):
    with control_here(processes, tmp_path, lease_seconds=6) as lake:
        worker, [operator] = sleep_in_the_middle(processes, line, tmp_path)
        wait_until(lambda: ask(processes.database, "SELECT count(*) FROM task_attempt WHERE timed_out_at IS NOT NULL") > 0, "its lease has run out", longest=LONGEST)
        processes.worker({"TRACELAKE__WORKER__NAME": "awake"})
        settle(processes, WHOLE, ALLOWED)
        before = everything(processes)

        os.kill(operator, signal.SIGCONT)
        os.kill(worker, signal.SIGCONT)
        wait_until(lambda: not operators(tmp_path), "its operator is gone, though nobody let it end", longest=LONGEST)
        wait_until(lambda: processes.waiting_polls() == 2, "it waits for work again", longest=LONGEST)
        assert everything(processes) == before
        sweep(lake)
        assert staged_files(processes.home / "lake") == named_files(processes.database, processes.home / "lake")
        settle(processes, WHOLE, ALLOWED)


BATCHES = {"rows": [[1, "a"], [2, "b"]], "batches": 2}


@pytest.mark.proves("T3.4")
@pytest.mark.parametrize("batched", [False, True], ids=["a run", "batches"])
def test_what_is_decided_outlives_a_storage_that_is_away_for_longer_than_files_are_kept(processes: Processes, line: SmallLine, tmp_path: Path, batched: bool):
    run = BATCHES if batched else FIRST | {"die_at": "all_files", "die_mark": str(tmp_path / "mark")}
    line.runs[:] = [run]
    line.settings()
    decided = 2 if batched else 1
    with control_here(processes, tmp_path) as lake, processes.client() as client:
        line.deploy(client)
        # A file in place of the log's folder: no user can write there, not even root.
        log = lake.location_of("load", DAG) / "_delta_log"
        log.parent.mkdir(parents=True)
        log.touch()
        line.request(client, 1)
        processes.worker()
        wait_until(lambda: ask(processes.database, "SELECT sum(decided) FROM line") == decided, "it is decided", longest=LONGEST)
        final = "SELECT count(*) FROM task_attempt AS attempt JOIN task ON task.id = attempt.task_id WHERE task.state = 'completed' OR attempt.outcome = 'failed'"
        wait_until(lambda: ask(processes.database, final) == 1, "an attempt beside it is over", longest=LONGEST)
        named, before = named_files(processes.database, processes.home / "lake"), staged_files(processes.home / "lake")
        assert named and named <= before

        sweep(lake)
        left = staged_files(processes.home / "lake")
        assert named <= left
        # What a killed operator left behind is gone, so the sweep did look.
        assert (len(before - left) > 0) == (not batched)
        assert ask(processes.database, "SELECT sum(recorded) FROM line") == 0

        log.unlink()
        expected = Counter({("load", "completed"): 3 if batched else 1, ("clean", "completed"): decided})
        settle(processes, expected, [(1, "a"), (2, "b")], refused=False)
        sweep(lake)
        assert staged_files(processes.home / "lake") == named_files(processes.database, processes.home / "lake")
        settle(processes, expected, [(1, "a"), (2, "b")], refused=False)
