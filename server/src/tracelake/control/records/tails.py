"""Open streams of records: one query checks all of them and wakes those whose log has grown.

A stream that waits holds no thread and no database connection; the check is one statement, run after each local write and
once a second for writes of other processes whose wake-up was lost. Without an open stream nothing is checked.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from uuid import UUID

from tracelake.control.database.transactions import Database
from tracelake.control.records import store
from tracelake.loops import LONGEST_WAIT, Loop
from tracelake_sdk.errors.records import TooManyTails

RECORDS_STORED = "records"  # the topic of the wake-up
_LOOK_SECONDS = 1.0
_SOON_SECONDS = 0.02  # pause while an earlier transaction is still open before a stored record
_SOON_LOOKS = 10

Wake = Callable[[], None]


class Tails:
    def __init__(self, database: Database, *, most: int) -> None:
        self._database: Database = database
        self._most: int = most
        self._lock: threading.Lock = threading.Lock()
        self._open: dict[UUID, list[Wake]] = {}
        self._ends: dict[UUID, tuple[str | None, int | None]] = {}
        self._bell: threading.Event = threading.Event()
        self._looks_soon: int = 0
        self._closed: bool = False
        self.loop: Loop = Loop("tails", self._look_when_rung)

    def start(self) -> None:
        self.loop.start()

    def stop(self) -> None:
        self.loop.ask_to_stop()
        self.close()
        self.loop.stop(timeout=5)

    def close(self) -> None:
        """Ends every stream: the process stops."""
        with self._lock:
            self._closed = True
            waiting = [wake for wakes in self._open.values() for wake in wakes]
        for wake in waiting:
            wake()
        self._bell.set()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def number_open(self) -> int:
        with self._lock:
            return sum(len(wakes) for wakes in self._open.values())

    @contextmanager
    def open(self, org: UUID, wake: Wake) -> Generator[None]:
        """While it is open, `wake` is called when the org's log has grown. Raises TooManyTails."""
        with self._lock:
            if sum(len(wakes) for wakes in self._open.values()) >= self._most:
                raise TooManyTails(retry_after=1)
            self._open.setdefault(org, []).append(wake)
        self._bell.set()
        try:
            yield
        finally:
            with self._lock:
                self._open[org].remove(wake)
                if not self._open[org]:
                    del self._open[org]
                    self._ends.pop(org, None)

    def ring(self) -> None:
        """A record was stored; never blocks."""
        self._looks_soon = _SOON_LOOKS
        self._bell.set()

    def run_once(self) -> int:
        """Returns how many logs have grown since the last check."""
        with self._lock:
            orgs = list(self._open)
        if not orgs:
            return 0
        with self._database.transaction("look_at_tails") as tx:
            ends = store.tail_ends(tx, orgs)
        grown = [end.org_id for end in ends if self._ends.get(end.org_id) != (end.xid, end.seq)]
        self._ends |= {end.org_id: (end.xid, end.seq) for end in ends}
        with self._lock:
            woken = [wake for org in grown for wake in self._open.get(org, [])]
        for wake in woken:
            wake()
        return len(grown)

    def _look_when_rung(self) -> None:
        self._bell.wait(self._pause())
        self._bell.clear()
        if not self._closed and self.run_once():
            self._looks_soon = 0

    def _pause(self) -> float:
        if not self._open:
            return LONGEST_WAIT
        if self._looks_soon > 0:
            self._looks_soon -= 1
            return _SOON_SECONDS
        return _LOOK_SECONDS
