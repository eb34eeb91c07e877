"""A bounded cache: what was used last, up to a total weight and an age.

`functools.lru_cache` knows neither, nor how to forget one entry; cachetools knows both, but would be one more dependency of the SDK.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """For any number of threads. The newest entry is kept whatever it weighs; one that is not weighed weighs 1."""

    def __init__(
        self, most: float, *, weigh: Callable[[Value], float] = lambda value: 1, seconds: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most: float = most
        self._weigh: Callable[[Value], float] = weigh
        self._seconds: float = seconds
        self._clock: Callable[[], float] = clock
        self._lock: threading.Lock = threading.Lock()
        self._entries: OrderedDict[Key, tuple[Value, float]] = OrderedDict()  # with the moment at which each gets too old
        self._weight: float = 0

    def find(self, key: Key) -> Value | None:
        """None where it is not kept, or is too old."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[1] <= self._clock():
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Key, value: Value) -> None:
        with self._lock:
            self._remove(key)
            self._entries[key] = value, self._clock() + self._seconds
            self._weight += self._weigh(value)
            while self._weight > self._most and len(self._entries) > 1:
                self._remove(next(iter(self._entries)))

    def forget(self, key: Key) -> None:
        with self._lock:
            self._remove(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def find_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Two threads may make the same; what is made last is kept."""
        found = self.find(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def _remove(self, key: Key) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._weight -= self._weigh(entry[0])
