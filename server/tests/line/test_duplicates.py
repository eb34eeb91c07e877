"""Duplicates: the same report again, in every later state and on two connections at once, has one effect and one answer."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from support.controls import failed
from support.lakes import BRONZE, Lake
from support.lines import APPENDING, generation_of, load, tasks_of
from support.sizes import seeded, size

from tracelake_sdk.errors import AlreadyDecided
from tracelake_sdk.tasks import ClaimedTask, Completion, CompletionAnswer, CompletionResult, Outcome


def report_of(lake: Lake, task: ClaimedTask, ids: list[int], *, custom: dict[str, int] | None = None, **facts: int) -> Completion:
    outputs = [lake.measured([lake.stage(task, [(id, "a") for id in ids])], **facts)]
    return Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=task.payload.base, outputs=outputs, custom=custom or {})


def counts(lake: Lake) -> list[int]:
    tables = ("change", "promotion_status", "data_version", "materialization", "dataset_event", "run_history", "data_file", "task", "task_attempt")
    return [lake.one(f"SELECT count(*) FROM {table}") for table in tables]


@pytest.mark.proves("T2.6")
def test_the_same_report_again_is_answered_as_before_in_every_later_state(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    report = report_of(lake, task, [1])
    [first] = lake.complete(report)
    assert first.result is CompletionResult.COMMITTING
    other = report_of(lake, task, [1], custom={"another": 1})

    def again() -> None:
        before = counts(lake)
        assert lake.complete(report) == [first]
        [conflict] = lake.complete(other)
        assert (conflict.result, conflict.status, conflict.code) == (CompletionResult.CONFLICT, 409, "completion_conflict")
        [late] = lake.complete(failed(task))
        assert late.status == 409
        assert counts(lake) == before

    commits, generation = lake.control.committer.commits, generation_of(lake, "clean")
    again()                                   # decided
    entries = commits.freeze(generation).entries
    again()                                   # frozen
    commits.put(generation, entries)
    again()                                   # put
    lake.control.committer.record(generation, 1)
    again()                                   # recorded
    load(lake, 2)
    [next_task] = tasks_of(lake, "clean")
    lake.write(next_task, [(2, "a")])
    lake.move()
    again()                                   # and long after


@pytest.mark.proves("T2.6")
@pytest.mark.parametrize("how", ["blocked", "unchanged", "superseded"])
def test_the_same_report_again_is_answered_as_before_however_it_ended(lake: Lake, how: str):
    lake.deploy(BRONZE)
    load(lake, 1)
    lake.run()
    [task] = lake.take()
    match how:
        case "blocked":
            report = report_of(lake, task, [2], outside_scope=1)
        case "unchanged":
            report = Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=task.payload.base, outputs=[lake.measured([])], state={"at": 2})
        case _:
            lake.query("UPDATE operator_state SET revision = revision + 1")
            report = report_of(lake, task, [2]).model_copy(update={"state": {"at": 2}})
    [first] = lake.complete(report)
    assert first.result == how
    before = counts(lake)
    assert lake.complete(report) == [first]
    lake.services.tasks.reaper.run_once(now=datetime.now(UTC) + timedelta(hours=1))
    if how == "superseded":
        assert [again.fence.attempt for again in lake.take()] == [2]
        before = counts(lake)
    assert lake.complete(report) == [first]
    [conflict] = lake.complete(report.model_copy(update={"custom": {"other": 1}}))
    assert conflict.status == 409
    assert counts(lake) == before


def test_answers_that_decide_nothing_are_not_remembered(lake: Lake):
    """What asks for another report takes another report."""
    lake.deploy(APPENDING)
    load(lake, 1)
    load(lake, 2)
    one, two = tasks_of(lake, "clean")
    lake.write(one, [(1, "a")])
    [moved] = lake.complete(report_of(lake, two, [1, 2]))
    assert moved.result is CompletionResult.BASE_MOVED
    assert lake.query("SELECT body_sha256, result FROM task_attempt WHERE task_id = %s", two.fence.task_id) == [(None, None)]
    assert lake.report(two, lake.measured([lake.stage(two, [(2, "a")])]), base=moved.base).result == "committing"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


@pytest.mark.proves("T2.5")
def test_two_reports_of_one_attempt_that_race_make_one_change(lake: Lake):
    lake.deploy(BRONZE)
    rng = seeded()
    tries = size(20, 200)
    with ThreadPoolExecutor(2) as pool, psycopg.connect(lake.database.superuser_url) as blocker, psycopg.connect(lake.database.superuser_url, autocommit=True) as eyes:

        def waiting_for_locks() -> bool:
            [(number,)] = eyes.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").fetchall()
            return number >= 2

        moved = 0
        for number in range(tries):
            if number % 50 == 49:
                moved += lake.move()  # a line that has too much to record hands out no task
            lake.run()
            [task] = lake.take()
            same = rng.random() < 0.5
            first = report_of(lake, task, [number])
            second = first if same else report_of(lake, task, [number], custom={"other": number})
            # Both are in flight: the test holds the line until both are seen waiting for it.
            with blocker.transaction():
                blocker.execute("SELECT 1 FROM line FOR UPDATE")
                answers = [pool.submit(lake.complete, report) for report in (first, second)]
                wait_until(waiting_for_locks)
            results: list[CompletionAnswer] = [answer.result()[0] for answer in answers]
            if same:
                assert results[0] == results[1]
                assert results[0].result is CompletionResult.COMMITTING
            else:
                assert sorted(result.status for result in results) == [200, 409]
            assert lake.query("SELECT count(*) FROM change WHERE task_id = %s", task.fence.task_id) == [(1,)]
    assert moved + lake.move() == tries
    assert lake.query("SELECT count(*), count(DISTINCT task_id) FROM materialization") == [(tries, tries)]
    assert [row[0] for row in lake.rows(lake.location())] == list(range(tries))


@pytest.mark.proves("T3.4")
def test_an_attempt_that_lost_its_lease_reports_in_vain_once_another_has_started(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    [slow] = tasks_of(lake, "clean")
    report = report_of(lake, slow, [1])
    now = datetime.now(UTC) + timedelta(minutes=1)
    lake.services.tasks.reaper.run_once(now=now)
    lake.services.tasks.reaper.run_once(now=now + timedelta(minutes=10))
    [fresh] = tasks_of(lake, "clean")
    before = counts(lake)
    [answer] = lake.complete(report)
    assert (answer.result, answer.status) == (CompletionResult.STALE, 409)
    assert counts(lake) == before
    assert lake.write(fresh, [(2, "b")]).result == "committing"
    lake.move()
    assert lake.complete(report)[0].status == 409
    assert lake.rows(lake.location_of("clean")) == [(2, "b")]


@pytest.mark.proves("T3.4")
def test_a_slow_attempt_is_decided_while_nobody_else_has_started(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    [slow] = tasks_of(lake, "clean")
    lake.services.tasks.reaper.run_once(now=datetime.now(UTC) + timedelta(minutes=1))
    assert lake.write(slow, [(1, "a")]).result == "committing"
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(1, "a")]
    assert lake.query("SELECT status::text FROM run_history WHERE task_id = %s", slow.fence.task_id) == [("SUCCESS",)]


def test_a_canceled_task_commits_nothing(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    lake.services.tasks.cancels.cancel(lake.admin, task.fence.task_id)
    answer = lake.write(task, [(1, "a")])
    assert (answer.result, answer.task_state) == (CompletionResult.CANCELED, "canceled")
    assert lake.move() == 0
    assert lake.query("SELECT count(*) FROM change WHERE task_id = %s", task.fence.task_id) == [(0,)]


def test_a_decided_task_cannot_be_canceled(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    lake.write(task, [(1, "a")])
    with pytest.raises(AlreadyDecided):
        lake.services.tasks.cancels.cancel(lake.admin, task.fence.task_id)
    assert lake.move() == 1
