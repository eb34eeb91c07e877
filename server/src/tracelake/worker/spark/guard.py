"""Guarding: ends operators that may not continue, by the worker's own clock and in its own thread.

The thread of an operator's slot may be blocked in a call to control; the guard does not wait for it.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

import structlog

from tracelake.loops import Loop, log_failure
from tracelake.worker.leases import Leases, Standing
from tracelake.worker.spark.operator_processes import OperatorRun

_log = structlog.get_logger()

_LOOK_SECONDS = 0.05
_EARLY = 1 / 6  # of the lease: an operator is ended before another worker may start the task


class Ended(StrEnum):
    """Why an operator was ended."""

    CANCELED = "canceled"        # a person canceled it
    LOST = "lost"                # the attempt belongs to another worker
    LEASE = "lease"              # no heartbeat was answered, and the lease is about to end
    TIMED_OUT = "timed_out"      # it ran longer than its job allows
    STOPPED = "stopped"          # the worker stops and has waited long enough


@dataclass
class Watched:
    """One running operator; `ended` once it was ended from here."""

    task: UUID
    run: OperatorRun
    deadline: float
    ended: Ended | None = field(default=None)


class Guard:
    """`run_once()` checks every running operator."""

    def __init__(self, leases: Leases, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._leases: Leases = leases
        self._clock: Callable[[], float] = clock
        self._watched: list[Watched] = []
        self._lock: threading.Lock = threading.Lock()
        self._stop_at: float = float("inf")
        self.loop: Loop = Loop("guard", self.run_once, pause=_LOOK_SECONDS)

    def start(self) -> None:
        self.loop.start()

    def close(self) -> None:
        self.loop.ask_to_stop()

    def stop_in(self, seconds: float) -> None:
        """Operators that still run after that time are ended."""
        self._stop_at = min(self._stop_at, self._clock() + seconds)

    @contextmanager
    def watching(self, task: UUID, run: OperatorRun, seconds: float) -> Generator[Watched]:
        watched = Watched(task, run, self._clock() + seconds)
        with self._lock:
            self._watched.append(watched)
        try:
            yield watched
        finally:
            with self._lock:
                self._watched.remove(watched)

    def why_not(self, task: UUID, deadline: float = float("inf")) -> Ended | None:
        """Why an attempt may not continue; None while it may."""
        now = self._clock()
        match self._leases.standing(task):
            case Standing.CANCELED:
                return Ended.CANCELED
            case Standing.LOST:
                return Ended.LOST
            case Standing.PASSED:
                return Ended.LEASE
            case Standing.HELD if self._leases.remaining(task) < _EARLY * self._leases.lease_of(task):
                return Ended.LEASE
            case Standing.HELD:
                if now >= deadline:
                    return Ended.TIMED_OUT
                return Ended.STOPPED if now >= self._stop_at else None

    def run_once(self) -> None:
        with self._lock:
            running = [watched for watched in self._watched if watched.ended is None]
        for watched in running:
            why = self.why_not(watched.task, watched.deadline)
            if why is not None:
                watched.ended = why
                _log.info("an operator is ended", task_id=str(watched.task), why=why.value)
                # In its own thread: ending an order in a warm process may take a moment, and the others must not wait.
                threading.Thread(target=_end, args=(watched,), name="end-operator", daemon=True).start()


def _end(watched: Watched) -> None:
    try:
        watched.run.end()
    except Exception as error:
        log_failure("an operator was not ended; the next check tries again", error, task_id=str(watched.task))
        watched.ended = None
