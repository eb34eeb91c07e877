"""Completions: fences, duplicates, late reports, events."""

from datetime import UTC, datetime, timedelta

import pytest
from support.controls import RANGES, ControlPlane, failed, succeeded

from tracelake_sdk.datasets.scopes import CursorScope, RangeScope
from tracelake_sdk.tasks import ClaimedTask, Completion, CompletionResult, Outcome, TaskState
from tracelake_sdk.tasks.events import EventDraft, EventKind

LONG = timedelta(days=1)


def drafts(*cursors: int) -> list[EventDraft]:
    return [EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors]


def one_running(control_plane: ControlPlane, **deploy) -> ClaimedTask:
    control_plane.deploy(**deploy)
    control_plane.run_source()
    [task] = control_plane.claim()
    return task


def state_of(control_plane: ControlPlane, task: ClaimedTask) -> str:
    return control_plane.one("SELECT state FROM task WHERE id = %s", task.fence.task_id)


@pytest.mark.proves("T2.6")
def test_a_duplicate_completion_answers_what_was_recorded_and_changes_nothing(control_plane: ControlPlane):
    task = one_running(control_plane)
    [first] = control_plane.complete(succeeded(task, events=drafts(1, 2)))
    before = control_plane.query("SELECT * FROM task ORDER BY id"), control_plane.query("SELECT * FROM dataset_event ORDER BY id")
    [again] = control_plane.complete(succeeded(task, events=drafts(1, 2)))
    assert again == first
    assert again.status == 200
    assert len(again.event_ids) == 2
    assert before == (control_plane.query("SELECT * FROM task ORDER BY id"), control_plane.query("SELECT * FROM dataset_event ORDER BY id"))


@pytest.mark.proves("T2.6")
def test_another_body_for_a_completed_attempt_is_a_conflict(control_plane: ControlPlane):
    task = one_running(control_plane)
    control_plane.complete(succeeded(task, events=drafts(1)))
    [other] = control_plane.complete(succeeded(task, events=drafts(2)))
    assert (other.result, other.status, other.code) == (CompletionResult.CONFLICT, 409, "completion_conflict")
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 1


@pytest.mark.proves("T2.6")
def test_duplicates_and_conflicts_are_distinguished_also_after_a_later_attempt_started(control_plane: ControlPlane):
    task = one_running(control_plane)
    [first] = control_plane.complete(failed(task))
    control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)
    [second] = control_plane.claim()
    assert (second.fence.task_id, second.fence.attempt) == (task.fence.task_id, 2)
    assert control_plane.complete(failed(task)) == [first]
    [other] = control_plane.complete(failed(task, error_class="else"))
    assert (other.status, other.code) == (409, "completion_conflict")
    assert state_of(control_plane, task) == "running"


@pytest.mark.proves("T3.4")
def test_a_stale_attempt_gets_409_and_leaves_no_trace(control_plane: ControlPlane):
    task = one_running(control_plane)
    now = datetime.now(UTC)
    control_plane.services.tasks.reaper.run_once(now=now + LONG)
    control_plane.services.tasks.reaper.run_once(now=now + 2 * LONG)
    [second] = control_plane.claim(now=now + 2 * LONG)
    before = control_plane.query("SELECT * FROM task_attempt ORDER BY attempt")
    [stale] = control_plane.complete(succeeded(task, events=drafts(1)))
    assert (stale.result, stale.status, stale.code) == (CompletionResult.STALE, 409, "stale_attempt")
    assert control_plane.query("SELECT * FROM task_attempt ORDER BY attempt") == before
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 0
    [taken] = control_plane.complete(succeeded(second, events=drafts(1)))
    assert taken.result is CompletionResult.DONE


@pytest.mark.proves("T3.4")
def test_a_fence_that_was_never_given_out_is_stale(control_plane: ControlPlane):
    task = one_running(control_plane)
    forged = Completion(fence=task.fence.model_copy(update={"lease_token": "x" * 43}), outcome=Outcome.SUCCEEDED)
    [answer] = control_plane.complete(forged)
    assert answer.code == "stale_attempt"
    assert state_of(control_plane, task) == "running"


@pytest.mark.proves("T3.4")
def test_a_late_completion_of_the_current_attempt_is_welcome(control_plane: ControlPlane):
    task = one_running(control_plane)
    control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)
    assert state_of(control_plane, task) == "queued"
    [answer] = control_plane.complete(succeeded(task, events=drafts(1)))
    assert (answer.result, answer.task_state) == (CompletionResult.DONE, TaskState.COMPLETED)
    assert control_plane.query("SELECT status FROM run_history WHERE task_id = %s", task.fence.task_id) == [("SUCCESS",)]


@pytest.mark.proves("T3.4")
def test_the_last_attempt_stays_open_for_one_further_lease_and_is_then_final(control_plane: ControlPlane):
    task = one_running(control_plane, max_attempts=1)
    late = datetime.now(UTC) + LONG
    control_plane.services.tasks.reaper.run_once(now=late)
    assert state_of(control_plane, task) == "running"
    assert control_plane.one("SELECT count(*) FROM run_history") == 0
    control_plane.services.tasks.reaper.run_once(now=late + timedelta(seconds=1))
    assert state_of(control_plane, task) == "running"
    control_plane.services.tasks.reaper.run_once(now=late + LONG)
    assert state_of(control_plane, task) == "failed"
    assert control_plane.query("SELECT status, error_message FROM run_history") == [("FAILED", "The lease expired without a report.")]
    [answer] = control_plane.complete(succeeded(task))
    assert (answer.status, answer.code) == (409, "attempt_final")


@pytest.mark.proves("T3.4")
def test_within_the_further_lease_the_last_attempt_may_still_report(control_plane: ControlPlane):
    task = one_running(control_plane, max_attempts=1)
    control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)
    [answer] = control_plane.complete(succeeded(task))
    assert answer.task_state is TaskState.COMPLETED


@pytest.mark.proves("T3.5")
def test_failures_are_retried_until_max_attempts_and_each_attempt_keeps_its_row(control_plane: ControlPlane):
    control_plane.deploy(max_attempts=3)
    control_plane.run_source()
    now = datetime.now(UTC)
    for attempt in (1, 2, 3):
        [task] = control_plane.claim(now=now, worker=f"w{attempt}")
        assert task.fence.attempt == attempt
        [answer] = control_plane.complete(failed(task, error_class=f"broken_{attempt}"), now=now)
        now += LONG
        control_plane.services.tasks.reaper.run_once(now=now)
    assert answer.task_state is TaskState.FAILED
    rows = control_plane.query("SELECT attempt, worker, outcome, error_class, ended_at IS NOT NULL FROM task_attempt ORDER BY attempt")
    assert rows == [(n, f"w{n}", "failed", f"broken_{n}", True) for n in (1, 2, 3)]
    assert control_plane.one("SELECT count(*) FROM run_history WHERE status = 'FAILED'") == 3
    assert control_plane.claim(now=now) == []


@pytest.mark.proves("T3.5")
def test_a_failure_that_cannot_be_retried_is_final_at_once(control_plane: ControlPlane):
    task = one_running(control_plane)
    [answer] = control_plane.complete(failed(task, retry=False))
    assert answer.task_state is TaskState.FAILED


@pytest.mark.proves("T3.5")
def test_a_timeout_and_its_late_failure_count_once(control_plane: ControlPlane):
    task = one_running(control_plane, max_attempts=3)
    control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)
    assert control_plane.one("SELECT failures FROM task") == 1
    control_plane.complete(failed(task))
    assert control_plane.one("SELECT failures FROM task") == 1
    assert control_plane.one("SELECT count(*) FROM run_history") == 1


@pytest.mark.proves("T2.4")
def test_a_wrong_event_refuses_the_report_and_nothing_of_it_is_taken(control_plane: ControlPlane):
    task = one_running(control_plane)
    wrong = [EventDraft(output=7, scope=CursorScope(value=1))]
    [answer] = control_plane.complete(succeeded(task, events=[*drafts(1), *wrong]))
    assert (answer.result, answer.status, answer.code) == (CompletionResult.REFUSED, 422, "event_invalid")
    assert state_of(control_plane, task) == "running"
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 0
    [answer] = control_plane.complete(succeeded(task, events=drafts(1)))
    assert answer.result is CompletionResult.DONE


@pytest.mark.proves("T2.4")
def test_one_event_with_two_contents_is_refused_and_a_repeated_one_counts_once(control_plane: ControlPlane):
    task = one_running(control_plane)
    changed = EventDraft(output=0, scope=CursorScope(value=1), payload={"other": True})
    [answer] = control_plane.complete(succeeded(task, events=[*drafts(1), changed]))
    assert (answer.status, answer.code) == (409, "event_conflict")
    [answer] = control_plane.complete(succeeded(task, events=drafts(1, 1)))
    assert len(answer.event_ids) == 1


@pytest.mark.proves("T2.4")
def test_a_rewrite_is_a_separate_event_and_names_its_cause(control_plane: ControlPlane):
    task = one_running(control_plane)
    rewrite = EventDraft(output=0, scope=CursorScope(value=1), kind=EventKind.REWRITTEN, revision="r1")
    [answer] = control_plane.complete(succeeded(task, events=[*drafts(1), rewrite]))
    assert len(answer.event_ids) == 2
    assert control_plane.one("SELECT count(*) FROM task WHERE trigger_kind = 'event'") == 2


def test_a_rewrite_without_a_revision_is_refused(control_plane: ControlPlane):
    task = one_running(control_plane)
    [answer] = control_plane.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=1), kind=EventKind.REWRITTEN)]))
    assert answer.code == "event_invalid"


@pytest.mark.proves("T3.2")
def test_each_item_of_a_batch_has_its_own_result(control_plane: ControlPlane):
    control_plane.deploy()
    for _ in range(4):
        control_plane.run_source()
    tasks = control_plane.claim()
    forged = Completion(fence=tasks[1].fence.model_copy(update={"lease_token": "x" * 43}), outcome=Outcome.SUCCEEDED)
    answers = control_plane.complete(succeeded(tasks[0]), forged, failed(tasks[2]), succeeded(tasks[3]), succeeded(tasks[0]))
    assert [a.result.value for a in answers] == ["done", "stale", "done", "done", "done"]
    assert answers[4] == answers[0]
    assert [state_of(control_plane, task) for task in tasks] == ["completed", "running", "queued", "completed"]


@pytest.mark.proves("G1.6")
def test_a_task_given_back_is_claimable_at_once_and_has_not_failed(control_plane: ControlPlane):
    task = one_running(control_plane)
    [answer] = control_plane.complete(Completion(fence=task.fence, outcome=Outcome.GIVEN_BACK))
    assert answer.task_state is TaskState.QUEUED
    [again] = control_plane.claim()
    assert again.fence.attempt == 2
    assert control_plane.one("SELECT failures FROM task") == 0


def test_operator_state_moves_by_compare_and_swap(control_plane: ControlPlane):
    control_plane.deploy(RANGES)
    control_plane.run_source()
    [source] = control_plane.claim()
    control_plane.complete(succeeded(source, events=drafts(5)))
    [join] = control_plane.claim()
    assert join.payload.state is not None
    assert (join.payload.state.revision, join.payload.state.value) == (0, None)
    # Somebody else moves the state under the attempt: it is superseded, and nothing of it is taken.
    control_plane.query("INSERT INTO operator_state SELECT generation_id, 7, '{\"last\": 1}' FROM task WHERE id = %s", join.fence.task_id)
    ranged = [EventDraft(output=0, scope=RangeScope(start=0, end=10))]
    [answer] = control_plane.complete(succeeded(join, state={"last": 5}, events=ranged))
    assert (answer.result, answer.task_state) == (CompletionResult.SUPERSEDED, TaskState.QUEUED)
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 1
    [again] = control_plane.claim()
    assert again.payload.state is not None
    assert (again.payload.state.revision, again.fence.attempt) == (7, 2)
    [answer] = control_plane.complete(succeeded(again, state={"last": 5}))
    assert answer.result is CompletionResult.DONE
    assert control_plane.query("SELECT revision, value FROM operator_state") == [(8, {"last": 5})]
    assert control_plane.one("SELECT failures FROM task WHERE id = %s", join.fence.task_id) == 0


@pytest.mark.proves("G1.6")
def test_every_attempt_has_exactly_one_run_row(control_plane: ControlPlane):
    control_plane.deploy(max_attempts=5)
    control_plane.run_source()
    now = datetime.now(UTC)
    for ending in ("timeout", "failed", "given_back", "done"):
        now += LONG
        control_plane.services.tasks.reaper.run_once(now=now)
        [task] = control_plane.claim(now=now)
        now += LONG
        if ending == "timeout":
            control_plane.services.tasks.reaper.run_once(now=now)
        elif ending == "failed":
            control_plane.complete(failed(task), now=now)
        elif ending == "given_back":
            control_plane.complete(Completion(fence=task.fence, outcome=Outcome.GIVEN_BACK), now=now)
        else:
            control_plane.complete(succeeded(task, events=drafts(1)), now=now)
    rows = control_plane.query("SELECT run_id, status FROM run_history ORDER BY attempt")
    assert rows == [(f"{task.fence.task_id}:{n}", status) for n, status in ((1, "FAILED"), (2, "FAILED"), (3, "FAILED"), (4, "SUCCESS"))]


def test_notes_of_an_attempt_are_stored_with_it(control_plane: ControlPlane):
    task = one_running(control_plane)
    control_plane.complete(succeeded(task).model_copy(update={"summary": ["Left out 2 rows."]}))
    shown = control_plane.services.tasks.views.task(control_plane.admin, task.fence.task_id)
    assert [attempt.summary for attempt in shown.attempts] == [["Left out 2 rows."]]
