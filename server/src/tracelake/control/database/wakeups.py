"""Wake-ups: notify waiting threads, here and in other processes, that there is something to do.

A wake-up is a hint and may be lost; waiters also poll once a second. It is sent after the commit, together with
others, on a separate connection: NOTIFY inside a transaction makes commits wait for each other.
"""

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import LiteralString

import psycopg

from tracelake.control.database import failures
from tracelake.loops import LONGEST_WAIT, Loop

CHANNEL = "tracelake"
_LONGEST_PAYLOAD = 7000  # Postgres takes 8000 bytes


class WakeUps:
    """Sends topics to every process and calls `on_wake_up` for topics of other processes, and at once for its own."""

    def __init__(self, url: str, on_wake_up: Callable[[str], None]) -> None:
        self._on_wake_up: Callable[[str], None] = on_wake_up
        self._me: str = uuid.uuid4().hex[:12]
        self._pending: set[str] = set()
        self._changed: threading.Condition = threading.Condition()
        sending, listening = _Connection(url), _Connection(url, first="LISTEN tracelake")
        self._connections: tuple[_Connection, ...] = (sending, listening)
        self.loops: list[Loop] = [Loop("notify", lambda: sending.use(self._send)), Loop("listen", lambda: listening.use(self._listen))]

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        for loop in self.loops:
            loop.ask_to_stop()
        with self._changed:
            self._changed.notify_all()
        for loop in self.loops:
            loop.stop(timeout=5)
        for connection in self._connections:
            connection.close()

    def send(self, topics: Iterable[str]) -> None:
        """Call it after the commit. It never blocks and never fails."""
        new = set(topics)
        if not new:
            return
        for topic in new:
            self._on_wake_up(topic)
        with self._changed:
            self._pending |= new
            self._changed.notify()

    def _send(self, connection: psycopg.Connection) -> None:
        with self._changed:
            if not self._pending:
                self._changed.wait(LONGEST_WAIT)
            topics, self._pending = sorted(self._pending), set()
        while topics:
            payload = self._me
            while topics and len(payload) + len(topics[-1]) < _LONGEST_PAYLOAD:
                payload += " " + topics.pop()
            connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])

    def _listen(self, connection: psycopg.Connection) -> None:
        for notice in connection.notifies(timeout=0.25):
            sender, *topics = notice.payload.split(" ")
            if sender != self._me:
                for topic in topics:
                    self._on_wake_up(topic)


class _Connection:
    """A separate connection that is opened on first use; after a failure the next use opens it again."""

    def __init__(self, url: str, *, first: LiteralString | None = None) -> None:
        self._url: str = url
        self._first: LiteralString | None = first  # the first statement of a new connection
        self._open: psycopg.Connection | None = None

    def use(self, step: Callable[[psycopg.Connection], None]) -> None:
        try:
            step(self._opened())
        except psycopg.Error as error:
            self.close()
            failures.raise_if_away(error)
            raise

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _opened(self) -> psycopg.Connection:
        if self._open is None:
            self._open = psycopg.connect(self._url, autocommit=True, application_name="tracelake-wakeups")
            if self._first is not None:
                self._open.execute(self._first)
        return self._open
