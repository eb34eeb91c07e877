"""The engine processes of one query process: started on demand, used by one query at a time, ended when they fail or are idle."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import structlog
from pydantic import BaseModel, ValidationError

from tracelake.child_processes import ChildProcess, Starter, clean_environment
from tracelake.query.engine.contract import Answer, EngineLimits, ReadRequest, RunRequest, receive, send
from tracelake_sdk.errors import QueryAbandoned, QueryOverLimit, TooManyQueries, TracelakeError, Unavailable

_log = structlog.get_logger()

_MODULE = "tracelake.query.engine.process"
_GRACE_SECONDS = 1.0    # an engine stops a query at its time limit; if it has not done so after this time, it is ended
_START_SECONDS = 30.0
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


class EngineProcess:
    """One engine; after any failure it is ended and replaced by another."""

    def __init__(self, starter: Starter, limits: EngineLimits, folder: Path) -> None:
        self._limits: EngineLimits = limits
        # No capabilities, not even as root: read-only files cannot be changed.
        self._process: ChildProcess = starter.start(
            [sys.executable, "-m", _MODULE, limits.model_dump_json(), folder], environment=_environment(folder), folder=folder,
            stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, rights="powerless",
        )  # fmt: skip
        self._has_answered: bool = False
        self._is_abandoned: bool = False
        self.idle_since: float = time.monotonic()
        self.fit: bool = True

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self, question: ReadRequest) -> Answer:
        """Raises the gate's refusal of the statement."""
        return self._ask(question, self._limits.max_seconds)[0]

    def run(self, question: RunRequest) -> tuple[Answer, bytes]:
        """Raises the query's error if there is no result."""
        return self._ask(question, self._limits.max_seconds + _GRACE_SECONDS)

    def abandon(self) -> None:
        """Called from another thread: the thread that waits for the answer gets QueryAbandoned, and another engine replaces this one."""
        self._is_abandoned = True
        self._process.send(signal.SIGKILL)

    def end(self) -> int:
        """Kills it and returns its exit code."""
        self.fit = False
        code = self._process.end()
        self._process.close_pipes()
        return code

    def _ask(self, question: BaseModel, seconds: float) -> tuple[Answer, bytes]:
        late = False
        try:
            send(self._process.stdin, question)
            late = not self.wait_for_answer(seconds + (0 if self._has_answered else _START_SECONDS))
            frame = None if late else receive(self._process.stdout)
        except (OSError, ValueError):
            frame = None
        if frame is None:
            raise self._died(late)
        self._has_answered = True
        try:
            answer = Answer.model_validate_json(frame[0])
        except ValidationError:
            self.end()
            raise TracelakeError("An engine returned an invalid answer.") from None
        if answer.unfit:
            self.end()
        if answer.problem is not None:
            raise answer.problem.error()
        return answer, frame[1]

    def _died(self, late: bool) -> TracelakeError:
        code = self.end()
        if self._is_abandoned:
            return QueryAbandoned()
        _log.warning("an engine ended in the middle of a query", pid=self.pid, exit_code=code, late=late)
        if late:
            return QueryOverLimit(f"The query took longer than {self._limits.max_seconds:g} seconds; select less, or split the query.", limit="time")
        if code < 0:
            return QueryOverLimit("The query used more resources than allowed, and its engine was stopped; select less, or split the query.", limit="memory")
        return Unavailable("The query engine could not be started; see the log of the query process.", retry_after=1)

    def wait_for_answer(self, seconds: float) -> bool:
        """Whether there is output to read, or the engine has ended."""
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def _environment(folder: Path) -> dict[str, str]:
    """No variable of Tracelake, and none that could be a secret."""
    return clean_environment(os.environ, _KEPT) | {"TZ": "UTC", "HOME": str(folder), "ARROW_DEFAULT_MEMORY_POOL": "system"}


class Listener:
    """The client of a query; its disconnect ends the engine that runs the query."""

    def __init__(self) -> None:
        self._lock: threading.Lock = threading.Lock()
        self._has_hung_up: bool = False
        self._engine: EngineProcess | None = None

    def hang_up(self) -> None:
        with self._lock:
            self._has_hung_up = True
            if self._engine is not None:
                self._engine.abandon()

    @contextmanager
    def listening_to(self, engine: EngineProcess) -> Generator[None]:
        """Raises QueryAbandoned if the client has already disconnected."""
        with self._lock:
            if self._has_hung_up:
                raise QueryAbandoned
            self._engine = engine
        try:
            yield
        finally:
            with self._lock:
                self._engine = None


class Engines:
    """At most `at_once` engines; further queries wait in line for a limited time, and are refused if the line is full."""

    def __init__(
        self, limits: EngineLimits, folder: Path, *, at_once: int, waiting: int, patience: float, idle_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits: EngineLimits = limits
        self._folder: Path = folder
        self._at_once: int = at_once
        self._most_waiting: int = waiting
        self._patience: float = patience
        self._idle_seconds: float = idle_seconds
        self._clock: Callable[[], float] = clock
        self._free: list[EngineProcess] = []
        self._busy: int = 0
        self._waiting: int = 0
        self._change: threading.Condition = threading.Condition()
        self._starter: Starter = Starter()

    @contextmanager
    def engine(self) -> Generator[EngineProcess]:
        """An engine for the exclusive use of one query; raises TooManyQueries."""
        engine = self._take()
        try:
            yield engine
        finally:
            self._give_back(engine)

    @property
    def pids(self) -> list[int]:
        with self._change:
            return [engine.pid for engine in self._free]

    def end_idle(self) -> int:
        """Ends those that had no query for a while; returns how many."""
        with self._change:
            old = [engine for engine in self._free if self._clock() - engine.idle_since > self._idle_seconds]
            self._free = [engine for engine in self._free if engine not in old]
        for engine in old:
            engine.end()
        return len(old)

    def close(self) -> None:
        with self._change:
            ended, self._free = self._free, []
        for engine in ended:
            engine.end()
        self._starter.close()

    def _take(self) -> EngineProcess:
        with self._change:
            if self._busy >= self._at_once:
                self._wait_in_line()
            self._busy += 1
            while self._free:
                engine = self._free.pop(0)  # the one that had the most time to open its next connection
                if not engine.wait_for_answer(0):  # an idle engine sends nothing: output means that it has ended
                    return engine
                engine.end()
        try:
            return EngineProcess(self._starter, self._limits, self._folder)
        except BaseException:
            with self._change:
                self._busy -= 1
                self._change.notify()
            raise

    def _wait_in_line(self) -> None:
        if self._waiting >= self._most_waiting:
            raise TooManyQueries(retry_after=1)
        self._waiting += 1
        try:
            if not self._change.wait_for(lambda: self._busy < self._at_once, self._patience):
                raise TooManyQueries(f"{self._at_once} queries are running, and none ended within {self._patience:g} seconds; try again shortly.", retry_after=1)
        finally:
            self._waiting -= 1

    def _give_back(self, engine: EngineProcess) -> None:
        with self._change:
            self._busy -= 1
            if engine.fit:
                engine.idle_since = self._clock()
                self._free.append(engine)
            self._change.notify()
