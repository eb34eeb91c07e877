"""Ordered jobs, limited jobs, pause and resume."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from support.controls import EMIT, NOOP, RANGES, Desk, failed, succeeded

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import NotFound
from tracelake_sdk.tasks.events import EventDraft

LONG = timedelta(days=1)
LIMITED = NOOP + "    scaling: {{max_concurrency: 2}}\n"


def tell(desk: Desk, *cursors: int, dag: str = "sample"):
    desk.ask(dag)
    [source] = [task for task in desk.claim() if task.payload.job.name == "start"]
    desk.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors]))


def cursor_of(task) -> int:
    return task.payload.trigger.scope.value


@pytest.mark.proves("T9.1")
def test_an_ordered_job_gets_its_tasks_one_at_a_time_in_the_order_of_their_events(desk: Desk):
    desk.deploy(RANGES)
    tell(desk, 3, 1, 2)
    seen = []
    while tasks := desk.claim(room=10):
        assert len(tasks) == 1
        assert desk.claim(room=10) == []
        seen.append(cursor_of(tasks[0]))
        desk.complete(succeeded(tasks[0], state={"n": len(seen)}))
    assert seen == [3, 1, 2]


@pytest.mark.proves("T9.1")
def test_a_failing_task_holds_the_later_ones_back_visibly(desk: Desk):
    desk.deploy(RANGES)
    tell(desk, 1, 2, 3)
    now = datetime.now(UTC)
    [first] = desk.claim()
    desk.complete(failed(first), now=now)
    assert desk.claim() == []
    [status] = desk.services.tasks.views.status(desk.admin, "sample")
    [join] = [job for job in status.jobs if job.name == "join"]
    assert join.tasks.waiting == {"retry": 1, "turn": 2}
    desk.services.tasks.reaper.run_once(now=now + LONG)
    [again] = desk.claim()
    assert (cursor_of(again), again.fence.attempt) == (1, 2)


@pytest.mark.proves("T9.1")
def test_a_terminal_failure_pauses_an_ordered_job_until_it_is_resumed(desk: Desk):
    desk.deploy(RANGES)
    tell(desk, 1, 2, 3)
    [first] = desk.claim()
    desk.complete(failed(first, retry=False, error_class="out_of_order"))
    assert desk.claim() == []
    tell(desk, 4)
    [status] = desk.services.tasks.views.status(desk.admin, "sample")
    [join] = [job for job in status.jobs if job.name == "join"]
    assert join.paused
    assert "out_of_order" in (join.pause_reason or "")
    desk.services.tasks.pauses.resume(desk.admin, "sample", "join")
    seen = []
    while tasks := desk.claim():
        seen.append(cursor_of(tasks[0]))
        desk.complete(succeeded(tasks[0]))
    assert seen == [2, 3, 4]


def test_a_limited_job_never_has_more_tasks_running_than_it_may(desk: Desk):
    desk.deploy(LIMITED)
    tell(desk, 1, 2, 3, 4, 5)
    running = desk.claim()
    assert [cursor_of(task) for task in running] == [1, 2]
    assert desk.claim() == []
    desk.complete(succeeded(running[1]))
    assert [cursor_of(task) for task in desk.claim()] == [3]
    desk.complete(failed(running[0], retry=False))
    assert [cursor_of(task) for task in desk.claim()] == [4]
    [status] = desk.services.tasks.views.status(desk.admin, "sample")
    assert not any(job.paused for job in status.jobs)


@pytest.mark.parametrize("job", [None, "end"])
def test_a_pause_holds_what_is_queued_and_what_comes_and_a_resume_lets_it_go_in_order(desk: Desk, job: str | None):
    desk.deploy()
    tell(desk, 1, 2)
    desk.services.tasks.pauses.pause(desk.admin, "sample", job)
    assert desk.claim() == []
    desk.services.tasks.pauses.resume(desk.admin, "sample", job)
    desk.services.tasks.pauses.pause(desk.admin, "sample", "end")
    tell(desk, 3)
    assert desk.query("SELECT DISTINCT waits FROM task WHERE state = 'queued'") == [("paused",)]
    desk.services.tasks.pauses.resume(desk.admin, "sample", "end")
    assert [cursor_of(task) for task in desk.claim()] == [1, 2, 3]


def test_a_job_that_is_paused_by_itself_stays_so_when_its_dag_is_resumed(desk: Desk):
    desk.deploy()
    tell(desk, 1)
    desk.services.tasks.pauses.pause(desk.admin, "sample", "end")
    desk.services.tasks.pauses.pause(desk.admin, "sample", None)
    desk.services.tasks.pauses.resume(desk.admin, "sample", None)
    assert desk.claim() == []
    desk.services.tasks.pauses.resume(desk.admin, "sample", "end")
    assert len(desk.claim()) == 1


def test_what_runs_goes_on_and_a_retry_waits_for_the_resume(desk: Desk):
    desk.deploy()
    tell(desk, 1)
    [task] = desk.claim()
    desk.services.tasks.pauses.pause(desk.admin, "sample", None)
    now = datetime.now(UTC)
    desk.complete(failed(task), now=now)
    desk.services.tasks.reaper.run_once(now=now + LONG)
    assert desk.query("SELECT waits FROM task WHERE id = %s", task.fence.task_id) == [("paused",)]
    desk.services.tasks.pauses.resume(desk.admin, "sample", None)
    assert [again.fence.attempt for again in desk.claim()] == [2]


def test_pausing_what_is_not_there_is_not_found(desk: Desk):
    desk.deploy()
    for dag, job in (("nothing", None), ("sample", "nothing")):
        with pytest.raises(NotFound):
            desk.services.tasks.pauses.pause(desk.admin, dag, job)


@pytest.mark.proves("T9.1")
def test_many_workers_at_once_still_get_an_ordered_job_one_by_one(desk: Desk):
    desk.deploy(RANGES)
    tell(desk, *range(40))
    seen: list[int] = []
    overlap: list[int] = []
    busy = threading.Semaphore(1)

    def work() -> None:
        while len(seen) < 40:
            for task in desk.claim(wait_s=0):
                if not busy.acquire(blocking=False):
                    overlap.append(cursor_of(task))
                    return
                seen.append(cursor_of(task))
                busy.release()
                desk.complete(succeeded(task))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlap == []
    assert seen == list(range(40))


@pytest.mark.proves("T9.3")
def test_two_requests_of_a_source_with_a_cursor_are_emitted_in_the_order_in_which_they_arrived(desk: Desk):
    desk.deploy(EMIT)
    first, second = desk.ask(cursors=[1]), desk.ask(cursors=[2])
    [task] = desk.claim()
    assert task.fence.task_id == first
    assert desk.claim() == []
    desk.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=1))]))
    assert second in [task.fence.task_id for task in desk.claim()]


@pytest.mark.proves("T3.9")
@pytest.mark.parametrize("how", ["reported", "timed out"])
def test_a_task_that_waits_for_its_retry_leaves_its_turn_to_others(desk: Desk, how: str):
    desk.deploy(LIMITED)
    tell(desk, 1, 2, 3, 4, 5)
    first, second = desk.claim()
    if how == "reported":
        desk.complete(failed(first))
    else:
        desk.query("UPDATE task SET lease_expires_at = now() - interval '1 second' WHERE id = %s", first.fence.task_id)
        desk.services.tasks.reaper.run_once()
    [third] = desk.claim()
    assert cursor_of(third) == 3, "the turn is another's during the back-off"
    # When its time has come it waits for a turn like the others, and is the first of them.
    desk.query("UPDATE task SET due_at = now() WHERE id = %s", first.fence.task_id)
    assert desk.services.tasks.reaper.run_once() == 1
    assert desk.claim() == []
    desk.complete(succeeded(second))
    assert [cursor_of(task) for task in desk.claim()] == [1]
    desk.complete(succeeded(third))
    assert [cursor_of(task) for task in desk.claim()] == [4]
    assert desk.query("SELECT count(*) FROM task WHERE state = 'running'") == [(2,)]
