"""Calls control until it answers.

Every call of the worker contract may be repeated as it is: the same claim id returns the same tasks, the same report the recorded
result. So while control is not reachable a worker keeps trying, and no report is lost.
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
_LAST_TRIES_PAUSE = 0.2  # while the worker stops
_REFUSED_SECONDS = 60.0  # a valid token may be unknown for a while, for example while control's database is restored

REFUSED = (Unauthenticated, Forbidden)  # control refuses this worker; a later try is refused as well


@dataclass(frozen=True)
class TimedAnswer(Generic[_Answer]):
    """`since`: when the answer arrived, or when the call was first sent if it took several tries. `sent`: when the call was first sent.

    Leases in the answer run from `sent` at the earliest, by this machine's clock: code that must stop before a lease ends counts from there.
    """

    value: _Answer
    since: float
    sent: float


class Retries:
    """How long to retry: until there is an answer, or for a limited time after the worker was stopped."""

    def __init__(self, stopping: threading.Event, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stopping: threading.Event = stopping
        self._clock: Callable[[], float] = clock
        self._was_let_in: bool = False

    def until_answered(self, call: Callable[[], _Answer], *, after_stop: float, broken_for: float = float("inf")) -> TimedAnswer[_Answer] | None:
        """The answer; None if the worker stops before there is one.

        Control's refusals are raised at once; the refusal of a token that was valid before, after a minute: finished work of a worker
        is not dropped for it. An unexpected failure inside control is retried like an outage, for at most `broken_for` seconds: it may be
        this call that causes it.
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
                # The first retry comes at once: most often a kept-alive connection was closed just before its use.
                pause = _BACKOFF.after(tries - 1, at_least=error.retry_after or 0)
                _say(tries, error, pause)
            else:
                self._was_let_in = True
                if tries:
                    _log.info("control answers again", tries=tries + 1)
                return TimedAnswer(value, began if tries else self._clock(), began)
            if self._stopping.wait(pause):
                stop_by = self._clock() + after_stop if stop_by is None else stop_by
                if self._clock() >= stop_by:
                    return None
                time.sleep(min(pause, _LAST_TRIES_PAUSE))

    def claim(self, call: Callable[[ClaimRequest], ClaimAnswer], request: ClaimRequest) -> TimedAnswer[ClaimAnswer] | None:
        """The answer to a claim. A stopping worker claims no more; tasks that control has just handed out are still returned, to be given back."""
        if self._stopping.is_set():
            return None
        answered = self.until_answered(lambda: call(request), after_stop=0)
        if answered is None:
            # The same claim without room takes no new task and returns those that it holds.
            without_room = request.model_copy(update={"room": {}, "wait_s": 0})
            answered = self.until_answered(lambda: call(without_room), after_stop=0)
        return answered

    def _may_pass(self, error: TracelakeError, tried_for: float, broken_for: float) -> bool:
        if isinstance(error, Unauthenticated):
            return self._was_let_in and tried_for < _REFUSED_SECONDS
        return tried_for < broken_for if is_broken(error) else passes(error)


def is_broken(error: TracelakeError) -> bool:
    """Whether control failed unexpectedly."""
    return type(error) is TracelakeError


def passes(error: TracelakeError) -> bool:
    """Whether a later try of the same call may succeed."""
    return is_broken(error) or isinstance(error, (NotRunning, OutcomeUnknown, Unavailable))


def _say(tries: int, error: TracelakeError, pause: float) -> None:
    # The first retry is normal; after that each doubling is logged.
    if tries > 1 and tries & (tries - 1) == 0:
        _log.warning("control does not answer", code=error.code, detail=error.detail, error_id=error.id, tries=tries, again_in_seconds=round(pause, 2))
