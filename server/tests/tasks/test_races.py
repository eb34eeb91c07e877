"""Two at once: completions of one attempt, equal claims, batches in opposite order, cancel against complete."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from support.controls import RANGES, ControlPlane, failed, fresh_claim_id, running_control, settings_for, succeeded
from support.sizes import seeded, size

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import AlreadyFinal
from tracelake_sdk.tasks import CompletionAnswer
from tracelake_sdk.tasks.events import EventDraft

LONG = timedelta(days=1)


def drafts(*cursors: int) -> list[EventDraft]:
    return [EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


def waiting_for_locks(control_plane: ControlPlane) -> int:
    return control_plane.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


@pytest.mark.proves("T2.5")
def test_two_completions_of_one_attempt_that_race_have_one_effect(control_plane: ControlPlane):
    control_plane.deploy()
    rng = seeded()
    tries = size(50, 2000)
    with ThreadPoolExecutor(2) as pool, psycopg.connect(control_plane.database.superuser_url) as blocker:
        for number in range(tries):
            control_plane.run_source()
            claimed = control_plane.claim()
            [task] = [task for task in claimed if task.payload.job.name == "start"]
            control_plane.complete(*[succeeded(behind) for behind in claimed if behind is not task])  # what the round before has made
            same = rng.random() < 0.5
            first = succeeded(task, events=drafts(number, number + 1_000_000))
            second = first if same else succeeded(task, events=drafts(number))
            # Both are in flight: the test holds the task's row until both are seen waiting for a lock.
            with blocker.transaction():
                blocker.execute("SELECT 1 FROM task WHERE id = %s FOR UPDATE", [task.fence.task_id])
                answers = [pool.submit(control_plane.complete, report) for report in (first, second)]
                wait_until(lambda: waiting_for_locks(control_plane) == 2)
            results: list[CompletionAnswer] = [answer.result()[0] for answer in answers]
            if same:
                assert results[0] == results[1]
                assert results[0].status == 200
                wanted = 2
            else:
                assert sorted(result.status for result in results) == [200, 409]
                wanted = 2 if results[0].status == 200 else 1
            assert control_plane.one("SELECT count(*) FROM dataset_event WHERE producer_task_id = %s", task.fence.task_id) == wanted
            assert control_plane.one("SELECT count(*) FROM run_history WHERE task_id = %s", task.fence.task_id) == 1
    assert control_plane.one("SELECT count(*) FROM event_ledger") == control_plane.one("SELECT count(*) FROM task WHERE trigger_kind = 'event'")
    assert control_plane.one("SELECT count(*) FROM event_ledger") == control_plane.one("SELECT count(*) FROM dataset_event")


@pytest.mark.proves("T3.2")
@pytest.mark.proves("T1.4")
def test_an_equal_claim_at_another_control_process_returns_the_same_tasks(control_plane: ControlPlane, tmp_path):
    control_plane.deploy()
    settings = settings_for(control_plane.database, control_plane.control.settings.home, tasks={"housekeeping_seconds": 60})
    with running_control(settings, control_plane.database) as other, ThreadPoolExecutor(2) as pool:
        for _number in range(size(10, 100)):
            claim_id = fresh_claim_id()
            # The first still waits when the second comes; then the work arrives.
            waiting = [pool.submit(place.claim, 5, wait_s=20, claim_id=claim_id) for place in (control_plane, other)]
            wait_until(lambda: control_plane.control.waiting.number_waiting == 1 and other.control.waiting.number_waiting == 1)
            control_plane.run_source()
            one, two = (claim.result() for claim in waiting)
            assert [task.fence for task in one] == [task.fence for task in two]
            assert len(one) == 1
            assert [task.fence for task in other.claim(claim_id=claim_id)] == [one[0].fence]
            [answer] = other.complete(succeeded(one[0]))
            assert answer.status == 200
            assert control_plane.claim(claim_id=claim_id) == []  # what it held is done, and it takes nothing new
    assert control_plane.one("SELECT count(*) FROM task_attempt") == size(10, 100)


@contextmanager
def holding_lines(control_plane: ControlPlane) -> Iterator[None]:
    """Another transaction holds every line: those that arrive meanwhile wait in their own lock order."""
    with psycopg.connect(control_plane.database.superuser_url) as holder:
        holder.execute("SELECT 1 FROM line FOR UPDATE")
        yield


@pytest.mark.proves("T1.4")
def test_batches_over_the_same_lines_in_opposite_order_never_deadlock(control_plane: ControlPlane):
    control_plane.deploy(RANGES, name="one")
    control_plane.deploy(RANGES, name="two")
    batch, tries = 20, 0
    settings = settings_for(control_plane.database, control_plane.control.settings.home, tasks={"housekeeping_seconds": 60})
    with running_control(settings, control_plane.database) as other, ThreadPoolExecutor(4) as pool:
        while tries < size(1000, 20_000):
            for dag in ("one", "two"):
                for _ in range(batch):
                    control_plane.run_source(dag)
            claimed = control_plane.claim(room=200)
            sources = [task for task in claimed if task.payload.job.name == "start"]
            heads = [task for task in claimed if task.payload.job.name == "join"]
            assert len(sources) == 2 * batch
            # Every report of a source moves one of the two lines; the two batches name them in opposite order.
            reports = [succeeded(task, events=drafts(tries)) for task in sources]
            first, second = reports[::2], reports[1::2][::-1]
            with holding_lines(control_plane):
                done = [pool.submit(control_plane.complete, *first), pool.submit(other.complete, *second)]
                wait_until(lambda: waiting_for_locks(control_plane) == 2)
                done.append(pool.submit(other.complete, *[succeeded(task) for task in heads[::-1]]))
                reaped = pool.submit(other.services.tasks.reaper.run_once)
            for answers in done:
                assert all(answer.status == 200 for answer in answers.result())
            reaped.result()
            tries += 2 * batch


@pytest.mark.proves("T3.6")
@pytest.mark.parametrize("cancel_first", [True, False])
def test_cancel_against_complete_has_one_winner_and_no_deadlock(control_plane: ControlPlane, cancel_first: bool):
    control_plane.deploy(RANGES)
    tries = size(100, 1000)
    control_plane.run_source()
    [source] = control_plane.claim()
    control_plane.complete(succeeded(source, events=drafts(*range(tries))))
    canceled = 0
    with ThreadPoolExecutor(2) as pool:
        for number in range(tries):
            [task] = control_plane.claim()

            def cancel(task_id=task.fence.task_id) -> str:
                try:
                    return control_plane.services.tasks.cancels.cancel(control_plane.admin, task_id).value
                except AlreadyFinal:
                    return "too late"

            def complete(task=task, number=number) -> CompletionAnswer:
                return control_plane.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=number))]))[0]

            # Both stand in the same line, one behind the other, when it moves.
            with holding_lines(control_plane):
                order = [cancel, complete] if cancel_first else [complete, cancel]
                first = pool.submit(order[0])
                wait_until(lambda: waiting_for_locks(control_plane) == 1)
                second = pool.submit(order[1])
                wait_until(lambda: waiting_for_locks(control_plane) == 2)
            results = {order[0]: first.result(), order[1]: second.result()}
            stopped, answer = results[cancel], results[complete]
            assert isinstance(answer, CompletionAnswer)
            assert answer.status == 200
            events = control_plane.one("SELECT count(*) FROM dataset_event WHERE producer_task_id = %s", task.fence.task_id)
            if stopped == "too late":
                assert (answer.result.value, events) == ("done", 1)
            else:
                canceled += 1
                assert (answer.result.value, events) == ("canceled", 0)
            assert control_plane.one("SELECT count(*) FROM run_history WHERE task_id = %s", task.fence.task_id) == 1
    assert control_plane.one("SELECT count(*) FROM task WHERE state = 'canceled'") == canceled
    assert canceled == (tries if cancel_first else 0)


@pytest.mark.proves("T1.4")
def test_many_claimers_at_once_take_every_task_exactly_once(control_plane: ControlPlane, tmp_path):
    control_plane.deploy()
    number = size(300, 5000)
    control_plane.run_source()
    [source] = control_plane.claim()
    control_plane.complete(succeeded(source, events=drafts(*range(number))))
    settings = settings_for(control_plane.database, control_plane.control.settings.home, tasks={"housekeeping_seconds": 60})
    with running_control(settings, control_plane.database) as other, ThreadPoolExecutor(6) as pool:

        def take(place: ControlPlane) -> list[tuple[object, int]]:
            mine: list[tuple[object, int]] = []
            while tasks := place.claim(room=7):
                mine += [(task.fence.task_id, task.fence.attempt) for task in tasks]
            return mine

        taken = [pair for result in [pool.submit(take, place) for place in (control_plane, other) * 3] for pair in result.result()]
        taken += take(control_plane)  # rows that another claimer held in the moment of the last look
    assert len(taken) == len(set(taken)) == number


def test_a_reaper_and_a_late_report_settle_it_between_them(control_plane: ControlPlane):
    control_plane.deploy(max_attempts=1)
    with ThreadPoolExecutor(2) as pool:
        for _number in range(size(50, 1000)):
            control_plane.run_source()
            [task] = control_plane.claim()
            late = datetime.now(UTC) + LONG
            control_plane.services.tasks.reaper.run_once(now=late)
            reap = pool.submit(control_plane.services.tasks.reaper.run_once, now=late + LONG)
            [answer] = pool.submit(control_plane.complete, failed(task)).result()
            reap.result()
            assert answer.status in {200, 409}
            assert control_plane.one("SELECT state FROM task WHERE id = %s", task.fence.task_id) == "failed"
            assert control_plane.one("SELECT count(*) FROM run_history WHERE task_id = %s", task.fence.task_id) == 1
