"""Asking control until it answers.

Every call of the worker contract may be repeated as it is: the same claim id returns the same tasks, the same report the recorded
result. So while control is away a worker keeps asking, and what it reported is never in doubt for longer than that.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from tracelake_sdk.backoff import Backoff
from tracelake_sdk.errors import Forbidden, NotRunning, OutcomeUnknown, TracelakeError, Unauthenticated, Unavailable
from tracelake_sdk.tasks import ClaimAnswer, ClaimRequest

_Answer = TypeVar("_Answer")
_log = structlog.get_logger()

_BACKOFF = Backoff(first=0.05, longest=5.0, shortened=0.5)
_LAST_TRIES_PAUSE = 0.2  # once the worker stops
_REFUSED_SECONDS = 60.0  # a token that was good may be unknown for a while, as when control's database is restored

REFUSED = (Unauthenticated, Forbidden)  # control does not let this worker work; a later try is refused as well


@dataclass(frozen=True)
class Answered(Generic[_Answer]):
    """`since`: when it came, or was first asked where that took several tries. `sent`: when it was first asked.

    Leases in the answer run from `sent` at the earliest, by this machine's own clock: whoever must stop before a lease ends counts from there.
    """

    value: _Answer
    since: float
    sent: float


class Retries:
    """How long to go on asking: until there is an answer, or a while after the worker was asked to stop."""

    def __init__(self, stopping: threading.Event, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stopping: threading.Event = stopping
        self._clock: Callable[[], float] = clock
        self._was_let_in: bool = False

    def ask(self, call: Callable[[], _Answer], *, after_stop: float, broken_for: float = float("inf")) -> Answered[_Answer] | None:
        """The answer; None when the worker stops before there is one.

        Control's own refusals are raised at once; that a token is unknown which was good before, after a minute: what a worker has finished
        is not dropped for it. An unexpected failure inside control is taken for its being away, for at most `broken_for` seconds: it may be
        this very call that breaks it.
        """
        began, tries = self._clock(), 0
        stop_by: float | None = None
        while True:
            try:
                value = call()
            except TracelakeError as error:
                if not self._may_pass(error, self._clock() - began, broken_for):
                    raise
                tries += 1
                # The first repetition comes at once: most often a kept-alive connection was closed in the moment of its use.
                pause = _BACKOFF.after(tries - 1, at_least=error.retry_after or 0)
                _say(tries, error, pause)
            else:
                self._was_let_in = True
                if tries:
                    _log.info("control answers again", tries=tries + 1)
                return Answered(value, began if tries else self._clock(), began)
            if self._stopping.wait(pause):
                stop_by = self._clock() + after_stop if stop_by is None else stop_by
                if self._clock() >= stop_by:
                    return None
                time.sleep(min(pause, _LAST_TRIES_PAUSE))

    def claim(self, call: Callable[[ClaimRequest], ClaimAnswer], request: ClaimRequest) -> Answered[ClaimAnswer] | None:
        """The answer to a claim. A worker that stops claims nothing more; what control handed out in that moment is still answered, to be given back."""
        if self._stopping.is_set():
            return None
        answered = self.ask(lambda: call(request), after_stop=0)
        if answered is None:
            # The same claim without room takes nothing new and returns what it holds.
            without_room = request.model_copy(update={"room": {}, "wait_s": 0})
            answered = self.ask(lambda: call(without_room), after_stop=0)
        return answered

    def _may_pass(self, error: TracelakeError, asked_for: float, broken_for: float) -> bool:
        if isinstance(error, Unauthenticated):
            return self._was_let_in and asked_for < _REFUSED_SECONDS
        return asked_for < broken_for if is_broken(error) else passes(error)


def is_broken(error: TracelakeError) -> bool:
    """Whether control failed in a way that nobody expected."""
    return type(error) is TracelakeError


def passes(error: TracelakeError) -> bool:
    """Whether the same call may be answered later."""
    return is_broken(error) or isinstance(error, (NotRunning, OutcomeUnknown, Unavailable))


def _say(tries: int, error: TracelakeError, pause: float) -> None:
    # The first repetition is everyday life; after that every doubling is enough to read.
    if tries > 1 and tries & (tries - 1) == 0:
        _log.warning("control does not answer", code=error.code, detail=error.detail, error_id=error.id, tries=tries, again_in_seconds=round(pause, 2))
