"""Cancel, and what a canceled task still accepts."""

from datetime import UTC, datetime, timedelta

import pytest
from support.controls import RANGES, ControlPlane, failed, succeeded

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import AlreadyFinal, Forbidden, NotFound
from tracelake_sdk.tasks import Completion, CompletionResult, HeartbeatRequest, Outcome, TaskState
from tracelake_sdk.tasks.events import EventDraft

LONG = timedelta(days=1)
pytestmark = pytest.mark.proves("T3.6")


def beat(control_plane: ControlPlane, *tasks):
    return control_plane.services.tasks.heartbeats.beat(control_plane.worker, HeartbeatRequest(worker="w1", fences=[task.fence for task in tasks]))


def test_a_queued_task_is_canceled_at_once_and_never_claimed(control_plane: ControlPlane):
    control_plane.deploy()
    task = control_plane.run_source()
    assert control_plane.services.tasks.cancels.cancel(control_plane.admin, task) is TaskState.CANCELED
    assert control_plane.claim() == []
    assert control_plane.one("SELECT count(*) FROM run_history") == 0
    assert control_plane.fetch(task).status is TaskState.CANCELED


def test_a_running_task_hears_of_it_by_heartbeat_and_reports_it(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    [task] = control_plane.claim()
    assert control_plane.services.tasks.cancels.cancel(control_plane.admin, task.fence.task_id) is TaskState.RUNNING
    answer = beat(control_plane, task)
    assert answer.cancel == [task.fence.task_id]
    report = Completion(fence=task.fence, outcome=Outcome.CANCELED)
    [first], [again] = control_plane.complete(report), control_plane.complete(report)
    assert (first.result, first.status, first.task_state) == (CompletionResult.CANCELED, 200, TaskState.CANCELED)
    assert again == first
    assert control_plane.query("SELECT status, error_message FROM run_history") == [("FAILED", "Canceled on request.")]
    assert control_plane.query("SELECT outcome FROM task_attempt") == [("canceled",)]


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_whatever_is_reported_after_a_cancel_ends_as_canceled_and_changes_no_data(control_plane: ControlPlane, outcome: str):
    control_plane.deploy()
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.services.tasks.cancels.cancel(control_plane.admin, task.fence.task_id)
    report = succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=1))]) if outcome == "succeeded" else failed(task)
    [answer] = control_plane.complete(report)
    assert (answer.result, answer.task_state) == (CompletionResult.CANCELED, TaskState.CANCELED)
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 0


def test_the_end_of_the_lease_cancels_a_task_with_a_cancel_request(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.services.tasks.cancels.cancel(control_plane.admin, task.fence.task_id)
    control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)
    assert control_plane.one("SELECT state FROM task") == "canceled"
    assert control_plane.one("SELECT count(*) FROM run_history") == 1
    [late] = control_plane.complete(succeeded(task))
    assert (late.status, late.code) == (409, "task_canceled")
    [report] = control_plane.complete(Completion(fence=task.fence, outcome=Outcome.CANCELED))
    assert report.status == 200
    assert control_plane.one("SELECT count(*) FROM run_history") == 1


def test_an_attempt_that_was_still_welcome_is_closed_by_a_cancel(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)  # queued again, the attempt still open
    assert control_plane.services.tasks.cancels.cancel(control_plane.admin, task.fence.task_id) is TaskState.CANCELED
    assert control_plane.query("SELECT status FROM run_history") == [("FAILED",)]
    [late] = control_plane.complete(succeeded(task))
    assert (late.status, late.code) == (409, "task_canceled")
    for _ in range(2):
        [report] = control_plane.complete(Completion(fence=task.fence, outcome=Outcome.CANCELED))
        assert (report.result, report.status) == (CompletionResult.CANCELED, 200)
    assert beat(control_plane, task).cancel == [task.fence.task_id]
    assert control_plane.one("SELECT count(*) FROM run_history") == 1


def test_a_task_without_a_cancel_request_cannot_be_reported_as_canceled(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    [task] = control_plane.claim()
    [answer] = control_plane.complete(Completion(fence=task.fence, outcome=Outcome.CANCELED))
    assert (answer.result, answer.status, answer.code) == (CompletionResult.REFUSED, 409, "illegal_transition")
    assert control_plane.one("SELECT state FROM task") == "running"


def test_a_final_task_cannot_be_canceled_and_a_canceled_one_stays_canceled(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.complete(succeeded(task))
    with pytest.raises(AlreadyFinal):
        control_plane.services.tasks.cancels.cancel(control_plane.admin, task.fence.task_id)
    other = control_plane.run_source()
    assert [control_plane.services.tasks.cancels.cancel(control_plane.admin, other) for _ in range(2)] == [TaskState.CANCELED] * 2


def test_a_worker_may_not_cancel_and_an_unknown_task_is_not_found(control_plane: ControlPlane):
    control_plane.deploy()
    task = control_plane.run_source()
    with pytest.raises(Forbidden):
        control_plane.services.tasks.cancels.cancel(control_plane.worker, task)
    with pytest.raises(NotFound):
        control_plane.services.tasks.cancels.cancel(control_plane.admin, control_plane.admin.org_id)


def test_canceling_the_task_at_the_head_of_a_line_lets_the_next_one_go(control_plane: ControlPlane):
    control_plane.deploy(RANGES)
    control_plane.run_source()
    [source] = control_plane.claim()
    control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=v)) for v in (1, 2, 3)]))
    ids = [id for (id,) in control_plane.query("SELECT id FROM task WHERE ordinal IS NOT NULL ORDER BY ordinal")]
    control_plane.services.tasks.cancels.cancel(control_plane.admin, ids[0])
    assert [task.fence.task_id for task in control_plane.claim()] == [ids[1]]
