"""Order: in any process, the places of a line become versions strictly one after the other, each once."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable
from support.controls import running_control, settings_for
from support.databases import StateDatabase
from support.lakes import Lake
from support.lines import APPENDING, PARTITIONED, generation_of, load, load_parts, part, rewrite, tasks_of, versions_of, waiting, wanted_scopes
from support.sizes import size

from tracelake_sdk.tasks import ClaimedTask

QUIET = {"housekeeping_seconds": 60}


def decided(lake: Lake, number: int) -> list[ClaimedTask]:
    """So many tasks of `clean` with a row each, decided in this order and not moved."""
    first = 1_000 * len(versions_of(lake, "load"))
    for at in range(number):
        load(lake, 1_000_000 + first + at)
    claimed = tasks_of(lake, "clean")
    assert len(claimed) == number
    for at, task in enumerate(claimed):
        assert lake.write(task, [(first + at, "a")]).result == "committing"
    return claimed


def members(lake: Lake, job: str = "clean") -> list[tuple[int, list[int]]]:
    """(version, places) of a job's dataset."""
    return lake.query(
        "SELECT member.version, array_agg(member.place ORDER BY member.place) FROM data_version_member AS member WHERE generation_id = %s"
        " GROUP BY member.version ORDER BY member.version",
        generation_of(lake, job),
    )


def log_parts(lake: Lake, job: str = "clean") -> list[list[int]]:
    """The places that each Delta version names, in the order of the log."""
    entries = sorted(path for path in (lake.location_of(job) / "_delta_log").iterdir() if path.suffix == ".json")
    found: list[list[int]] = []
    for number, path in enumerate(entries):
        assert int(path.stem) == number
        info = next(action["commitInfo"] for action in map(json.loads, path.read_text().splitlines()) if "commitInfo" in action)
        found.append([part["place"] for part in json.loads(info["userMetadata"])["parts"]])
    return found


@pytest.fixture
def others(lake: Lake, database: StateDatabase) -> Iterator[list[Lake]]:
    """Other control processes on the same database and lake; they move nothing by themselves."""
    with ExitStack() as stack:
        found: list[Lake] = []
        for _ in range(3):
            control_plane = stack.enter_context(running_control(settings_for(database, lake.control.settings.home, tasks=QUIET), database))
            control_plane.control.movers.stop()
            found.append(Lake(control_plane.control, database))
        yield found


@pytest.mark.proves("G3.2")
def test_eight_committers_on_one_line_keep_its_order(lake: Lake, others: list[Lake]):
    lake.deploy(APPENDING)
    changes = size(24, 40)
    for at in range(changes):
        load(lake, 1_000_000 + at)
    claimed = tasks_of(lake, "clean")
    generation = generation_of(lake, "clean")
    done = threading.Event()
    moved: list[int] = []

    def move(control: Lake) -> None:
        while not done.is_set():
            moved.append(control.control.committer.move(generation))

    with ThreadPoolExecutor(8) as pool:
        movers = [pool.submit(move, control) for control in (lake, *others) * 2]
        for at, task in enumerate(claimed):
            assert lake.write(task, [(at, "a")]).result == "committing"
        done.set()
        for mover in movers:
            mover.result()
    moved.append(lake.control.committer.move(generation))
    assert sum(moved) == changes
    versions = versions_of(lake, "clean")
    assert versions == list(range(1, len(versions) + 1))
    assert [places for _, places in members(lake)] == log_parts(lake)
    assert [place for _, places in members(lake) for place in places] == list(range(1, changes + 1))
    assert lake.query("SELECT version, delta_version FROM data_version WHERE dataset_version_id IN (SELECT id FROM dataset_version WHERE generation_id = %s)"
                      " ORDER BY version", generation) == [(version, version - 1) for version in versions]
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == list(range(changes))
    # In the order of their decisions, too.
    assert lake.query("SELECT task_id FROM change WHERE generation_id = %s ORDER BY place", generation) == [(task.fence.task_id,) for task in claimed]


@pytest.mark.proves("G3.1")
def test_changes_that_wait_together_become_one_version_with_a_part_each(lake: Lake):
    lake.deploy(APPENDING)
    claimed = decided(lake, 4)
    assert lake.move() == 4
    assert versions_of(lake, "clean") == [1]
    assert members(lake) == [(1, [1, 2, 3, 4])]
    assert log_parts(lake) == [[1, 2, 3, 4]]
    ids = [task.fence.task_id for task in claimed]
    assert lake.query("SELECT task_id, version FROM materialization WHERE task_id = ANY(%s) ORDER BY task_id", ids) == [(id, 1) for id in sorted(ids)]
    assert lake.query("SELECT count(*), count(DISTINCT promotion_id) FROM change_output WHERE generation_id = %s", generation_of(lake, "clean")) == [(4, 4)]
    assert lake.query("SELECT count(*) FROM run_history WHERE task_id = ANY(%s) AND status = 'SUCCESS'", ids) == [(4,)]
    assert lake.query("SELECT producer_task_id FROM dataset_event WHERE producer_task_id = ANY(%s) ORDER BY id", ids) == [(id,) for id in ids]
    assert lake.query("SELECT row_count, promoted_by FROM data_version WHERE promoted_by LIKE %s", f"{ids[-1]}%") == [(4, f"{ids[-1]}:1")]
    assert len(lake.rows(lake.location_of("clean"))) == 4


def test_rewrites_of_one_scope_are_never_joined_and_those_of_others_are(lake: Lake):
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")], part("b"): [(2, "b")]})
    for task in tasks_of(lake, "clean"):
        scopes = wanted_scopes(task)
        if scopes:
            assert rewrite(lake, task, {scopes[0]: [(1, scopes[0].key)]}).result == "committing"
    lake.move()
    assert members(lake) == [(1, [1, 2])]
    for number in (2, 3):
        load_parts(lake, {part("a"): [(number, "a")], part("b"): [(number, "b")]})
        for task in tasks_of(lake, "clean"):
            scopes = wanted_scopes(task)
            if not task.payload.outputs[0].staged.everything:
                assert rewrite(lake, task, {scopes[0]: [(number, scopes[0].key)]}).result == "committing"
    assert lake.control.committer.move(generation_of(lake, "clean")) == 4
    assert members(lake) == [(1, [1, 2]), (2, [3, 4]), (3, [5, 6])]
    assert lake.rows(lake.location_of("clean"), version=1) == [(2, "a"), (2, "b")]
    assert lake.rows(lake.location_of("clean")) == [(3, "a"), (3, "b")]


@pytest.mark.proves("G3.3")
def test_every_earlier_version_can_be_read(lake: Lake):
    lake.deploy(APPENDING)
    for number in range(3):
        decided(lake, 1)
        lake.move()
        assert len(lake.rows(lake.location_of("clean"))) == number + 1
    assert [len(lake.rows(lake.location_of("clean"), version=version)) for version in range(3)] == [1, 2, 3]
    assert [entry["timestamp"] for entry in DeltaTable(str(lake.location_of("clean"))).history()][::-1] == [
        int(at.timestamp() * 1000) for (at,) in lake.query("SELECT decided_at FROM change WHERE generation_id = %s ORDER BY place", generation_of(lake, "clean"))
    ]


# Stopped and full lines

def foreign_entry(lake: Lake, version: int) -> Path:
    path = lake.location_of("clean") / "_delta_log" / f"{version:020}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'{"commitInfo":{"operation":"somebody else"}}\n')
    return path


@pytest.mark.proves("G3.2")
def test_a_foreign_writer_stops_the_line_and_a_resume_continues_with_everything_decided(lake: Lake):
    lake.deploy(APPENDING)
    decided(lake, 1)
    lake.move()
    decided(lake, 2)
    foreign = foreign_entry(lake, 1)
    before = foreign.read_bytes()
    assert lake.move() == 0
    assert lake.move() == 0
    assert foreign.read_bytes() == before
    [(reason,)] = lake.query("SELECT stopped_reason FROM line WHERE stopped_at IS NOT NULL")
    assert "Another program wrote version 1" in reason
    assert lake.control.committer.commits.lines_to_move(room=10) == []
    # Its tasks are not handed out, visibly; those of other lines are.
    load(lake, 77)
    assert tasks_of(lake, "clean") == []
    assert waiting(lake, "clean") == ["line"]
    [status] = lake.services.tasks.views.status(lake.admin, "sample")
    assert {job.name: job.tasks.waiting for job in status.jobs} == {"load": {}, "clean": {"line": 1}}
    # A resume without mending the cause finds it again.
    lake.services.tasks.pauses.resume(lake.admin, "sample", "clean")
    assert lake.move() == 0
    assert lake.one("SELECT count(*) FROM line WHERE stopped_at IS NOT NULL") == 1

    foreign.unlink()
    lake.services.tasks.pauses.resume(lake.admin, "sample", "clean")
    assert lake.move() == 2
    assert versions_of(lake, "clean") == [1, 2]
    assert len(lake.rows(lake.location_of("clean"))) == 3
    [task] = tasks_of(lake, "clean")
    assert lake.write(task, [(500, "a")]).result == "committing"
    assert lake.move() == 1


def test_what_runs_when_its_line_is_stopped_is_still_decided(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    load(lake, 2)
    one, two = tasks_of(lake, "clean")
    lake.write(one, [(1, "a")])
    foreign = foreign_entry(lake, 0)
    lake.move()
    assert lake.write(two, [(11, "a")]).result == "committing"
    assert lake.move() == 0
    foreign.unlink()
    lake.services.tasks.pauses.resume(lake.admin, "sample", "clean")
    assert lake.move() == 2
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == [1, 11]


@pytest.mark.proves("T1.5")
def test_a_line_that_does_not_move_takes_no_more_tasks_than_it_may_hold(database: StateDatabase, tmp_path: Path):
    settings = settings_for(database, tmp_path / "home", tasks=QUIET, storage={"max_unrecorded": 3})
    with running_control(settings, database) as control_plane:
        control_plane.control.movers.stop()
        lake = Lake(control_plane.control, database)
        lake.deploy(APPENDING)
        for at in range(5):
            load(lake, 1_000 + at)
        claimed = tasks_of(lake, "clean", room=3)
        for at, task in enumerate(claimed):
            assert lake.write(task, [(at, "a")]).result == "committing"
        assert tasks_of(lake, "clean") == []
        assert waiting(lake, "clean") == ["line", "line"]
        lake.services.tasks.reaper.run_once()
        assert waiting(lake, "clean") == ["line", "line"]  # nothing has moved
        assert lake.move() == 3
        assert waiting(lake, "clean") == [None, None]
        load(lake, 2_000)
        assert len(tasks_of(lake, "clean")) == 3


def test_a_backlog_behind_one_line_hides_no_task_of_another(lake: Lake):
    """More tasks wait for a stopped line than one look takes."""
    lake.deploy(APPENDING)
    lake.deploy(APPENDING, name="other")
    decided(lake, 1)
    foreign_entry(lake, 0)
    lake.move()
    generation = generation_of(lake, "clean")
    load(lake, 5)
    lake.take()
    [(task,)] = lake.query("SELECT id FROM task WHERE waits = 'line'")

    with psycopg.connect(lake.database.superuser_url) as connection:
        connection.execute(
            "INSERT INTO task (id, org_id, dag_id, generation_id, pool_id, trigger_kind, trigger_id, scope, waits, created_at)"
            " SELECT gen_random_uuid(), org_id, dag_id, generation_id, pool_id, trigger_kind, gen_random_uuid(), scope, waits, created_at - interval '1 day'"
            " FROM task, generate_series(1, 250) WHERE id = %s",
            [task],
        )
    lake.query("UPDATE line SET stopped_at = now(), stopped_reason = 'test' WHERE generation_id = %s", generation_of(lake, "clean", "other"))
    lake.services.tasks.requests.run(lake.admin, "other", "load", {}, idempotency_key=None)
    [source] = lake.take()
    lake.write(source, [(1, "a")], state={})
    lake.move()
    assert lake.take() == []
    lake.query("UPDATE line SET stopped_at = NULL, stopped_reason = NULL WHERE generation_id = %s", generation_of(lake, "clean", "other"))
    lake.services.tasks.reaper.run_once()
    [ready] = lake.take()
    assert ready.payload.dag.name == "other"
    assert lake.one("SELECT count(*) FROM task WHERE waits = 'line' AND generation_id = %s", generation) == 251
