"""Leases by the database's clock, heartbeats, retries."""

from datetime import UTC, datetime, timedelta

import pytest
from support.controls import ControlPlane, failed, succeeded

from tracelake.control.tasks.judgement import RetryDelay
from tracelake_sdk.tasks import HeartbeatRequest

LONG = timedelta(days=1)


def beat(control_plane: ControlPlane, *tasks, now=None):
    return control_plane.services.tasks.heartbeats.beat(control_plane.worker, HeartbeatRequest(worker="w1", fences=[task.fence for task in tasks]), now=now)


def running(control_plane: ControlPlane, number: int = 1, **deploy):
    control_plane.deploy(**deploy)
    for _ in range(number):
        control_plane.run_source()
    return control_plane.claim()


@pytest.mark.proves("T3.5")
def test_a_lease_that_ran_out_is_marked_once_and_its_heartbeat_is_lost(control_plane: ControlPlane):
    [task] = running(control_plane)
    late = datetime.now(UTC) + LONG
    control_plane.services.tasks.reaper.run_once(now=late)
    control_plane.services.tasks.reaper.run_once(now=late + LONG)
    [(timed_out_at, ended_at)] = control_plane.query("SELECT timed_out_at, ended_at FROM task_attempt")
    assert timed_out_at == late
    assert ended_at is None
    assert beat(control_plane, task).lost == [task.fence.task_id]


@pytest.mark.proves("T3.5")
def test_a_heartbeat_extends_the_lease_and_is_kept_with_the_attempt(control_plane: ControlPlane):
    [task] = running(control_plane)
    now = datetime.now(UTC) + timedelta(seconds=20)
    answer = beat(control_plane, task, now=now)
    assert answer.expires_at == {task.fence.task_id: now + timedelta(seconds=30)}
    assert control_plane.query("SELECT last_heartbeat_at FROM task_attempt") == [(now,)]
    control_plane.services.tasks.reaper.run_once(now=now + timedelta(seconds=29))
    assert control_plane.one("SELECT state FROM task") == "running"
    control_plane.services.tasks.reaper.run_once(now=now + timedelta(seconds=31))
    assert control_plane.one("SELECT state FROM task") == "queued"


def test_no_heartbeat_carries_a_lease_past_the_jobs_timeout(control_plane: ControlPlane):
    [task] = running(control_plane)
    deadline = control_plane.one("SELECT deadline_at FROM task_attempt")
    answer = beat(control_plane, task, now=deadline - timedelta(seconds=1))
    assert answer.expires_at == {task.fence.task_id: deadline}


@pytest.mark.proves("T3.4")
def test_one_stale_fence_among_many_heartbeats_harms_no_other(control_plane: ControlPlane):
    first, second, third = running(control_plane, 3)
    control_plane.complete(succeeded(second))
    answer = beat(control_plane, first, second, third)
    assert set(answer.expires_at) == {first.fence.task_id, third.fence.task_id}
    assert answer.lost == [second.fence.task_id]


@pytest.mark.proves("T3.5")
def test_a_retry_waits_for_its_time_and_is_claimed_then(control_plane: ControlPlane):
    [task] = running(control_plane)
    now = datetime.now(UTC)
    control_plane.complete(failed(task), now=now)
    assert control_plane.query("SELECT waits, seq FROM task") == [("retry", None)]
    [(due,)] = control_plane.query("SELECT due_at FROM task")
    control_plane.services.tasks.reaper.run_once(now=due - timedelta(milliseconds=1))
    assert control_plane.claim() == []
    control_plane.services.tasks.reaper.run_once(now=due)
    assert [again.fence.attempt for again in control_plane.claim()] == [2]


@pytest.mark.proves("T3.5")
def test_backoff_doubles_with_jitter_up_to_its_longest():
    backoff = RetryDelay(first=timedelta(seconds=2), longest=timedelta(seconds=60))
    for failures, whole in ((1, 2), (2, 4), (3, 8), (5, 32), (6, 60), (50, 60)):
        pauses = {backoff.after(failures).total_seconds() for _ in range(200)}
        assert whole / 2 <= min(pauses)
        assert max(pauses) <= whole
        assert len(pauses) > 100


def test_the_reaper_takes_many_in_one_go_and_says_how_many(control_plane: ControlPlane):
    running(control_plane, 30)
    assert control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG) >= 30
    assert control_plane.one("SELECT count(*) FROM task WHERE state = 'queued'") == 30
