"""Leases: which attempts this worker holds, until when by its own clock, and what control answers to heartbeats."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import structlog

from tracelake.loops import LONGEST_WAIT, Loop
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.tasks import MAX_BATCH, ClaimedTask, Fence, HeartbeatRequest

_log = structlog.get_logger()


class Standing(StrEnum):
    """What a worker may still do with an attempt."""

    HELD = "held"          # run it, report it
    CANCELED = "canceled"  # a person canceled it: report that it has stopped
    LOST = "lost"          # it no longer belongs to this worker: drop it
    PASSED = "passed"      # its lease expired by this clock and was not renewed: do not start it


@dataclass
class _Held:
    fence: Fence
    until: float
    lease_seconds: float
    reported: Standing = Standing.HELD  # by control


class Leases:
    """Sends heartbeats for all held attempts at a third of the lease, in its own thread."""

    def __init__(self, control: TaskClient, worker: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._control: TaskClient = control
        self._worker: str = worker
        self._clock: Callable[[], float] = clock
        self._held: dict[UUID, _Held] = {}
        self._shortest: float = float("inf")
        self._lock: threading.Lock = threading.Lock()
        self._turned: threading.Event = threading.Event()
        self.loop: Loop = Loop("heartbeats", self._beat_when_due)

    def hold(self, claimed: Iterable[ClaimedTask], *, since: float) -> None:
        with self._lock:
            for task in claimed:
                lease = task.payload.limits.lease_seconds
                self._held[task.fence.task_id] = _Held(task.fence, since + lease, lease)
                if lease < self._shortest:
                    self._shortest = lease
                    self._turned.set()

    def release(self, tasks: Iterable[UUID]) -> None:
        with self._lock:
            for task in tasks:
                self._held.pop(task, None)

    def release_all(self) -> None:
        with self._lock:
            self._held.clear()

    @property
    def longest(self) -> float:
        """The longest lease among what is held, in seconds."""
        with self._lock:
            return max((held.lease_seconds for held in self._held.values()), default=0)

    def standing(self, task: UUID) -> Standing:
        with self._lock:
            held = self._held.get(task)
        if held is None:
            return Standing.LOST
        if held.reported is Standing.HELD and self._clock() >= held.until:
            return Standing.PASSED
        return held.reported

    def remaining(self, task: UUID) -> float:
        """Seconds until the lease expires by this clock; 0 if it is not held."""
        with self._lock:
            held = self._held.get(task)
        return held.until - self._clock() if held else 0

    def lease_of(self, task: UUID) -> float:
        """How long its lease is, in seconds."""
        with self._lock:
            held = self._held.get(task)
        return held.lease_seconds if held else 0

    def start(self) -> None:
        self.loop.start()

    def close(self) -> None:
        self.loop.ask_to_stop()
        self._turned.set()

    def run_once(self) -> None:
        """One heartbeat for everything that is held; silent when nothing is."""
        with self._lock:
            fences = [held.fence for held in self._held.values() if held.reported is Standing.HELD]
        for first in range(0, len(fences), MAX_BATCH):
            self._beat(fences[first : first + MAX_BATCH])

    def _beat(self, fences: list[Fence]) -> None:
        sent = self._clock()
        try:
            answer = self._control.heartbeat(HeartbeatRequest(worker=self._worker, fences=fences))
        except TracelakeError as error:
            # The next heartbeat comes before the lease ends; if none is answered, control hands the tasks to another worker.
            _log.warning("a heartbeat was not answered", code=error.code, held=len(fences))
            return
        attempts = {fence.task_id: fence.attempt for fence in fences}
        with self._lock:
            for task, attempt in attempts.items():
                held = self._held.get(task)
                if held is None or held.fence.attempt != attempt:
                    continue
                if task in answer.expires_at:
                    held.until = sent + held.lease_seconds
                if task in answer.cancel:
                    held.reported = Standing.CANCELED
                elif task in answer.lost:
                    held.reported = Standing.LOST

    def _beat_when_due(self) -> None:
        # Woken early if a shorter lease than all before was handed out.
        if not self._turned.wait(LONGEST_WAIT if self._shortest == float("inf") else self._shortest / 3):
            self.run_once()
        self._turned.clear()
