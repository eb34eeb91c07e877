"""Ordered jobs, limited jobs, pause and resume."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from support.controls import EMIT, NOOP, RANGES, ControlPlane, failed, succeeded

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import NotFound
from tracelake_sdk.tasks.events import EventDraft

LONG = timedelta(days=1)
LIMITED = NOOP + "    scaling: {{max_concurrency: 2}}\n"


def tell(control_plane: ControlPlane, *cursors: int, dag: str = "sample"):
    control_plane.run_source(dag)
    [source] = [task for task in control_plane.claim() if task.payload.job.name == "start"]
    control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors]))


def cursor_of(task) -> int:
    return task.payload.trigger.scope.value


@pytest.mark.proves("T9.1")
def test_an_ordered_job_gets_its_tasks_one_at_a_time_in_the_order_of_their_events(control_plane: ControlPlane):
    control_plane.deploy(RANGES)
    tell(control_plane, 3, 1, 2)
    seen = []
    while tasks := control_plane.claim(room=10):
        assert len(tasks) == 1
        assert control_plane.claim(room=10) == []
        seen.append(cursor_of(tasks[0]))
        control_plane.complete(succeeded(tasks[0], state={"n": len(seen)}))
    assert seen == [3, 1, 2]


@pytest.mark.proves("T9.1")
def test_a_failing_task_holds_the_later_ones_back_visibly(control_plane: ControlPlane):
    control_plane.deploy(RANGES)
    tell(control_plane, 1, 2, 3)
    now = datetime.now(UTC)
    [first] = control_plane.claim()
    control_plane.complete(failed(first), now=now)
    assert control_plane.claim() == []
    [status] = control_plane.services.tasks.views.status(control_plane.admin, "sample")
    [join] = [job for job in status.jobs if job.name == "join"]
    assert join.tasks.waiting == {"retry": 1, "turn": 2}
    control_plane.services.tasks.reaper.run_once(now=now + LONG)
    [again] = control_plane.claim()
    assert (cursor_of(again), again.fence.attempt) == (1, 2)


@pytest.mark.proves("T9.1")
def test_a_terminal_failure_pauses_an_ordered_job_until_it_is_resumed(control_plane: ControlPlane):
    control_plane.deploy(RANGES)
    tell(control_plane, 1, 2, 3)
    [first] = control_plane.claim()
    control_plane.complete(failed(first, retry=False, error_class="out_of_order"))
    assert control_plane.claim() == []
    tell(control_plane, 4)
    [status] = control_plane.services.tasks.views.status(control_plane.admin, "sample")
    [join] = [job for job in status.jobs if job.name == "join"]
    assert join.paused
    assert "out_of_order" in (join.pause_reason or "")
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", "join")
    seen = []
    while tasks := control_plane.claim():
        seen.append(cursor_of(tasks[0]))
        control_plane.complete(succeeded(tasks[0]))
    assert seen == [2, 3, 4]


def test_a_limited_job_never_has_more_tasks_running_than_it_may(control_plane: ControlPlane):
    control_plane.deploy(LIMITED)
    tell(control_plane, 1, 2, 3, 4, 5)
    running = control_plane.claim()
    assert [cursor_of(task) for task in running] == [1, 2]
    assert control_plane.claim() == []
    control_plane.complete(succeeded(running[1]))
    assert [cursor_of(task) for task in control_plane.claim()] == [3]
    control_plane.complete(failed(running[0], retry=False))
    assert [cursor_of(task) for task in control_plane.claim()] == [4]
    [status] = control_plane.services.tasks.views.status(control_plane.admin, "sample")
    assert not any(job.paused for job in status.jobs)


@pytest.mark.parametrize("job", [None, "end"])
def test_a_pause_holds_queued_and_new_tasks_and_a_resume_releases_them_in_order(control_plane: ControlPlane, job: str | None):
    control_plane.deploy()
    tell(control_plane, 1, 2)
    control_plane.services.tasks.pauses.pause(control_plane.admin, "sample", job)
    assert control_plane.claim() == []
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", job)
    control_plane.services.tasks.pauses.pause(control_plane.admin, "sample", "end")
    tell(control_plane, 3)
    assert control_plane.query("SELECT DISTINCT waits FROM task WHERE state = 'queued'") == [("paused",)]
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", "end")
    assert [cursor_of(task) for task in control_plane.claim()] == [1, 2, 3]


def test_a_job_that_is_paused_by_itself_stays_so_when_its_dag_is_resumed(control_plane: ControlPlane):
    control_plane.deploy()
    tell(control_plane, 1)
    control_plane.services.tasks.pauses.pause(control_plane.admin, "sample", "end")
    control_plane.services.tasks.pauses.pause(control_plane.admin, "sample", None)
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", None)
    assert control_plane.claim() == []
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", "end")
    assert len(control_plane.claim()) == 1


def test_running_tasks_continue_and_a_retry_waits_for_the_resume(control_plane: ControlPlane):
    control_plane.deploy()
    tell(control_plane, 1)
    [task] = control_plane.claim()
    control_plane.services.tasks.pauses.pause(control_plane.admin, "sample", None)
    now = datetime.now(UTC)
    control_plane.complete(failed(task), now=now)
    control_plane.services.tasks.reaper.run_once(now=now + LONG)
    assert control_plane.query("SELECT waits FROM task WHERE id = %s", task.fence.task_id) == [("paused",)]
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", None)
    assert [again.fence.attempt for again in control_plane.claim()] == [2]


def test_pausing_a_missing_job_is_not_found(control_plane: ControlPlane):
    control_plane.deploy()
    for dag, job in (("nothing", None), ("sample", "nothing")):
        with pytest.raises(NotFound):
            control_plane.services.tasks.pauses.pause(control_plane.admin, dag, job)


@pytest.mark.proves("T9.1")
def test_many_workers_at_once_still_get_an_ordered_job_one_by_one(control_plane: ControlPlane):
    control_plane.deploy(RANGES)
    tell(control_plane, *range(40))
    seen: list[int] = []
    overlap: list[int] = []
    busy = threading.Semaphore(1)

    def work() -> None:
        while len(seen) < 40:
            for task in control_plane.claim(wait_s=0):
                if not busy.acquire(blocking=False):
                    overlap.append(cursor_of(task))
                    return
                seen.append(cursor_of(task))
                busy.release()
                control_plane.complete(succeeded(task))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlap == []
    assert seen == list(range(40))


@pytest.mark.proves("T9.3")
def test_two_requests_of_a_source_with_a_cursor_are_emitted_in_the_order_in_which_they_arrived(control_plane: ControlPlane):
    control_plane.deploy(EMIT)
    first, second = control_plane.run_source(cursors=[1]), control_plane.run_source(cursors=[2])
    [task] = control_plane.claim()
    assert task.fence.task_id == first
    assert control_plane.claim() == []
    control_plane.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=1))]))
    assert second in [task.fence.task_id for task in control_plane.claim()]


@pytest.mark.proves("T3.9")
@pytest.mark.parametrize("how", ["reported", "timed out"])
def test_a_task_that_waits_for_its_retry_leaves_its_turn_to_others(control_plane: ControlPlane, how: str):
    control_plane.deploy(LIMITED)
    tell(control_plane, 1, 2, 3, 4, 5)
    first, second = control_plane.claim()
    if how == "reported":
        control_plane.complete(failed(first))
    else:
        control_plane.query("UPDATE task SET lease_expires_at = now() - interval '1 second' WHERE id = %s", first.fence.task_id)
        control_plane.services.tasks.reaper.run_once()
    [third] = control_plane.claim()
    assert cursor_of(third) == 3, "the turn is another's during the back-off"
    # When its time has come it waits for a turn like the others, and is the first of them.
    control_plane.query("UPDATE task SET due_at = now() WHERE id = %s", first.fence.task_id)
    assert control_plane.services.tasks.reaper.run_once() == 1
    assert control_plane.claim() == []
    control_plane.complete(succeeded(second))
    assert [cursor_of(task) for task in control_plane.claim()] == [1]
    control_plane.complete(succeeded(third))
    assert [cursor_of(task) for task in control_plane.claim()] == [4]
    assert control_plane.query("SELECT count(*) FROM task WHERE state = 'running'") == [(2,)]
