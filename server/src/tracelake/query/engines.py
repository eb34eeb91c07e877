"""The engine processes of one query process: started when they are needed, handed to one query at a time, ended when one goes wrong or nobody asks."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

import structlog
from pydantic import BaseModel, ValidationError

from tracelake.launch import command_that_dies_with_us
from tracelake.query.engine_contract import Answer, EngineLimits, Read, Run, receive, send
from tracelake_sdk.errors import QueryAbandoned, QueryOverLimit, TooManyQueries, TracelakeError, Unavailable

_log = structlog.get_logger()

_MODULE = "tracelake.query.engine_process"
_GRACE_SECONDS = 1.0    # an engine stops a query by itself; one that has not done so by then is ended
_START_SECONDS = 30.0
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


def clean_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Nothing of Tracelake's own, and nothing that could be a secret."""
    kept = {name: value for name, value in environment.items() if name in _KEPT}
    return kept | {"TZ": "UTC", "HOME": str(folder), "ARROW_DEFAULT_MEMORY_POOL": "system"}


class EngineProcess:
    """One engine; whatever goes wrong with it, it is ended and another takes its place."""

    def __init__(self, limits: EngineLimits, folder: Path) -> None:
        self._limits: EngineLimits = limits
        # No capability is left, root's neither: files that are read-only stay as they are.
        command = command_that_dies_with_us(
            [sys.executable, "-m", _MODULE, limits.model_dump_json(), folder], death=signal.SIGKILL, rights="powerless"
        )
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment(os.environ, folder), cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        self._questions: IO[bytes] = cast("IO[bytes]", self._process.stdin)
        self._answers: IO[bytes] = cast("IO[bytes]", self._process.stdout)
        self._asked: bool = False
        self._is_abandoned: bool = False
        self.idle_since: float = time.monotonic()
        self.fit: bool = True

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self, question: Read) -> Answer:
        """Raises what the gate says of the statement."""
        return self._ask(question, self._limits.max_seconds)[0]

    def run(self, question: Run) -> tuple[Answer, bytes]:
        """Raises what became of the query where there is no result."""
        return self._ask(question, self._limits.max_seconds + _GRACE_SECONDS)

    def abandon(self) -> None:
        """From another thread: whoever waits for its answer gets QueryAbandoned, and another engine takes its place."""
        self._is_abandoned = True
        self._process.kill()

    def end(self) -> int:
        """Kills it, and says how it ended."""
        self.fit = False
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        for stream in (self._questions, self._answers):
            with suppress(OSError):
                stream.close()
        return code

    def _ask(self, question: BaseModel, seconds: float) -> tuple[Answer, bytes]:
        late = False
        try:
            send(self._questions, question)
            late = not self.wait_for_answer(seconds + (0 if self._asked else _START_SECONDS))
            frame = None if late else receive(self._answers)
        except (OSError, ValueError):
            frame = None
        if frame is None:
            raise self._died(late)
        self._asked = True
        try:
            answer = Answer.model_validate_json(frame[0])
        except ValidationError:
            self.end()
            raise TracelakeError("An engine gave an answer that is not understood.") from None
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
            return QueryOverLimit(f"The query took longer than {self._limits.max_seconds:g} seconds; ask for less, or in parts.", limit="time")
        if code < 0:
            return QueryOverLimit("The query used more of the machine than one may have, and its engine was ended; ask for less, or in parts.", limit="memory")
        return Unavailable("The engine could not be started; look into the log of the query process.", retry_after=1)

    def wait_for_answer(self, seconds: float) -> bool:
        """Whether it has said something, or has ended."""
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


class Listener:
    """Whoever asked; one who hangs up takes the engine with them."""

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
        """Raises QueryAbandoned where they have hung up before it begins."""
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
    """At most so many at a time; who comes later waits in line, for a while, and if the line is full not at all."""

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
        # They die with the thread that starts them, so it lives as long as this.
        self._starter: ThreadPoolExecutor = ThreadPoolExecutor(1, thread_name_prefix="engines")

    @contextmanager
    def engine(self) -> Generator[EngineProcess]:
        """One that is this query's alone; raises TooManyQueries."""
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
        self._starter.shutdown()

    def _take(self) -> EngineProcess:
        with self._change:
            if self._busy >= self._at_once:
                self._wait_in_line()
            self._busy += 1
            while self._free:
                engine = self._free.pop(0)  # the one that has had the most time to open its next connection
                if not engine.wait_for_answer(0):  # it says nothing unasked: one that does has ended
                    return engine
                engine.end()
        try:
            return self._starter.submit(EngineProcess, self._limits, self._folder).result()
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
                raise TooManyQueries(f"{self._at_once} queries run, and none ended within {self._patience:g} seconds; try again shortly.", retry_after=1)
        finally:
            self._waiting -= 1

    def _give_back(self, engine: EngineProcess) -> None:
        with self._change:
            self._busy -= 1
            if engine.fit:
                engine.idle_since = self._clock()
                self._free.append(engine)
            self._change.notify()
