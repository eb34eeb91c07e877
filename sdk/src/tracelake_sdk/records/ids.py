"""Ids of records: UUIDv7, increasing within one open repository even if the clock does not advance."""

import os
import threading
import time
from uuid import UUID

_COUNTER_BITS = 12


class RecordIds:
    """Makes ids; each is greater than the one before."""

    def __init__(self) -> None:
        self._lock: threading.Lock = threading.Lock()
        self._last: int = 0  # milliseconds and counter in one number

    def new(self) -> UUID:
        now = time.time_ns() // 1_000_000 << _COUNTER_BITS
        with self._lock:
            self._last = max(now, self._last + 1)
            moment = self._last
        milliseconds, counter = moment >> _COUNTER_BITS, moment & (1 << _COUNTER_BITS) - 1
        random = int.from_bytes(os.urandom(8)) >> 2
        return UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | random)
