"""Long polls: who waits for which pool, and who is woken when something may be claimable there.

A waiter reads the counter before it queries, so that a wake-up between its query and its wait is not lost. One wake-up
wakes one waiter; a waiter that took all it could passes it on.
"""

import threading
from collections import deque
from collections.abc import Sequence
from uuid import UUID


class Poll:
    """One caller's wait, which ends early when the caller disconnects."""

    def __init__(self) -> None:
        self.bell: threading.Event = threading.Event()
        self.gone: bool = False

    def hang_up(self) -> None:
        self.gone = True
        self.bell.set()


class WaitingRoom:
    """A waiter holds only a thread; the caller bounds the number of threads."""

    def __init__(self) -> None:
        self._lock: threading.Lock = threading.Lock()
        self._counters: dict[UUID, int] = {}
        self._waiting: dict[UUID, deque[threading.Event]] = {}
        self._closed: bool = False

    def counters(self, pools: Sequence[UUID]) -> list[int]:
        with self._lock:
            return [self._counters.get(pool, 0) for pool in pools]

    def wait(self, poll: Poll, pools: Sequence[UUID], seen: list[int], seconds: float) -> None:
        """Returns when one of the pools was woken since `seen`, when the caller disconnected, or after `seconds`."""
        with self._lock:
            poll.bell.clear()
            if poll.gone or self._closed or [self._counters.get(pool, 0) for pool in pools] != seen:
                return
            for pool in pools:
                self._waiting.setdefault(pool, deque()).append(poll.bell)
        rang = poll.bell.wait(seconds)
        with self._lock:
            for pool in pools:
                if poll.bell in self._waiting[pool]:
                    self._waiting[pool].remove(poll.bell)
        if poll.gone or (not rang and poll.bell.is_set()):
            # This waiter does not query again: pass the wake-up on.
            for pool in pools:
                self.wake(pool)

    def wake(self, pool: UUID) -> None:
        with self._lock:
            self._counters[pool] = self._counters.get(pool, 0) + 1
            queue = self._waiting.get(pool)
            while queue:
                bell = queue.popleft()
                if not bell.is_set():
                    bell.set()
                    return

    def wake_each_pool(self) -> None:
        """The poll every second that covers a lost wake-up: one waiter per pool, not all of them."""
        with self._lock:
            pools = [pool for pool, queue in self._waiting.items() if queue]
        for pool in pools:
            self.wake(pool)

    def close(self) -> None:
        """Ends every wait: the process stops."""
        with self._lock:
            self._closed = True
            bells = [bell for queue in self._waiting.values() for bell in queue]
        for bell in bells:
            bell.set()

    @property
    def number_waiting(self) -> int:
        with self._lock:
            return sum(len(queue) for queue in self._waiting.values())

    @property
    def closed(self) -> bool:
        return self._closed
