"""Recovery in control: if a process stops after it decided, froze or put a change, the next one completes it, once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase
from support.lakes import BRONZE, Lake
from support.lines import APPENDING, generation_of, load, tasks_of, versions_of
from support.processes import wait_until

from tracelake.control.commits.movers import Movers
from tracelake.control.commits.service import Commits, Committer
from tracelake.control.process import Control
from tracelake.storage.contract import PutResult, Storage, StoredFile
from tracelake.storage.local import LocalStorage
from tracelake_sdk.errors import StorageOutcomeUnknown, StorageUnavailable

QUIET = {"housekeeping_seconds": 60}


def decide(lake: Lake, *ids: int) -> None:
    lake.run()
    [task] = lake.take()
    assert lake.write(task, [(id, "a") for id in ids], state={}).result == "committing"


def shown(lake: Lake) -> list[int]:
    return [row[0] for row in lake.rows(lake.location())]


def test_what_was_decided_and_forgotten_is_committed_by_the_next_one(lake: Lake, database: StateDatabase):
    lake.deploy(BRONZE)
    decide(lake, 1)
    with running_control(settings_for(database, lake.control.settings.home, tasks={"housekeeping_seconds": 0.05}), database) as other:
        # Nobody tells it: it looks over all lines by itself.

        wait_until(lambda: other.one("SELECT count(*) FROM data_version") == 1, "the other control has moved the line")
    assert shown(lake) == [1]


def test_what_was_frozen_and_forgotten_is_put_with_these_very_bytes(lake: Lake):
    lake.deploy(BRONZE)
    decide(lake, 1)
    generation = generation_of(lake, "load")
    [frozen] = lake.control.committer.commits.freeze(generation).entries
    decide(lake, 2)  # does not come into the entry any more
    assert lake.control.committer.commits.freeze(generation).entries == [frozen]
    assert shown(lake) == []
    assert lake.move() == 2
    log = sorted((lake.location() / "_delta_log").iterdir())
    assert log[0].read_bytes() == frozen.body
    assert versions_of(lake, "load") == [1, 2]
    assert lake.query("SELECT count(*) FROM delta_commit WHERE body IS NOT NULL") == [(0,)]


def test_what_was_put_and_forgotten_is_recorded_by_the_next_one(lake: Lake):
    lake.deploy(BRONZE)
    decide(lake, 1)
    commits, generation = lake.control.committer.commits, generation_of(lake, "load")
    entries = commits.freeze(generation).entries
    assert commits.put(generation, entries)
    assert shown(lake) == [1]  # readers of the table are ahead of the control plane for a moment
    assert versions_of(lake, "load") == []
    stamp = (lake.location() / "_delta_log" / f"{0:020}.json").stat()
    assert lake.move() == 1
    assert (lake.location() / "_delta_log" / f"{0:020}.json").stat().st_mtime_ns == stamp.st_mtime_ns
    assert versions_of(lake, "load") == [1]
    assert stamp.st_mtime_ns // 1000 == int(lake.one("SELECT decided_at FROM change").timestamp() * 1_000_000)


def test_recording_twice_changes_nothing(lake: Lake):
    lake.deploy(APPENDING)
    decide(lake, 1)
    committer, generation = lake.control.committer, generation_of(lake, "load")
    entries = committer.commits.freeze(generation).entries
    committer.commits.put(generation, entries)
    assert committer.record(generation, 1) == 1
    assert committer.record(generation, 1) == 0
    assert committer.record(generation, 0) == 0
    for table in ("data_version", "data_version_member", "materialization", "dataset_event", "event_ledger", "run_history"):
        assert lake.one(f"SELECT count(*) FROM {table}") == 1, table
    assert lake.query("SELECT decided, frozen, recorded FROM line WHERE generation_id = %s", generation) == [(1, 1, 1)]


@pytest.mark.proves("G3.2")
def test_a_committer_that_wakes_up_late_changes_nothing_and_records_nothing_that_is_not_there(lake: Lake):
    lake.deploy(BRONZE)
    decide(lake, 1)
    committer, generation = lake.control.committer, generation_of(lake, "load")
    late = committer.commits.freeze(generation).entries
    assert lake.move() == 1
    decide(lake, 2)
    [next_one] = committer.commits.freeze(generation).entries  # frozen by somebody, and not put
    log = {path.name: path.read_bytes() for path in (lake.location() / "_delta_log").iterdir()}
    # The late one goes on where it stopped.
    assert committer.commits.put(generation, late)
    assert committer.record(generation, late[-1].last_place) == 0
    assert {path.name: path.read_bytes() for path in (lake.location() / "_delta_log").iterdir()} == log
    assert versions_of(lake, "load") == [1]
    assert lake.query("SELECT body IS NOT NULL FROM delta_commit WHERE delta_version = 1") == [(True,)]
    assert lake.move() == 1
    assert (lake.location() / "_delta_log" / f"{1:020}.json").read_bytes() == next_one.body
    assert shown(lake) == [1, 2]


class Faulty:
    """A storage on this machine whose puts fail a given number of times."""
    def __init__(self, real: Storage, faults: Sequence[Callable[[], object] | None]) -> None:
        self.real = real
        self.faults = list(faults)
        self.puts = 0

    def put_new(self, path: str, body: bytes, modified_at: datetime) -> PutResult:
        self.puts += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            return self.real.put_new(path, body, modified_at)
        if fault is landed:
            self.real.put_new(path, body, modified_at)
        fault()
        raise AssertionError("a fault raises")

    def list(self, folder: str) -> list[StoredFile]:
        return self.real.list(folder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def away() -> None:
    raise StorageUnavailable


def lost() -> None:
    raise StorageOutcomeUnknown


def landed() -> None:
    """The file is there, and the answer was lost."""
    raise StorageOutcomeUnknown


def with_storage(lake: Lake, storage: Any) -> Committer:
    return replace(lake.control.committer, commits=Commits(lake.control.database, storage))


@pytest.mark.proves("G3.2")
@pytest.mark.parametrize("faults", [[away] * 3, [lost] * 3, [landed], [landed, lost, away, landed], [away, landed, landed]])
def test_a_storage_that_fails_or_answers_nothing_makes_one_version(lake: Lake, faults: list[Callable[[], object]]):
    lake.deploy(BRONZE)
    decide(lake, 1)
    faulty = Faulty(lake.control.storage, faults)
    committer, generation = with_storage(lake, faulty), generation_of(lake, "load")
    for _ in faults:
        with pytest.raises(StorageUnavailable):
            committer.move(generation)
        assert versions_of(lake, "load") == []
    assert committer.move(generation) == 1
    assert faulty.puts == len(faults) + 1
    assert versions_of(lake, "load") == [1]
    assert shown(lake) == [1]
    assert len(list((lake.location() / "_delta_log").iterdir())) == 1


def test_a_mover_survives_an_unavailable_storage(lake: Lake):
    """The loop itself, not a call of it."""
    lake.deploy(BRONZE)
    decide(lake, 1)
    faulty = Faulty(lake.control.storage, [away, lost, landed])
    movers = Movers(with_storage(lake, faulty), threads=1, look_seconds=0.02, after_move=lambda: None)
    movers.start()
    try:
        wait_until(lambda: versions_of(lake, "load") == [1], "the line has moved")
    finally:
        movers.stop()
    assert faulty.puts == 4


def test_one_line_that_cannot_be_moved_does_not_keep_the_others_waiting(lake: Lake):
    lake.deploy(BRONZE)
    lake.deploy(BRONZE, name="other")
    decide(lake, 1)
    lake.run(dag="other")
    [task] = lake.take()
    lake.write(task, [(1, "a")], state={})
    poisoned = generation_of(lake, "load")
    real = lake.control.committer.record

    def record(generation: UUID, up_to: int) -> int:
        if generation == poisoned:
            raise ValueError("something that nobody thought of")
        return real(generation, up_to)

    movers = Movers(replace(lake.control.committer, record=record), threads=1, look_seconds=0.02, after_move=lambda: None)
    movers.start()
    try:
        movers.notify([poisoned])
        wait_until(lambda: lake.one("SELECT recorded FROM line WHERE generation_id = %s", generation_of(lake, "load", "other")) == 1, "the other line has moved")
    finally:
        movers.stop()
    assert lake.one("SELECT recorded FROM line WHERE generation_id = %s", poisoned) == 0
    assert lake.move() == 1


@pytest.mark.proves("G3.2")
def test_nothing_decided_is_swept_however_long_the_storage_is_unavailable(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 2)
    [task] = tasks_of(lake, "clean")
    sidecar = lake.location_of("clean") / f"{task.fence.task_id}-1" / "full" / "part-0.parquet.keys"
    file = lake.stage(task, [(1, "a")]).model_copy(update={"hashes": str(sidecar.relative_to(lake.location_of("clean")))})
    sidecar.write_bytes(b"12345678")
    left_out = lake.stage(task, [(9, "z")], name="not-named")
    assert lake.report(task, lake.measured([file])).result == "committing"
    committer, generation = with_storage(lake, Faulty(lake.control.storage, [away] * 9)), generation_of(lake, "clean")
    later = datetime.now(UTC)
    for days in range(1, 10):
        with pytest.raises(StorageUnavailable):
            committer.move(generation)
        later += timedelta(days=days)
        lake.control.sweeper.run_once(now=later)
        assert (lake.location_of("clean") / file.path).exists() and sidecar.exists()
    assert lake.move() == 1
    assert lake.rows(lake.location_of("clean")) == [(1, "a")]
    # Recorded: now its folder is swept, and only of what no table names.
    lake.control.sweeper.run_once(now=later + timedelta(days=1))
    assert (lake.location_of("clean") / file.path).exists() and sidecar.exists()
    assert not (lake.location_of("clean") / left_out.path).exists()


@pytest.mark.proves("G3.2")
@pytest.mark.parametrize("moment", ["freeze:before_commit", "freeze:after_commit", "record:before_commit", "record:after_commit"])
def test_a_transaction_of_the_line_that_dies_around_its_commit_is_taken_up_again(database: StateDatabase, tmp_path: Path, moment: str):
    class Died(Exception):
        pass

    left = [moment]

    def watch(now: str) -> None:
        if now in left:
            left.remove(now)
            raise Died

    settings = settings_for(database, tmp_path / "home", tasks=QUIET)
    control = Control(settings, watch=watch)
    control.start()
    control.movers.stop()
    try:
        lake = Lake(control, database)
        lake.deploy(BRONZE)
        decide(lake, 1)
        with pytest.raises(Died):
            control.committer.move(generation_of(lake, "load"))
        assert left == []
        lake.move()
        assert versions_of(lake, "load") == [1]
        assert shown(lake) == [1]
        assert lake.query("SELECT count(*) FROM run_history") == [(1,)]
    finally:
        control.stop()


def test_the_local_storage_is_the_real_one(lake: Lake):
    assert isinstance(lake.control.storage, LocalStorage)
