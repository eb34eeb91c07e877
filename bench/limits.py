"""The limit: what raw SQL does on the same Postgres with nothing of a platform around it, no fence, no ledger, no history."""

import random
import threading
import time
from typing import Any

import psycopg

from bench.contenders import Contender, Stage
from bench.figures import BenchFailed, Measured

_SCHEMA = """
CREATE TABLE event (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, scope bigint NOT NULL);
CREATE TABLE task (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id bigint NOT NULL, state text NOT NULL DEFAULT 'queued');
CREATE INDEX task_queue ON task (id) WHERE state = 'queued';
"""
_EMIT = "WITH emitted AS (INSERT INTO event (scope) SELECT unnest(%s::bigint[]) RETURNING id) INSERT INTO task (event_id) SELECT id FROM emitted"
_CLAIM = """
UPDATE task SET state = 'running'
WHERE id IN (SELECT id FROM task WHERE state = 'queued' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id
"""
_COMPLETE = "UPDATE task SET state = 'completed' WHERE id = ANY(%s)"
_COMPLETE_AND_EMIT = """
WITH done AS (UPDATE task SET state = 'completed' WHERE id = ANY(%s)),
     emitted AS (INSERT INTO event (scope) SELECT unnest(%s::bigint[]) RETURNING id)
INSERT INTO task (event_id) SELECT id FROM emitted
"""
_CHANNEL = "bench_task"
_LONGEST_WAIT = 10.0


def batches(stage: Stage, size: int) -> Contender:
    """Event, task, claim and completion of `size` tasks at a time, each step its own durable commit."""
    name = "raw SQL, one by one" if size == 1 else f"raw SQL, {size} a batch"
    database, url = _fresh(stage)

    def run(n: int) -> Measured:
        with psycopg.connect(url, autocommit=True) as connection:
            start = time.perf_counter()
            for first in range(0, n, size):
                connection.execute(_EMIT, [list(range(first, min(first + size, n)))])
                _claim_and_complete(connection, size)
            return Measured(n, time.perf_counter() - start)

    return Contender(name, _server_version(url), run, database, is_limit=size > 1)


def fan_out(stage: Stage, size: int = 100) -> Contender:
    """One transaction emits all events; claims and completions come in batches."""
    database, url = _fresh(stage)

    def run(n: int) -> Measured:
        with psycopg.connect(url, autocommit=True) as connection:
            start = time.perf_counter()
            connection.execute(_EMIT, [list(range(n))])
            for _ in range(0, n, size):
                _claim_and_complete(connection, size)
            return Measured(n, time.perf_counter() - start)

    return Contender(f"raw SQL, {size} a batch", _server_version(url), run, database, is_limit=True)


def chain(stage: Stage) -> Contender:
    """Completing one task emits the event of the next, in one transaction."""
    database, url = _fresh(stage)

    def run(n: int) -> Measured:
        with psycopg.connect(url, autocommit=True) as connection:
            start = time.perf_counter()
            connection.execute(_EMIT, [[0]])
            for step in range(1, n):
                connection.execute(_COMPLETE_AND_EMIT, [_claim(connection, 1), [step]])
            _claim_and_complete(connection, 1)
            return Measured(n, time.perf_counter() - start)

    return Contender("raw SQL", _server_version(url), run, database, is_limit=True)


def notify(stage: Stage) -> Contender:
    """A listening claimer, woken by NOTIFY: from the commit that emitted the event to the claimed task."""
    database, url = _fresh(stage)

    def run(n: int) -> Measured:
        claimer = _Claimer(url)
        claimer.start()
        samples: list[float] = []
        start = time.perf_counter()
        with psycopg.connect(url, autocommit=True) as connection:
            for number in range(n):
                time.sleep(random.uniform(0.005, 0.015))
                with connection.transaction():
                    connection.execute(_EMIT, [[number]])
                    connection.execute("SELECT pg_notify(%s, '')", [_CHANNEL])
                emitted = time.perf_counter()
                samples.append((claimer.claimed_at() - emitted) * 1000)
        seconds = time.perf_counter() - start
        claimer.stop()
        return Measured(n, seconds, tuple(samples))

    return Contender("raw SQL and NOTIFY", _server_version(url), run, database, is_limit=True)


class _Claimer:
    """Waits for one notification at a time, claims, notes when it had the task, completes."""

    def __init__(self, url: str) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._claimed: list[float] = []
        self._changed: threading.Condition = threading.Condition()
        self._stopping: bool = False
        self._thread: threading.Thread = threading.Thread(target=self._run, name="claimer", daemon=True)

    def start(self) -> None:
        self._connection.execute(f"LISTEN {_CHANNEL}")  # pyright: ignore[reportArgumentType, reportCallIssue]  a constant of ours
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._thread.join(_LONGEST_WAIT)
        self._connection.close()

    def claimed_at(self) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: self._claimed, _LONGEST_WAIT):
                raise BenchFailed("a notification was lost")
            return self._claimed.pop()

    def _run(self) -> None:
        while not self._stopping:
            # Taken out first: the connection is the notifications' own until they are.
            for _ in list(self._connection.notifies(timeout=0.2, stop_after=1)):
                tasks = _claim(self._connection, 1)
                now = time.perf_counter()
                self._connection.execute(_COMPLETE, [tasks])
                with self._changed:
                    self._claimed.append(now)
                    self._changed.notify()


def _claim(connection: psycopg.Connection[Any], size: int) -> list[int]:
    return [id for (id,) in connection.execute(_CLAIM, [size]).fetchall()]


def _claim_and_complete(connection: psycopg.Connection[Any], size: int) -> None:
    connection.execute(_COMPLETE, [_claim(connection, size)])


def _fresh(stage: Stage) -> tuple[str, str]:
    database = stage.database("limit")
    url = stage.postgres.fresh(database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SCHEMA)
    return database, url


def _server_version(url: str) -> str:
    with psycopg.connect(url) as connection:
        return f"Postgres {connection.info.server_version // 10000}.{connection.info.server_version % 10000}"
