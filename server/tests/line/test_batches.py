"""Batches: what a running task has finished is stored once, becomes a small task of its own, and is decided before its producer."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from support.controls import failed
from support.lakes import BRONZE, Lake
from support.lines import REPLACING, load, tasks_of, versions_of

from tracelake_sdk.datasets.measurements import StagedFile
from tracelake_sdk.tasks import Batch, BatchAnswer, ClaimedTask, CompletionResult, TaskState, TriggerKind


def post(lake: Lake, task: ClaimedTask, files: Sequence[str], *, name: str = "one", **parts: Any) -> BatchAnswer:
    [answer] = lake.services.tasks.posting.post(lake.worker, [Batch(fence=task.fence, name=name, output=0, files=list(files), **parts)])
    return answer


def posted(lake: Lake, task: ClaimedTask, rows: Sequence[tuple[Any, ...]], *, name: str = "one", **parts: Any) -> tuple[UUID, StagedFile]:
    file = lake.stage(task, rows, name=name)
    answer = post(lake, task, [file.path], name=name, **parts)
    assert answer.status == 200 and answer.id is not None
    return answer.id, file


@pytest.fixture
def producer(lake: Lake) -> ClaimedTask:
    lake.deploy(BRONZE)
    lake.run()
    return lake.take_one()


@pytest.mark.proves("T2.2")
def test_a_batch_becomes_visible_while_its_producer_runs(lake: Lake, producer: ClaimedTask):
    id, file = posted(lake, producer, [(1, "a")], state={"at": 1})
    [adopt] = lake.take()
    assert adopt.payload.trigger.kind is TriggerKind.BATCH
    assert adopt.payload.batch is not None
    assert (adopt.payload.batch.id, adopt.payload.batch.name, adopt.payload.batch.files) == (id, "one", [file.path])
    assert lake.report(adopt, lake.measured([file])).result == "committing"
    assert lake.move() == 1
    assert lake.rows(lake.location()) == [(1, "a")]
    assert lake.query("SELECT producer_task_id FROM dataset_event") == [(adopt.fence.task_id,)]
    assert lake.one("SELECT state::text FROM task WHERE id = %s", producer.fence.task_id) == "running"
    # The state moves with the producer, behind all of its batches.
    assert lake.query("SELECT count(*) FROM operator_state") == [(0,)]
    assert lake.write(producer, [(2, "a")], state={"at": 2}, posted=[id]).result == "committing"
    assert lake.query("SELECT value FROM operator_state") == [({"at": 2},)]
    lake.move()
    assert versions_of(lake, "load") == [1, 2]
    assert lake.query("SELECT count(*) FROM promotion_status WHERE allowed") == [(2,)]


@pytest.mark.proves("T2.2")
def test_a_batch_that_is_posted_twice_is_stored_once(lake: Lake, producer: ClaimedTask):
    id, file = posted(lake, producer, [(1, "a")])
    assert post(lake, producer, [file.path]).id == id
    other = lake.stage(producer, [(9, "a")], name="other")
    conflict = post(lake, producer, [other.path])
    assert (conflict.status, conflict.code, conflict.id) == (409, "batch_conflict", None)
    assert lake.query("SELECT count(*) FROM batch") == [(1,)]
    assert lake.query("SELECT count(*) FROM task WHERE trigger_kind = 'batch'") == [(1,)]
    assert len(lake.take()) == 1


@pytest.mark.proves("T3.4")
def test_only_the_current_attempt_posts_batches(lake: Lake, producer: ClaimedTask):
    id, file = posted(lake, producer, [(1, "a")], state={"at": 1})
    lake.complete(failed(producer))
    late = lake.stage(producer, [(2, "a")], name="late")
    assert (post(lake, producer, [late.path], name="late").status, post(lake, producer, [late.path], name="late").code) == (409, "stale_attempt")
    forged = producer.model_copy(update={"fence": producer.fence.model_copy(update={"lease_token": "x" * 43})})
    assert post(lake, forged, [file.path]).code == "stale_attempt"
    assert lake.query("SELECT count(*) FROM batch") == [(1,)]
    # The next attempt gets the posted batches, continues after them, and may name them again.

    lake.services.tasks.reaper.run_once(now=datetime.now(UTC) + timedelta(hours=1))
    again = next(task for task in lake.take() if task.payload.batch is None)
    assert (again.fence.attempt, again.payload.posted) == (2, ["one"])
    assert again.payload.state is not None and again.payload.state.value == {"at": 1}
    made_again = lake.stage(again, [(1, "a")], name="one")
    assert post(lake, again, [made_again.path]).id == id
    outside = post(lake, again, [file.path], name="two")
    assert (outside.status, outside.code) == (422, "invalid")


@pytest.mark.proves("T2.3")
def test_a_report_lists_exactly_the_batches_that_were_posted(lake: Lake, producer: ClaimedTask):
    id, _ = posted(lake, producer, [(1, "a")])
    unknown = UUID(int=5)
    for listed in ([], [unknown], [id, unknown]):
        answer = lake.write(producer, [(2, "a")], posted=listed)
        assert (answer.result, answer.status, answer.code) == (CompletionResult.REFUSED, 409, "batches_differ")
        assert answer.posted == [id]
        assert answer.detail is not None and all(str(wrong) in answer.detail for wrong in {id, unknown} ^ ({id} & set(listed)) ^ ({unknown} - set(listed)))
    assert lake.query("SELECT count(*) FROM promotion_status") == [(0,)]


@pytest.mark.proves("T2.2")
def test_a_producer_is_decided_after_its_batches(lake: Lake, producer: ClaimedTask):
    first, one = posted(lake, producer, [(1, "a")])
    second, two = posted(lake, producer, [(2, "a")], name="two")
    report = lake.measured([lake.stage(producer, [(3, "a")], name="rest")])
    ids = [first, second]
    assert lake.report(producer, report, posted=ids, state={"at": 3}).result is CompletionResult.WAIT
    adopts = {task.payload.batch.name: task for task in lake.take() if task.payload.batch}
    assert lake.report(adopts["one"], lake.measured([one])).result == "committing"
    assert lake.report(producer, report, posted=ids, state={"at": 3}).result is CompletionResult.WAIT
    assert lake.query("SELECT count(*) FROM operator_state") == [(0,)]
    assert lake.report(adopts["two"], lake.measured([two])).result == "committing"
    assert lake.report(producer, report, posted=ids, state={"at": 3}).result == "committing"
    assert lake.move() == 3
    assert lake.query("SELECT task_id FROM change ORDER BY place") == [(adopts["one"].fence.task_id,), (adopts["two"].fence.task_id,), (producer.fence.task_id,)]


@pytest.mark.proves("T2.2")
def test_a_refused_batch_blocks_its_producer_and_the_state_stays(lake: Lake, producer: ClaimedTask):
    id, file = posted(lake, producer, [(1, "a")])
    [adopt] = lake.take()
    assert lake.report(adopt, lake.measured([file], outside_scope=1)).result is CompletionResult.BLOCKED
    answer = lake.write(producer, [(2, "a")], posted=[id], state={"at": 2})
    assert (answer.result, answer.task_state) == (CompletionResult.BLOCKED, TaskState.FAILED)
    assert answer.detail == f"Blocked: the batch 'one' that it posted (task {adopt.fence.task_id}) is blocked: 1 of 1 row is outside the declared scope."
    assert lake.query("SELECT count(*) FROM operator_state") == [(0,)]
    assert lake.move() == 0
    assert lake.query("SELECT status::text FROM run_history ORDER BY seq") == [("BLOCKED",), ("BLOCKED",)]
    assert lake.query("SELECT paused_at IS NOT NULL FROM job_key") == [(True,)]


def test_a_producer_whose_rows_are_all_in_its_batches_ends_unchanged_and_its_state_moves(lake: Lake, producer: ClaimedTask):
    id, file = posted(lake, producer, [(1, "a")])
    [adopt] = lake.take()
    lake.report(adopt, lake.measured([file]))
    answer = lake.report(producer, lake.measured([]), posted=[id], state={"at": 9})
    assert (answer.result, answer.task_state) == (CompletionResult.UNCHANGED, TaskState.COMPLETED)
    assert lake.query("SELECT value FROM operator_state") == [({"at": 9},)]
    assert lake.move() == 1
    assert versions_of(lake, "load") == [1]


@pytest.mark.proves("T2.2")
def test_a_task_that_adopts_names_exactly_the_files_of_its_batch(lake: Lake, producer: ClaimedTask):
    id, file = posted(lake, producer, [(1, "a")])
    beside = lake.stage(producer, [(2, "a")], name="beside")
    [adopt] = lake.take()
    answer = lake.report(adopt, lake.measured([file, beside]))
    assert (answer.result, answer.code) == (CompletionResult.REFUSED, "invalid")
    # A file that was written again without what was there already lies beside the first one, and its keys beside it.
    again = lake.stage(producer, [(1, "a")], name="one-u0123456789abcdef")
    keyed = again.model_copy(update={"hashes": f"{again.path}.keys"})
    rewritten = lake.stage(adopt, [(3, "a")])
    assert lake.report(adopt, lake.measured([keyed, rewritten])).result == "committing"
    lake.move()
    assert [row[0] for row in lake.rows(lake.location())] == [1, 3]
    # And its producer does not name them a second time.
    twice = lake.report(producer, lake.measured([file]), posted=[id])
    assert (twice.result, twice.code) == (CompletionResult.REFUSED, "invalid")


@pytest.mark.parametrize(
    "path", ["{other}/full/part.parquet", "{mine}/../x.parquet", "/etc/passwd", "{mine}/full/*.parquet", "{mine}x/full/part.parquet"]
)
def test_a_batch_names_files_of_its_own_attempt_only(lake: Lake, producer: ClaimedTask, path: str):
    spelled = path.format(other=f"{UUID(int=1)}-1", mine=f"{producer.fence.task_id}-1")
    answer = post(lake, producer, [spelled])
    assert (answer.status, answer.code) == (422, "invalid")
    assert lake.query("SELECT count(*) FROM batch") == [(0,)]


def test_what_replaces_posts_no_batches(lake: Lake):
    lake.deploy(REPLACING)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    file = lake.stage(task, [(1, "a")])
    assert post(lake, task, [file.path]).code == "invalid"


def test_a_wrong_batch_harms_no_other_of_its_call(lake: Lake, producer: ClaimedTask):
    good = lake.stage(producer, [(1, "a")])
    answers = lake.services.tasks.posting.post(
        lake.worker,
        [
            Batch(fence=producer.fence, name="bad", output=3, files=[good.path]),
            Batch(fence=producer.fence, name="good", output=0, files=[good.path]),
            Batch(fence=producer.fence.model_copy(update={"task_id": UUID(int=9)}), name="no-task", output=0, files=[good.path]),
        ],
    )
    assert [answer.status for answer in answers] == [422, 200, 409]
    assert lake.query("SELECT name FROM batch") == [("good",)]


def test_a_canceled_task_posts_nothing_more(lake: Lake, producer: ClaimedTask):
    lake.services.tasks.cancels.cancel(lake.admin, producer.fence.task_id)
    file = lake.stage(producer, [(1, "a")])
    assert post(lake, producer, [file.path]).code == "task_canceled"


@pytest.mark.proves("G2.6")
@pytest.mark.parametrize("how", ["blocked", "failed"])
def test_a_run_that_is_blocked_by_its_batch_has_a_decision_that_names_it(lake: Lake, producer: ClaimedTask, how: str):
    id, file = posted(lake, producer, [(1, "a")])
    [adopt] = lake.take()
    if how == "blocked":
        assert lake.report(adopt, lake.measured([file], null_keys=1)).result is CompletionResult.BLOCKED
    else:
        lake.complete(failed(adopt, retry=False))
    answer = lake.write(producer, [(2, "a")], posted=[id])
    assert answer.result is CompletionResult.BLOCKED
    [(run, allowed, stage, reason, evidence)] = lake.query(
        "SELECT run_id, allowed, stage::text, reason, evidence FROM promotion_status WHERE task_id = %s", producer.fence.task_id
    )
    assert (run, allowed, stage, reason) == (f"{producer.fence.task_id}:1", False, "execution", answer.detail)
    batch = adopt.fence.task_id
    found = lake.query("SELECT id::text FROM promotion_status WHERE task_id = %s", batch)
    assert evidence["batches"] == [{"name": "one", "task": str(batch), "run": f"{batch}:1", "promotion": found[0][0] if found else None}]
    assert reason.startswith(f"Blocked: the batch 'one' that it posted (task {batch}) is {how}: ")
    assert lake.query("SELECT run.status::text FROM run_history AS run JOIN promotion_status USING (run_id) WHERE run.task_id = %s", producer.fence.task_id) == [("BLOCKED",)]


@pytest.mark.proves("T2.2")
def test_a_pause_strands_no_batch_of_a_running_task(lake: Lake, producer: ClaimedTask):
    first, one = posted(lake, producer, [(1, "a")])
    lake.services.tasks.pauses.pause(lake.admin, "sample", None)
    second, two = posted(lake, producer, [(2, "a")], name="two")
    adopts = {task.payload.batch.name: task for task in lake.take() if task.payload.batch}
    lake.complete(failed(adopts["one"]))
    lake.services.tasks.reaper.run_once(now=datetime.now(UTC) + timedelta(hours=1))
    [again] = lake.take()
    assert again.payload.batch is not None and again.payload.batch.name == "one", "its retry is not held either"
    assert lake.report(again, lake.measured([one])).result == "committing"
    assert lake.report(adopts["two"], lake.measured([two])).result == "committing"
    assert lake.write(producer, [(3, "a")], posted=[first, second]).result == "committing"
    lake.run()
    assert lake.take() == [], "what is new is held"


@pytest.mark.proves("T2.2")
def test_a_line_that_is_reserved_for_another_task_lets_batches_of_a_running_one_pass(lake: Lake, producer: ClaimedTask):
    lake.query("UPDATE line SET reserved_task_id = gen_random_uuid()")
    posted(lake, producer, [(1, "a")])
    assert len(lake.take()) == 1
