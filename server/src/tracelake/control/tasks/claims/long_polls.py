"""Long polls: who waits for which pool, and who is woken when something may be claimable there.

A waiter reads the counter before it looks, so that a wake-up between its look and its wait is not lost. One wake-up
wakes one waiter; a waiter that found all it could take passes it on.
"""

import threading
from collections import deque
from collections.abc import Sequence
from uuid import UUID


class Poll:
    """One caller's wait, which ends early when the caller hangs up."""

    def __init__(self) -> None:
        self.bell: threading.Event = threading.Event()
        self.gone: bool = False

    def hang_up(self) -> None:
        self.gone = True
        self.bell.set()


class WaitingRoom:
    """Who waits here holds a thread and nothing else; how many threads there are is the caller's bound."""

    def __init__(self) -> None:
        self._lock: threading.Lock = threading.Lock()
        self._counters: dict[UUID, int] = {}
        self._waiting: dict[UUID, deque[threading.Event]] = {}
        self._closed: bool = False

    def counters(self, pools: Sequence[UUID]) -> list[int]:
        with self._lock:
            return [self._counters.get(pool, 0) for pool in pools]

    def wait(self, poll: Poll, pools: Sequence[UUID], seen: list[int], seconds: float) -> None:
        """Returns when one of the pools was woken since `seen`, when the caller hung up, or after `seconds`."""
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
            # It will not look any more: the wake-up was meant for somebody who does.
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
        """The look every second that covers a lost wake-up: one waiter a pool, not all of them."""
        with self._lock:
            pools = [pool for pool, queue in self._waiting.items() if queue]
        for pool in pools:
            self.wake(pool)

    def close(self) -> None:
        """Sends everybody home: the process stops."""
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
