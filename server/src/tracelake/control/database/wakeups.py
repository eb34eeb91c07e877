"""Wake-ups: telling waiting threads, here and in other processes, that there is something to look at.

A wake-up is a hint and may be lost; whoever waits also looks once a second. It is sent after the commit, joined with
others, from a connection of its own: NOTIFY inside a transaction makes commits wait for each other.
"""

import threading
import uuid
from collections.abc import Callable, Iterable

import psycopg
import structlog

CHANNEL = "tracelake"
_LONGEST_PAYLOAD = 7000  # Postgres takes 8000 bytes
_log = structlog.get_logger()


class WakeUps:
    """Sends topics to every process and hands those of other processes to `heard`; its own are handed over at once."""

    def __init__(self, url: str, heard: Callable[[str], None]) -> None:
        self._url: str = url
        self._heard: Callable[[str], None] = heard
        self._me: str = uuid.uuid4().hex[:12]
        self._pending: set[str] = set()
        self._changed: threading.Condition = threading.Condition()
        self._stopping: threading.Event = threading.Event()
        self._threads: list[threading.Thread] = [
            threading.Thread(target=self._repeat, args=[turn], name=name, daemon=True) for name, turn in (("notify", self._send), ("listen", self._listen))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)

    def send(self, topics: Iterable[str]) -> None:
        """Call it after the commit. It never waits and never fails."""
        new = set(topics)
        if not new:
            return
        for topic in new:
            self._heard(topic)
        with self._changed:
            self._pending |= new
            self._changed.notify()

    def _repeat(self, turn: Callable[[psycopg.Connection], None]) -> None:
        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, application_name="tracelake-wakeups") as connection:
                    while not self._stopping.is_set():
                        turn(connection)
            except psycopg.Error as error:
                _log.warning("wake-ups are interrupted; the look every second goes on", error=type(error).__name__)
                self._stopping.wait(1)

    def _send(self, connection: psycopg.Connection) -> None:
        with self._changed:
            while not self._pending:
                if self._stopping.is_set():
                    return
                self._changed.wait()
            topics, self._pending = sorted(self._pending), set()
        while topics:
            payload = self._me
            while topics and len(payload) + len(topics[-1]) < _LONGEST_PAYLOAD:
                payload += " " + topics.pop()
            connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])

    def _listen(self, connection: psycopg.Connection) -> None:
        connection.execute("LISTEN tracelake")
        while not self._stopping.is_set():
            for notice in connection.notifies(timeout=0.25):
                sender, *topics = notice.payload.split(" ")
                if sender != self._me:
                    for topic in topics:
                        self._heard(topic)
                if self._stopping.is_set():
                    return
