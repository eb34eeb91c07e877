"""Emission takes a tenth of the time while records are fresh, and all of it where they grow old or where nothing is to be done."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from support.controls import ControlPlane, succeeded

from tracelake.control.emission import service
from tracelake.control.emission.facts import Emitted, Installation
from tracelake.control.emission.service import Emission, ThrottledEmission
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import StoreResult


class Clock:
    """Time that passes only where a batch is stored or somebody rests."""

    def __init__(self) -> None:
        self.now: float = 100.0
        self.rests: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(service, "time", clock)
    return clock


def takes(clock: Clock, seconds: float, error: TracelakeError | None = None) -> Callable[[Sequence[Emitted]], list[StoreResult]]:
    def store(records: Sequence[Emitted]) -> list[StoreResult]:
        clock.now += seconds
        if error is not None:
            raise error
        return [StoreResult(result="stored") for _ in records]

    return store


def unhurried(control_plane: ControlPlane, storing: Callable[[Sequence[Emitted]], list[StoreResult]], **parts: timedelta) -> ThrottledEmission:
    return ThrottledEmission(Emission(control_plane.control.database, storing, Installation("embedded", "main")), **parts)


def ran(control_plane: ControlPlane) -> None:
    """One more run that nobody has emitted."""
    if not control_plane.query("SELECT 1 FROM dag"):
        control_plane.deploy()
    control_plane.run_source()
    control_plane.complete(*(succeeded(task) for task in control_plane.claim()))


@pytest.mark.parametrize(("took", "rested"), [(0.02, 0.18), (0.05, 0.45), (0.3, 0.5)])
def test_behind_fresh_records_it_rests_nine_times_as_long_as_they_took_and_never_long(control_plane: ControlPlane, clock: Clock, took: float, rested: float) -> None:
    ran(control_plane)
    assert unhurried(control_plane, takes(clock, took)).run_once() == 1
    assert clock.rests == [pytest.approx(rested)]


def test_where_nothing_was_emitted_the_loop_itself_waits(control_plane: ControlPlane, clock: Clock) -> None:
    emission = unhurried(control_plane, takes(clock, 0.02))
    assert emission.run_once() == 0
    ran(control_plane)
    assert emission.run_once() == 1
    assert emission.run_once() == 0
    assert len(clock.rests) == 1


def test_where_records_grow_old_it_does_not_rest_until_they_are_fresh_again(control_plane: ControlPlane, clock: Clock) -> None:
    ran(control_plane)
    emission = unhurried(control_plane, takes(clock, 0.02))
    assert emission.run_once() == 1
    assert len(clock.rests) == 1
    control_plane.query(
        "INSERT INTO run_history (run_id, org_id, task_id, attempt, generation_id, status, start_time, end_time, triggered_by)"
        " SELECT task_id || ':old', org_id, task_id, attempt, generation_id, status, now() - interval '1 hour', now() - interval '11 seconds', 'old' FROM run_history"
    )
    assert emission.run_once() == 1
    assert emission.emission.lag > emission.old
    assert len(clock.rests) == 1
    ran(control_plane)
    assert emission.run_once() == 1
    assert len(clock.rests) == 2


def test_a_failure_is_the_loops_to_wait_for(control_plane: ControlPlane, clock: Clock) -> None:
    ran(control_plane)
    with pytest.raises(RepositoryUnavailable):
        unhurried(control_plane, takes(clock, 0.02, RepositoryUnavailable())).run_once()
    assert clock.rests == []
