"""A worker outlives what goes wrong inside it and around it, and keeps what it has finished until control takes it."""

import threading
from uuid import uuid4

import pytest
from support.controls import ControlPlane
from support.processes import wait_until

from tracelake.worker.leases import Leases
from tracelake.worker.retry_until_answered import Retries
from tracelake.worker.spark.guard import Ended, Guard
from tracelake_sdk.errors import NotRunning, OutcomeUnknown, TracelakeError, Unauthenticated, Unavailable

from .hiring import Hire


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 10
        return self.now


def asking(*answers: TracelakeError | str, clock: Clock | None = None, broken_for: float = float("inf")) -> str:
    """What becomes of a call that is answered so, after one that was answered well."""
    left = list(answers)

    def call() -> str:
        answer = left.pop(0)
        if isinstance(answer, TracelakeError):
            raise answer
        return answer

    retries = Retries(threading.Event(), clock=clock or (lambda: 0.0))
    retries.until_answered(lambda: "let in", after_stop=0)
    answered = retries.until_answered(call, after_stop=0, broken_for=broken_for)
    assert answered is not None
    return answered.value


@pytest.mark.proves("X.10")
@pytest.mark.parametrize("away", [Unavailable(), NotRunning(), OutcomeUnknown(), TracelakeError(), Unauthenticated()])
def test_a_finished_report_is_kept_while_control_is_away(away: TracelakeError):
    assert asking(away, away, away, "taken") == "taken"


def test_a_token_that_stays_unknown_is_an_error_in_the_end():
    with pytest.raises(Unauthenticated):
        asking(*[Unauthenticated()] * 20, clock=Clock())


def test_a_token_that_never_was_good_is_an_error_at_once():
    def refused() -> str:
        raise Unauthenticated

    with pytest.raises(Unauthenticated):
        Retries(threading.Event()).until_answered(refused, after_stop=0)


@pytest.mark.proves("X.10")
def test_a_worker_continues_after_an_unexpected_error_and_releases_its_tasks(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy()
    control_plane.run_source()
    raised: list[str] = []

    def watch(moment: str) -> None:
        if moment == "worker_ran" and not raised:
            raised.append(moment)
            raise ZeroDivisionError

    worker = hire(watch=watch)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: raised and worker.leases.longest == 0, "nothing is held any more")
        second = control_plane.run_source()
        wait_until(lambda: control_plane.one("SELECT state FROM task WHERE id = %s", second) == "completed", "the next task is done")
    finally:
        worker.stop()
        thread.join(timeout=20)
    assert not thread.is_alive()


def test_an_operator_that_could_not_be_ended_is_ended_by_a_later_look(hire: Hire):
    ends: list[bool] = []

    class Run:
        def end(self) -> None:
            ends.append(True)
            if len(ends) == 1:
                raise OSError

    worker = hire()
    guard = Guard(Leases(worker._control, "w"))  # it holds nothing, so every attempt is lost
    with guard.watching(uuid4(), Run(), 60) as watched:  # pyright: ignore[reportArgumentType]
        wait_until(lambda: guard.run_once() or len(ends) >= 2, "it is tried again")
        wait_until(lambda: watched.ended is Ended.LOST, "it is ended")
