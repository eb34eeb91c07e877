"""Cancel, and what a canceled task still accepts."""

from datetime import UTC, datetime, timedelta

import pytest
from support.controls import RANGES, Desk, failed, succeeded

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import AlreadyFinal, Forbidden, NotFound
from tracelake_sdk.tasks import Completion, CompletionResult, HeartbeatRequest, Outcome, TaskState
from tracelake_sdk.tasks.events import EventDraft

LONG = timedelta(days=1)
pytestmark = pytest.mark.proves("T3.6")


def beat(desk: Desk, *tasks):
    return desk.services.tasks.heartbeats.beat(desk.worker, HeartbeatRequest(worker="w1", fences=[task.fence for task in tasks]))


def test_a_queued_task_is_canceled_at_once_and_never_claimed(desk: Desk):
    desk.deploy()
    task = desk.ask()
    assert desk.services.tasks.cancels.cancel(desk.admin, task) is TaskState.CANCELED
    assert desk.claim() == []
    assert desk.one("SELECT count(*) FROM run_history") == 0
    assert desk.fetch(task).status is TaskState.CANCELED


def test_a_running_task_hears_of_it_by_heartbeat_and_reports_it(desk: Desk):
    desk.deploy()
    desk.ask()
    [task] = desk.claim()
    assert desk.services.tasks.cancels.cancel(desk.admin, task.fence.task_id) is TaskState.RUNNING
    answer = beat(desk, task)
    assert answer.cancel == [task.fence.task_id]
    report = Completion(fence=task.fence, outcome=Outcome.CANCELED)
    [first], [again] = desk.complete(report), desk.complete(report)
    assert (first.result, first.status, first.task_state) == (CompletionResult.CANCELED, 200, TaskState.CANCELED)
    assert again == first
    assert desk.query("SELECT status, error_message FROM run_history") == [("FAILED", "Canceled on request.")]
    assert desk.query("SELECT outcome FROM task_attempt") == [("canceled",)]


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_whatever_is_reported_after_a_cancel_ends_as_canceled_and_changes_no_data(desk: Desk, outcome: str):
    desk.deploy()
    desk.ask()
    [task] = desk.claim()
    desk.services.tasks.cancels.cancel(desk.admin, task.fence.task_id)
    report = succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=1))]) if outcome == "succeeded" else failed(task)
    [answer] = desk.complete(report)
    assert (answer.result, answer.task_state) == (CompletionResult.CANCELED, TaskState.CANCELED)
    assert desk.one("SELECT count(*) FROM dataset_event") == 0


def test_the_end_of_the_lease_cancels_a_task_that_was_asked_to_stop(desk: Desk):
    desk.deploy()
    desk.ask()
    [task] = desk.claim()
    desk.services.tasks.cancels.cancel(desk.admin, task.fence.task_id)
    desk.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)
    assert desk.one("SELECT state FROM task") == "canceled"
    assert desk.one("SELECT count(*) FROM run_history") == 1
    [late] = desk.complete(succeeded(task))
    assert (late.status, late.code) == (409, "task_canceled")
    [report] = desk.complete(Completion(fence=task.fence, outcome=Outcome.CANCELED))
    assert report.status == 200
    assert desk.one("SELECT count(*) FROM run_history") == 1


def test_an_attempt_that_was_still_welcome_is_closed_by_a_cancel(desk: Desk):
    desk.deploy()
    desk.ask()
    [task] = desk.claim()
    desk.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)  # queued again, the attempt still open
    assert desk.services.tasks.cancels.cancel(desk.admin, task.fence.task_id) is TaskState.CANCELED
    assert desk.query("SELECT status FROM run_history") == [("FAILED",)]
    [late] = desk.complete(succeeded(task))
    assert (late.status, late.code) == (409, "task_canceled")
    for _ in range(2):
        [report] = desk.complete(Completion(fence=task.fence, outcome=Outcome.CANCELED))
        assert (report.result, report.status) == (CompletionResult.CANCELED, 200)
    assert beat(desk, task).cancel == [task.fence.task_id]
    assert desk.one("SELECT count(*) FROM run_history") == 1


def test_a_task_that_nobody_canceled_cannot_be_reported_as_canceled(desk: Desk):
    desk.deploy()
    desk.ask()
    [task] = desk.claim()
    [answer] = desk.complete(Completion(fence=task.fence, outcome=Outcome.CANCELED))
    assert (answer.result, answer.status, answer.code) == (CompletionResult.REFUSED, 409, "illegal_transition")
    assert desk.one("SELECT state FROM task") == "running"


def test_a_final_task_cannot_be_canceled_and_a_canceled_one_stays_canceled(desk: Desk):
    desk.deploy()
    desk.ask()
    [task] = desk.claim()
    desk.complete(succeeded(task))
    with pytest.raises(AlreadyFinal):
        desk.services.tasks.cancels.cancel(desk.admin, task.fence.task_id)
    other = desk.ask()
    assert [desk.services.tasks.cancels.cancel(desk.admin, other) for _ in range(2)] == [TaskState.CANCELED] * 2


def test_a_worker_may_not_cancel_and_an_unknown_task_is_not_found(desk: Desk):
    desk.deploy()
    task = desk.ask()
    with pytest.raises(Forbidden):
        desk.services.tasks.cancels.cancel(desk.worker, task)
    with pytest.raises(NotFound):
        desk.services.tasks.cancels.cancel(desk.admin, desk.admin.org_id)


def test_canceling_the_task_at_the_head_of_a_line_lets_the_next_one_go(desk: Desk):
    desk.deploy(RANGES)
    desk.ask()
    [source] = desk.claim()
    desk.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=v)) for v in (1, 2, 3)]))
    ids = [id for (id,) in desk.query("SELECT id FROM task WHERE ordinal IS NOT NULL ORDER BY ordinal")]
    desk.services.tasks.cancels.cancel(desk.admin, ids[0])
    assert [task.fence.task_id for task in desk.claim()] == [ids[1]]
