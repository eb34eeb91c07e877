"""Leases by the database's clock, heartbeats, retries."""

from datetime import UTC, datetime, timedelta

import pytest
from support.controls import Desk, failed, succeeded

from tracelake.control.tasks.judgement import Backoff
from tracelake_sdk.tasks import HeartbeatRequest

LONG = timedelta(days=1)


def beat(desk: Desk, *tasks, now=None):
    return desk.services.tasks.heartbeats.beat(desk.worker, HeartbeatRequest(worker="w1", fences=[task.fence for task in tasks]), now=now)


def running(desk: Desk, number: int = 1, **deploy):
    desk.deploy(**deploy)
    for _ in range(number):
        desk.ask()
    return desk.claim()


@pytest.mark.proves("T3.5")
def test_a_lease_that_ran_out_is_marked_once_and_its_heartbeat_is_lost(desk: Desk):
    [task] = running(desk)
    late = datetime.now(UTC) + LONG
    desk.services.tasks.reaper.run_once(now=late)
    desk.services.tasks.reaper.run_once(now=late + LONG)
    [(timed_out_at, ended_at)] = desk.query("SELECT timed_out_at, ended_at FROM task_attempt")
    assert timed_out_at == late
    assert ended_at is None
    assert beat(desk, task).lost == [task.fence.task_id]


@pytest.mark.proves("T3.5")
def test_a_heartbeat_extends_the_lease_and_is_kept_with_the_attempt(desk: Desk):
    [task] = running(desk)
    now = datetime.now(UTC) + timedelta(seconds=20)
    answer = beat(desk, task, now=now)
    assert answer.expires_at == {task.fence.task_id: now + timedelta(seconds=30)}
    assert desk.query("SELECT last_heartbeat_at FROM task_attempt") == [(now,)]
    desk.services.tasks.reaper.run_once(now=now + timedelta(seconds=29))
    assert desk.one("SELECT state FROM task") == "running"
    desk.services.tasks.reaper.run_once(now=now + timedelta(seconds=31))
    assert desk.one("SELECT state FROM task") == "queued"


def test_no_heartbeat_carries_a_lease_past_the_jobs_timeout(desk: Desk):
    [task] = running(desk)
    deadline = desk.one("SELECT deadline_at FROM task_attempt")
    answer = beat(desk, task, now=deadline - timedelta(seconds=1))
    assert answer.expires_at == {task.fence.task_id: deadline}


@pytest.mark.proves("T3.4")
def test_one_stale_fence_among_many_heartbeats_harms_no_other(desk: Desk):
    first, second, third = running(desk, 3)
    desk.complete(succeeded(second))
    answer = beat(desk, first, second, third)
    assert set(answer.expires_at) == {first.fence.task_id, third.fence.task_id}
    assert answer.lost == [second.fence.task_id]


@pytest.mark.proves("T3.5")
def test_a_retry_waits_for_its_time_and_is_claimed_then(desk: Desk):
    [task] = running(desk)
    now = datetime.now(UTC)
    desk.complete(failed(task), now=now)
    assert desk.query("SELECT waits, seq FROM task") == [("retry", None)]
    [(due,)] = desk.query("SELECT due_at FROM task")
    desk.services.tasks.reaper.run_once(now=due - timedelta(milliseconds=1))
    assert desk.claim() == []
    desk.services.tasks.reaper.run_once(now=due)
    assert [again.fence.attempt for again in desk.claim()] == [2]


@pytest.mark.proves("T3.5")
def test_backoff_doubles_with_jitter_up_to_its_longest():
    backoff = Backoff(first=timedelta(seconds=2), longest=timedelta(seconds=60))
    for failures, whole in ((1, 2), (2, 4), (3, 8), (5, 32), (6, 60), (50, 60)):
        pauses = {backoff.after(failures).total_seconds() for _ in range(200)}
        assert whole / 2 <= min(pauses)
        assert max(pauses) <= whole
        assert len(pauses) > 100


def test_the_reaper_takes_many_in_one_go_and_says_how_many(desk: Desk):
    running(desk, 30)
    assert desk.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG) >= 30
    assert desk.one("SELECT count(*) FROM task WHERE state = 'queued'") == 30
