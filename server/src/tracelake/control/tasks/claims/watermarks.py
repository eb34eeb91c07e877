"""Watermarks: where in a pool's queue the next claim starts."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tracelake.control.tasks.claims.rows import QueuedTask

_WITHOUT_HINT_SECONDS = 5.0


@dataclass
class Watermarks:
    """Per pool the lowest `seq` that may still be queued: a hint that skips tasks claimed long ago.

    It never passes a row that was seen queued, locked or not. A task that it misses (its transaction drew an earlier
    number and committed late) is found by the claim that runs without it every few seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _low: dict[UUID, int] = field(default_factory=dict)
    _looked: dict[UUID, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def low(self, pool: UUID) -> int:
        with self._lock:
            if self.clock() - self._looked.get(pool, float("-inf")) >= _WITHOUT_HINT_SECONDS:
                self._looked[pool] = self.clock()
                return 0
            return self._low.get(pool, 0)

    def learn(self, pool: UUID, low: int | None) -> None:
        """`low` None: the query found nothing, so the watermark stays."""
        if low is not None:
            with self._lock:
                self._low[pool] = low


def next_low(queued: Sequence[QueuedTask], taken: Collection[UUID]) -> int | None:
    """After a query: the first task that another claim holds, else just past the last one. Pure."""
    for task in queued:
        if task.id not in taken:
            return task.seq
    return queued[-1].seq + 1 if queued else None
