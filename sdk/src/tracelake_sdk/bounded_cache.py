"""A bounded LRU cache with a maximum total weight and a maximum age.

`functools.lru_cache` supports neither, and cannot drop one entry; cachetools supports both, but would be one more dependency of the SDK.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Thread-safe. The newest entry is kept even if it is heavier than the limit; the default weight is 1."""

    def __init__(
        self, most: float, *, weigh: Callable[[Value], float] = lambda value: 1, seconds: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most: float = most
        self._weigh: Callable[[Value], float] = weigh
        self._seconds: float = seconds
        self._clock: Callable[[], float] = clock
        self._lock: threading.Lock = threading.Lock()
        self._entries: OrderedDict[Key, tuple[Value, float]] = OrderedDict()  # with the time at which each expires
        self._weight: float = 0

    def find(self, key: Key) -> Value | None:
        """None if the key is not cached, or its entry has expired."""
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
        """Two threads may compute the same value; the last one is kept."""
        found = self.find(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def _remove(self, key: Key) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._weight -= self._weigh(entry[0])
