"""Sweeping: what no table names goes one retention after its attempt has ended, and nothing else ever does."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from support.controls import failed
from support.lakes import BRONZE, Lake
from support.lines import APPENDING, PARTITIONED, REPLACING, generation_of, load, load_parts, part, tasks_of
from support.processes import wait_until

from tracelake.control.tasks import sweeping
from tracelake.loops import Loop
from tracelake_sdk.errors import StorageUnavailable
from tracelake_sdk.tasks import Batch, ClaimedTask, CompletionResult

RETENTION = timedelta(days=1)


def sweep(lake: Lake, after: timedelta = RETENTION + timedelta(hours=1)) -> int:
    """As if so much time had passed."""
    return lake.control.sweeper.run_once(now=datetime.now(UTC) + after)


def folder(lake: Lake, task: ClaimedTask, job: str = "clean") -> Path:
    return lake.location_of(job) / f"{task.fence.task_id}-{task.fence.attempt}"


def files(lake: Lake, job: str = "clean") -> set[str]:
    root = lake.location_of(job)
    return {path.relative_to(root).as_posix() for path in root.rglob("*.parquet*")} if root.exists() else set()


@pytest.mark.proves("G3.2")
@pytest.mark.parametrize("how", ["superseded", "blocked", "failed", "timed_out"])
def test_files_of_an_attempt_that_came_to_nothing_are_swept_after_the_retention_and_not_before(lake: Lake, how: str):
    lake.deploy(REPLACING, max_attempts=1)
    load(lake, 1)
    load(lake, 2)
    task, other = tasks_of(lake, "clean")
    lake.stage(task, [(1, "a")])
    (folder(lake, task) / "batches").mkdir()
    (folder(lake, task) / "batches" / "half [a]*").write_bytes(b"an operator may call its files what it likes")
    match how:
        case "superseded":
            lake.write(other, [(5, "a")])
            assert lake.write(task, [(1, "a")]).result is CompletionResult.SUPERSEDED
        case "blocked":
            assert lake.report(task, lake.measured([lake.stage(task, [(1, "a")])], outside_scope=1)).result is CompletionResult.BLOCKED
        case "failed":
            lake.complete(failed(task, retry=False))
        case _:
            now = datetime.now(UTC)
            for _ in range(3):
                now += timedelta(minutes=1)
                lake.services.tasks.reaper.run_once(now=now)
            assert lake.one("SELECT state::text FROM task WHERE id = %s", task.fence.task_id) == "failed"
    lake.move()
    sweep(lake, RETENTION - timedelta(hours=1))
    assert folder(lake, task).exists()
    assert sweep(lake) >= 1
    assert not folder(lake, task).exists()
    assert lake.one("SELECT swept_at IS NOT NULL FROM task_attempt WHERE task_id = %s", task.fence.task_id)
    assert sweep(lake) == 0


def test_an_attempt_that_may_still_report_is_not_swept(lake: Lake):
    lake.deploy(REPLACING)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    file = lake.stage(task, [(1, "a")])
    lake.services.tasks.reaper.run_once(now=datetime.now(UTC) + timedelta(minutes=1))  # its lease is over, and nobody else has started
    sweep(lake, timedelta(days=400))
    assert lake.report(task, lake.measured([file])).result == "committing"
    sweep(lake, timedelta(days=400))
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(1, "a")]


@pytest.mark.proves("G3.3")
def test_what_a_table_ever_named_stays_with_its_sidecars(lake: Lake):
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    for number in (1, 2):
        load_parts(lake, {part("a"): [(number, "a")]})
        task = next(task for task in tasks_of(lake, "clean") if not task.payload.outputs[0].staged.everything)
        sidecar = folder(lake, task) / "keys-of-part-0.parquet.keys"
        file = lake.stage(task, [(number, "a")], scope=part("a"))
        sidecar.write_bytes(b"12345678")
        named = file.model_copy(update={"hashes": sidecar.relative_to(lake.location_of("clean")).as_posix()})
        lake.stage(task, [(7, "a")], scope=part("a"), name="left-out")
        assert lake.report(task, lake.measured([named])).result == "committing"
        lake.move()
    before = files(lake)
    assert sweep(lake, timedelta(days=400)) >= 2
    assert {path for path in before if "left-out" not in path} == files(lake)
    assert len(files(lake)) == 4  # the first version's file is replaced, and still read by who travels in time
    assert lake.rows(lake.location_of("clean"), version=0) == [(1, "a")]
    assert lake.rows(lake.location_of("clean")) == [(2, "a")]


def test_files_of_a_batch_stay_until_it_is_adopted_and_what_was_adopted_stays(lake: Lake):
    lake.deploy(BRONZE)
    lake.run()
    producer = lake.take_one()
    kept = lake.stage(producer, [(1, "a")], name="kept")
    dropped = lake.stage(producer, [(2, "a")], name="dropped")
    loose = lake.stage(producer, [(3, "a")], name="loose")
    [posted] = lake.services.tasks.posting.post(lake.worker, [Batch(fence=producer.fence, name="one", output=0, files=[kept.path, dropped.path])])
    assert posted.status == 200
    lake.complete(failed(producer, retry=False))
    # The producer's attempt is over for long, and nobody has adopted its batch yet.
    assert sweep(lake, timedelta(days=30)) == 0
    assert len(files(lake, "load")) == 3
    lake.services.tasks.pauses.resume(lake.admin, "sample", "load")
    [adopt] = lake.take()
    assert lake.report(adopt, lake.measured([kept])).result == "committing"
    assert sweep(lake, timedelta(days=30)) == 0  # decided, and not recorded
    lake.move()
    assert sweep(lake, timedelta(days=30)) == 2
    assert files(lake, "load") == {kept.path}
    assert loose.path not in files(lake, "load")
    assert lake.rows(lake.location()) == [(1, "a")]


def test_a_sweeper_survives_an_unavailable_storage(lake: Lake):
    """The loop itself."""
    calls: list[float] = []

    def look() -> int:
        calls.append(time.monotonic())
        if len(calls) < 3:
            raise StorageUnavailable
        return 0

    lake.control.loops.start(Loop("test", look, pause=0.01))
    wait_until(lambda: len(calls) >= 3, "the loop has gone on")


@pytest.mark.proves("X.10")
def test_a_file_whose_name_is_not_text_is_swept_like_any_other(lake: Lake):
    lake.deploy(REPLACING, max_attempts=1)
    load(lake, 1)
    load(lake, 2)
    task, other = tasks_of(lake, "clean")
    for swept in (task, other):
        lake.stage(swept, [(1, "a")])
        lake.complete(failed(swept, retry=False))
    (folder(lake, task) / os.fsdecode(b"part-\xff\xfe.parquet")).write_bytes(b"x")
    lake.move()
    assert sweep(lake) >= 2
    assert not folder(lake, task).exists() and not folder(lake, other).exists()


@pytest.mark.proves("X.10")
def test_an_attempt_that_cannot_be_swept_keeps_no_other_from_it(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    lake.deploy(REPLACING, max_attempts=1)
    load(lake, 1)
    load(lake, 2)
    task, other = tasks_of(lake, "clean")
    for swept in (task, other):
        lake.stage(swept, [(1, "a")])
        lake.complete(failed(swept, retry=False))
    lake.move()
    monkeypatch.setattr(sweeping, "BATCH", 1)
    real = folder(lake, task)
    real.rename(real.with_name("moved"))
    real.symlink_to(real.with_name("moved"))  # never followed: what lies behind it may be anybody's
    for _ in range(10):
        sweep(lake)
    assert not folder(lake, other).exists()
    assert [*real.with_name("moved").iterdir()]


def test_an_attempt_that_could_not_be_swept_is_tried_again_after_a_pause(lake: Lake):
    lake.deploy(REPLACING, max_attempts=1)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    lake.stage(task, [(1, "a")])
    lake.complete(failed(task, retry=False))
    lake.move()
    real = folder(lake, task)
    real.rename(real.with_name("moved"))
    real.symlink_to(real.with_name("moved"))
    sweep(lake)
    real.unlink()
    real.with_name("moved").rename(real)
    sweep(lake)
    assert real.exists(), "it is left alone for a while, also by another process"
    lake.query("UPDATE task_attempt SET sweep_not_before = now() WHERE sweep_not_before IS NOT NULL")
    sweep(lake)
    assert not real.exists()


def test_all_outputs_of_an_attempt_are_swept_together(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    """No operator has two outputs yet; the job is given a second one."""
    lake.deploy(REPLACING, max_attempts=1)
    [(job, generation)] = lake.query("SELECT job_key.id, generation.id FROM generation JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'clean'")
    dataset, table = UUID(int=7), UUID(int=8)
    with psycopg.connect(lake.database.superuser_url) as connection:
        connection.execute("ALTER TABLE job DISABLE TRIGGER ALL")  # facts cannot be changed otherwise
        connection.execute(
            "INSERT INTO dataset (id, org_id, job_key_id, output_index, layer, has_files) SELECT %s, org_id, %s, 1, 'silver', true FROM dag LIMIT 1", [dataset, job]
        )
        connection.execute("INSERT INTO dataset_revision (dataset_id, revision, domain, owner, description, active, actor) VALUES (%s, 1, 'd', 'o', 's', true, 'test')", [dataset])
        connection.execute("INSERT INTO dataset_version (id, dataset_id, generation_id) VALUES (%s, %s, %s)", [table, dataset, generation])
        connection.execute("UPDATE job SET spec = jsonb_set(spec, '{outputs,1}', spec->'outputs'->0) WHERE generation_id = %s", [generation])
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    lake.stage(task, [(1, "a")])
    second = lake.location_of("clean").parents[2] / str(dataset) / "version" / str(table) / f"{task.fence.task_id}-{task.fence.attempt}"
    second.mkdir(parents=True)
    (second / "part-0.parquet").write_bytes(b"x")
    lake.complete(failed(task, retry=False))
    lake.move()
    monkeypatch.setattr(sweeping, "BATCH", 1)
    while sweep(lake):
        pass
    assert not folder(lake, task).exists() and not second.exists()


def test_a_late_attempt_of_a_task_that_another_attempt_finished_is_swept_alone(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    [first] = tasks_of(lake, "clean")
    lake.stage(first, [(1, "late")])
    now = datetime.now(UTC) + timedelta(minutes=1)
    lake.services.tasks.reaper.run_once(now=now)
    lake.services.tasks.reaper.run_once(now=now + timedelta(minutes=10))
    [second] = tasks_of(lake, "clean")
    assert second.fence.attempt == 2
    assert lake.write(second, [(1, "good")]).result == "committing"
    lake.move()
    late = lake.write(first, [(1, "late")])
    assert (late.result, late.status) == (CompletionResult.STALE, 409)
    assert sweep(lake) >= 2
    assert not folder(lake, first).exists()
    assert lake.rows(lake.location_of("clean")) == [(1, "good")]
    assert lake.query("SELECT count(*) FROM data_file JOIN dataset_version AS v ON v.id = dataset_version_id WHERE v.generation_id = %s",
                      generation_of(lake, "clean")) == [(1,)]
