"""What is behind versions, ready for the wire, of those that were asked for last. Nothing of it ever changes."""

import threading
from collections import OrderedDict
from uuid import UUID

import orjson

_MOST_FILES = 500_000


class RememberedTables:
    def __init__(self, *, most_files: int = _MOST_FILES) -> None:
        self._most_files: int = most_files
        self._lock: threading.Lock = threading.Lock()
        self._known: OrderedDict[tuple[UUID, int], tuple[orjson.Fragment, int]] = OrderedDict()
        self._files: int = 0

    def find(self, key: tuple[UUID, int]) -> orjson.Fragment | None:
        with self._lock:
            if key not in self._known:
                return None
            self._known.move_to_end(key)
            return self._known[key][0]

    def add(self, key: tuple[UUID, int], spelt: orjson.Fragment, files: int) -> None:
        with self._lock:
            if key in self._known:
                return
            self._known[key] = (spelt, files)
            self._files += files + 1
            while self._files > self._most_files and len(self._known) > 1:
                _, (_, dropped) = self._known.popitem(last=False)
                self._files -= dropped + 1
