"""Loops: work that a process repeats in the background until it stops; a failure does not end it.

Every thread of a process that repeats something is a `Loop`. A turn that fails is logged and counted, and the next one follows after
a pause that doubles. Several failures in a row make the loop *failing*, which the process shows until a turn succeeds again.
SystemExit and KeyboardInterrupt are not caught; a loop whose thread ended without a stop request is failing too.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from tracelake.failures import described
from tracelake_sdk.backoff import Backoff
from tracelake_sdk.errors import NotReady, TracelakeError

FAILING_AFTER = 3       # failed turns in a row
LONGEST_WAIT = 5.0      # seconds that a turn may wait for work, so that the age of the last success stays meaningful
ENDED = "ended"         # the code of a loop whose thread has ended
_BACKOFF = Backoff(first=0.2, longest=5.0)

_log = structlog.get_logger()

Reason = dict[str, str]  # `what` fails, with its `code`

@dataclass(frozen=True)
class LoopStatus:
    """The state of a loop at one moment."""

    name: str
    failures: int                 # failed turns since the process started
    code: str | None              # of the last failure while the loop is failing, else None
    since_success_seconds: float  # since the last turn that succeeded, or since the start

    @property
    def failing(self) -> bool:
        return self.code is not None


class Loop:
    """`run_once` is called again at once while it returns something true, else after `pause` seconds.

    A `run_once` that waits for work needs no pause; it must return after LONGEST_WAIT at the latest, and the code that stops the loop must wake it.
    `ends_on` names the errors that end the loop because no later turn can succeed; the owner of the loop must report them.
    """

    def __init__(
        self,
        name: str,
        run_once: Callable[[], object],
        *,
        pause: float = 0,
        ends_on: tuple[type[Exception], ...] = (),
        clock: Callable[[], float] = time.monotonic,
        log: Any = _log,
    ) -> None:
        self.name: str = name
        self.run_once: Callable[[], object] = run_once
        self.pause: float = pause
        self._log: Any = log
        self._ends_on: tuple[type[Exception], ...] = ends_on
        self._clock: Callable[[], float] = clock
        self._succeeded_at: float = clock()
        self._failures: int = 0
        self._in_a_row: int = 0
        self._code: str = ""
        self._stopping: threading.Event = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def status(self) -> LoopStatus:
        ended = self._thread is not None and not self._thread.is_alive() and not self.stopping
        code = ENDED if ended else self._code if self._in_a_row >= FAILING_AFTER else None
        return LoopStatus(self.name, self._failures, code, self._clock() - self._succeeded_at)

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._succeeded_at = self._clock()
        thread = threading.Thread(target=self._repeat, name=self.name, daemon=True)
        thread.start()
        self._thread = thread  # only now: a thread that has not started looks like one that has ended

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self, timeout: float = 10) -> None:
        """Waits for the current turn, at most that long; does nothing if the loop was not started."""
        self.ask_to_stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def take_turn(self) -> float:
        """Runs one turn; returns how many seconds to pause before the next."""
        try:
            busy = self.run_once()
        except self._ends_on:
            raise
        except Exception as error:
            self._fail(error)
            return _BACKOFF.after(self._in_a_row)
        self._succeed()
        return 0 if busy else self.pause

    def count(self, error: Exception, **facts: object) -> None:
        """Counts and logs the failure of one item, so that the turn continues with the others."""
        self._failures += 1
        log_failure("an item of a loop failed", error, log=self._log, loop=self.name, **facts)

    def _repeat(self) -> None:
        with suppress(*self._ends_on):
            while not self.stopping:
                if pause := self.take_turn():
                    self._stopping.wait(pause)

    def _succeed(self) -> None:
        if self._in_a_row >= FAILING_AFTER:
            self._log.info("a loop works again", loop=self.name, failed_turns=self._in_a_row)
        self._in_a_row = 0
        self._succeeded_at = self._clock()

    def _fail(self, error: Exception) -> None:
        self._code = code_of(error)
        self._failures += 1
        self._in_a_row += 1
        if _worth_a_line(self._in_a_row):
            log_failure("a loop failed", error, log=self._log, loop=self.name, in_a_row=self._in_a_row, again_in_seconds=round(_BACKOFF.after(self._in_a_row), 1))


class Loops:
    """All loops of one process."""

    def __init__(self) -> None:
        self._loops: list[Loop] = []

    def add(self, loops: Iterable[Loop]) -> None:
        """Includes them in status and readiness; their owner starts and stops them."""
        self._loops += loops

    def start(self, loop: Loop) -> None:
        self._loops = [kept for kept in self._loops if kept.alive or not kept.stopping]
        self._loops.append(loop)
        loop.start()

    def stop(self, timeout: float = 10) -> None:
        for loop in self._loops:
            loop.ask_to_stop()
        for loop in self._loops:
            loop.stop(timeout)

    def statuses(self) -> list[LoopStatus]:
        return [loop.status for loop in self._loops]

    def broken(self) -> LoopStatus | None:
        """A loop that fails for a reason that does not go away by itself: an unexpected error, or the end of its thread."""
        return next((status for status in self.failing() if status.code in (TracelakeError.code, ENDED)), None)

    def reasons(self) -> list[Reason]:
        """Why the process is not ready: each loop that is failing."""
        return [{"what": f"loop {status.name}", "code": status.code or ""} for status in self.failing()]

    def failing(self) -> list[LoopStatus]:
        return [status for status in self.statuses() if status.failing]


def not_ready(reasons: Sequence[Reason]) -> NotReady:
    named = ", ".join(f"{reason['what']} ({reason['code']})" for reason in reasons)
    return NotReady(f"This process is not ready: {named}. It becomes ready by itself when these work again.", retry_after=1, reasons=list(reasons))


def code_of(error: Exception) -> str:
    """The stable code of an error; `internal` for an unexpected one."""
    return error.code if isinstance(error, TracelakeError) else TracelakeError.code


def log_failure(event: str, error: Exception, *, log: Any = None, **facts: object) -> None:
    """Logs the error's code if it has one, else its class and where it was raised, never its message."""
    log = _log if log is None else log
    if isinstance(error, TracelakeError):
        log.warning(event, code=error.code, **facts)
        return
    log.error(event, code=code_of(error), **described(error), **facts)


def _worth_a_line(failures: int) -> bool:
    """Log the first failures, then each doubling of their number: a long outage must not fill the disk."""
    return failures <= FAILING_AFTER or failures & (failures - 1) == 0
