"""A loop survives what its turns raise, counts it, says so, and shows when it is failing and when it works again."""

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
import structlog
from support.processes import wait_until

from tracelake import loops
from tracelake.loops import ENDED, FAILING_AFTER, Loop, Loops
from tracelake_sdk.errors import StorageUnavailable, Unavailable


def raising(errors: Iterator[BaseException | None]) -> Callable[[], int]:
    def turn() -> int:
        error = next(errors)
        if error is not None:
            raise error
        return 0

    return turn


@pytest.mark.proves("X.10")
def test_a_loop_survives_every_exception():
    turns: list[int] = []

    def turn() -> None:
        turns.append(len(turns))
        if len(turns) <= 2:
            raise ZeroDivisionError

    loop = Loop("sample", turn, pause=0.01)
    loop.start()
    try:
        wait_until(lambda: len(turns) >= 4, "it continues")
        assert loop.status.failures == 2 and not loop.status.failing
    finally:
        loop.stop()
    assert not loop.alive


@pytest.mark.proves("X.10")
def test_a_loop_is_failing_after_several_failures_in_a_row_and_well_after_one_success():
    loop = Loop("sample", raising(iter([*[Unavailable()] * FAILING_AFTER, None])), pause=7)
    for _ in range(FAILING_AFTER - 1):
        assert loop.take_turn() > 0
        assert not loop.status.failing
    loop.take_turn()
    assert loop.status.code == "unavailable" and loop.status.failures == FAILING_AFTER
    assert loop.take_turn() == 7
    assert not loop.status.failing and loop.status.failures == FAILING_AFTER


def test_a_loop_is_not_taken_for_ended_while_it_starts(monkeypatch: pytest.MonkeyPatch):
    seen: list[str | None] = []
    begin = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (seen.append(loop.status.code), begin(thread)))
    loop = Loop("l", lambda: 0, pause=60)
    loop.start()
    assert (seen, loop.status.code, loop.alive) == ([None], None, True)
    loop.stop()


def test_the_pause_doubles_behind_failures_up_to_a_limit():
    loop = Loop("sample", raising(iter([StorageUnavailable()] * 12)), pause=0)
    pauses = [loop.take_turn() for _ in range(12)]
    assert pauses[0] <= 0.2 and 4 <= pauses[-1] <= 5
    assert all(after > before * 1.2 for before, after in itertools.pairwise(pauses[:5]))


def test_a_busy_loop_takes_its_next_turn_at_once():
    assert Loop("sample", lambda: 3, pause=60).take_turn() == 0
    assert Loop("sample", lambda: 0, pause=60).take_turn() == 60


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_process_is_not_caught_and_its_loop_shows_it(end: type[BaseException], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    with pytest.raises(end):
        Loop("sample", raising(iter([end()]))).take_turn()
    kept = Loops()
    kept.start(Loop("sample", raising(iter([end()]))))
    wait_until(lambda: [status.code for status in kept.failing()] == [ENDED], "it shows that it has ended")
    kept.stop()


def test_the_log_holds_the_place_of_an_error_and_none_of_its_words(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    monkeypatch.setattr(loops, "_log", structlog.wrap_logger(structlog.ReturnLogger(), processors=[lambda logger, method, entry: lines.append(repr(entry)) or str(entry)]))
    loops.log_failure("a loop failed", _raised(), loop="sample")
    [line] = lines
    assert "Ada" not in line and "ValueError" in line and "test_loops.py" in line


def test_the_age_of_the_last_success_is_known():
    now = [100.0]
    loop = Loop("sample", raising(iter([None, Unavailable()])), clock=lambda: now[0])
    loop.take_turn()
    now[0] = 130
    loop.take_turn()
    assert loop.status.since_success_seconds == 30


def _raised() -> Exception:
    try:
        int("INSERT INTO person VALUES ('Ada')")
    except ValueError as raised:
        return raised
    raise AssertionError
