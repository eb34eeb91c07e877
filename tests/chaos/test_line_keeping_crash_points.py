"""Crash points beside the line's own path: waiting tasks, tasks that end unchanged, checkpoints and sweeps. What leads there is done by hand, the one that dies is a process."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.accounting import ask, rows_of
from support.controls import fresh_claim_id, running_control, settings_for
from support.databases import StateDatabase
from support.lakes import BRONZE, Lake
from support.line_accounting import account_for_lines, named_files, staged_files
from support.lines import REPLACING, load, tasks_of, waiting
from support.processes import Processes, assert_killed, running_processes
from support.small_lines import end_leases

from tracelake.control.commits.checkpoints import CHECKPOINT_EVERY
from tracelake_sdk.errors import OutcomeUnknown
from tracelake_sdk.tasks import ClaimRequest

BEFORE, AFTER = "before_commit", "after_commit"
on_both_sides = pytest.mark.parametrize("side", [BEFORE, AFTER])
AT_ONCE = {"TRACELAKE__STORAGE__STAGING_RETENTION_SECONDS": "0"}

# `clean` also reads a table that has no version yet.
WAITING = REPLACING.replace("inputs: [{{from: {{job: load, output: 0}}}}]", "inputs: [{{from: {{job: load, output: 0}}}}, {{from: {{job: rates, output: 0}}, trigger: false}}]").replace(
    "  - name: clean", BRONZE.partition("jobs:\n")[2].partition("publish:")[0].replace("name: load", "name: rates") + "  - name: clean"
)


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    with running_processes(database, tmp_path, {"TRACELAKE__TASKS__LEASE_SECONDS": "60"}) as running:
        yield running


@contextmanager
def by_hand(processes: Processes, **storage: float) -> Iterator[Lake]:
    """A control whose loops are still: the test itself is the worker, and moves the lines."""
    still = {"lease_seconds": 60, "housekeeping_seconds": 60, "backoff_seconds": 0}
    settings = settings_for(processes.database, processes.home, tasks=still, storage=storage)
    with running_control(settings, processes.database) as control_plane:
        control_plane.control.movers.stop()
        yield Lake(control_plane.control, processes.database)


@on_both_sides
def test_a_task_that_waited_for_an_input_is_placed_once(processes: Processes, side: str):
    with by_hand(processes) as lake:
        lake.deploy(WAITING)
        load(lake, 1)
        assert lake.take() == []
        assert waiting(lake, "clean") == ["input"]
        # Decided, put and recorded, and waiting tasks were not queued yet.
        lake.run("rates")
        [task] = tasks_of(lake, "rates")
        assert lake.write(task, [(7, "r")], state={"rows": 1}).result == "committing"
        lake.control.committer.run_once()
        assert waiting(lake, "clean") == ["input"]

    assert_killed(processes.control(kill_at=f"place_waiting:{side}", ready=False))
    # Before another control starts, whose movers may look at once.
    assert rows_of(processes.database, "SELECT seq IS NOT NULL FROM task WHERE state = 'queued'") == [(side == AFTER,)]
    with by_hand(processes) as lake:
        lake.services.tasks.reaper.run_once()
        assert waiting(lake, "clean") == [None]
        [task] = lake.take()
        assert lake.write(task, [(1, "a")]).result == "committing"
        lake.move()
    account, tables = account_for_lines(processes.database, processes.home / "lake")
    assert account.tasks == {("load", "completed"): 1, ("rates", "completed"): 1, ("clean", "completed"): 1}
    assert account.attempts == 3
    assert tables["clean"].versions == [[(1, "a")]]


@pytest.mark.proves("T8.3")
@on_both_sides
def test_a_task_that_would_write_what_is_there_ends_once(processes: Processes, side: str):
    with by_hand(processes) as lake:
        lake.deploy(REPLACING)
        load(lake, 1)
        load(lake, 2)
        [task, other] = lake.take()
        lake.write(task, [(1, "a"), (2, "a")])
        lake.move()
        # The other one, begun at the same time, comes too late: when it is claimed again, what it would write is there.
        assert lake.write(other, [(1, "a"), (2, "a")]).result == "superseded"

    control = processes.control(kill_at=f"unchanged:{side}")
    with closing(processes.as_worker()) as worker, pytest.raises(OutcomeUnknown):
        worker.claim(ClaimRequest(worker="w2", claim_id=fresh_claim_id(), runtime="spark", room={"default": 1}, wait_s=0))
    assert_killed(control)
    ended = rows_of(processes.database, "SELECT state::text FROM task WHERE id = %s", other.fence.task_id)
    assert ended == [("completed" if side == AFTER else "running",)]
    assert end_leases(processes) == int(side == BEFORE)
    with by_hand(processes) as lake:
        lake.services.tasks.reaper.run_once()
        assert lake.take() == []
    account, tables = account_for_lines(processes.database, processes.home / "lake")
    assert account.tasks == {("load", "completed"): 2, ("clean", "completed"): 2}
    # Superseded once, and what died between claim and end cost one more attempt.
    assert account.attempts == 5 + int(side == BEFORE)
    assert tables["clean"].versions == [[(1, "a"), (2, "a")]]


def test_half_a_checkpoint_harms_no_reader(processes: Processes):
    with by_hand(processes) as lake:
        lake.deploy(BRONZE)
        for number in range(CHECKPOINT_EVERY + 1):
            lake.control.committer.run_once()
            lake.run()
            assert lake.write(lake.take_one(), [(number, "a")]).result == "committing"
        location = lake.location()

    assert_killed(processes.control(kill_at="checkpoint:half", ready=False))
    log = location / "_delta_log"
    assert [found.name for found in log.glob("*.checkpoint.parquet")] == [f"{CHECKPOINT_EVERY:020}.checkpoint.parquet"]
    assert not (log / "_last_checkpoint").exists()
    with by_hand(processes) as lake:
        load(lake, CHECKPOINT_EVERY + 1)
    table = DeltaTable(str(location))
    assert table.version() == CHECKPOINT_EVERY + 1
    assert len(table.file_uris()) == CHECKPOINT_EVERY + 2
    _, tables = account_for_lines(processes.database, processes.home / "lake", last=1)
    assert sorted(row[0] for row in tables["load"].rows) == list(range(CHECKPOINT_EVERY + 2))


@pytest.mark.parametrize("point", ["sweep:marked", "sweep:half", f"sweep:{BEFORE}", f"sweep:{AFTER}"])
def test_a_sweep_takes_what_no_table_names_and_nothing_else(processes: Processes, point: str):
    lake_folder = processes.home / "lake"
    with by_hand(processes) as lake:
        lake.deploy(BRONZE)
        lake.run()
        task = lake.take_one()
        for number in range(3):
            lake.stage(task, [(9, "left over")], name=f"left-{number}")
        assert lake.write(task, [(1, "a")]).result == "committing"
        lake.move()
        # What is decided and not even frozen is named already.
        lake.run()
        assert lake.write(lake.take_one(), [(2, "a")]).result == "committing"
    before = staged_files(lake_folder)
    left_over = {file for file in before if file.name.startswith("left")}
    assert (len(before), len(left_over)) == (5, 3)

    assert_killed(processes.control(AT_ONCE, kill_at=point, ready=False))
    gone = before - staged_files(lake_folder)
    assert gone <= left_over
    assert len(gone) == {"sweep:marked": 0, "sweep:half": 1}.get(point, 3)
    swept = ask(processes.database, "SELECT count(*) FROM task_attempt WHERE swept_at IS NOT NULL")
    assert (swept > 0) == (point == f"sweep:{AFTER}")

    with by_hand(processes, staging_retention_seconds=0) as lake:
        lake.move()
        while lake.control.sweeper.run_once():
            pass
        assert lake.one("SELECT count(*) FROM task_attempt WHERE swept_at IS NULL") == 0
    assert staged_files(lake_folder) == before - left_over == named_files(processes.database, lake_folder)
    _, tables = account_for_lines(processes.database, lake_folder)
    assert tables["load"].rows == [(1, "a"), (2, "a")]
