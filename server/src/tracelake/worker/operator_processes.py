"""How operator programs run: a warm process that is given one order after another, or a program started for one order.

Neither holds a token. What they did is told by the outcome file alone; these classes only know whether they still run.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Protocol

import structlog

from tracelake.loops import log_failure
from tracelake.worker.operators.contract import OperatorFailed
from tracelake.worker.process_groups import BoundedLog, Chaos, ProcessGroup, Starter

_log = structlog.get_logger()

_CANCEL_SECONDS = 5.0      # for a warm process to stop one order by itself, before the whole process is ended
_GOODBYE_SECONDS = 10.0    # for a warm process to end after its input did
_LONGEST_LINE = 1_000_000

NO_CREDENTIALS: Mapping[str, str] = MappingProxyType({})
Progress = Callable[[Mapping[str, Any]], None]
Explain = Callable[[], OperatorFailed | None]


class Run(Protocol):
    """One order that is being worked on, or was."""

    def wait(self, seconds: float) -> bool:
        """Whether it ended within that time."""
        ...

    def end(self) -> None:
        """Stops it, whatever it does; it is over when this returns."""
        ...

    @property
    def exit_code(self) -> int | None:
        """How its process ended; None while that goes on."""
        ...

    def why_never_ready(self) -> OperatorFailed | None:
        """What this machine lacks, where its process ended before it was ready to work."""
        ...


class OperatorProcess(Protocol):
    """A way to run operator programs."""

    def start(self, order: Path, id: str, progress: Progress, credentials: Mapping[str, str] = NO_CREDENTIALS) -> Run:
        """`credentials`: environment variables with those of this order alone. A process that is shared reads them from the file that the order names."""
        ...

    def stop_idle(self) -> None:
        """Ends what has had nothing to do for too long."""
        ...

    def close(self) -> None:
        """Ends everything."""
        ...


class OperatorProcesses:
    """Which process runs which operator: its own command where the settings name one, else the warm host, where there is one."""

    def __init__(self, commands: Mapping[str, OperatorProcess], host: OperatorProcess | None) -> None:
        self._commands: dict[str, OperatorProcess] = dict(commands)
        self._host: OperatorProcess | None = host

    @property
    def able(self) -> bool:
        """Whether any operator can run here."""
        return bool(self._commands) or self._host is not None

    def of(self, operator: str) -> OperatorProcess:
        process = self._commands.get(operator, self._host)
        if process is None:
            raise OperatorFailed("runtime_missing", "This worker has no Spark; install the package tracelake-spark.", retry=True)
        return process

    def stop_idle(self) -> None:
        for process in self._all():
            process.stop_idle()

    def close(self) -> None:
        for process in self._all():
            process.close()

    def _all(self) -> list[OperatorProcess]:
        return [*self._commands.values(), *([self._host] if self._host else [])]


class CommandProcess:
    """A program that is started for one order, which it finds under the path that is its last argument."""

    def __init__(self, starter: Starter, command: Sequence[str], *, environment: Mapping[str, str], log: BoundedLog, chaos: Chaos) -> None:
        self._starter: Starter = starter
        self._command: list[str] = list(command)
        self._environment: dict[str, str] = dict(environment)
        self._log: BoundedLog = log
        self._chaos: Chaos = chaos

    def start(self, order: Path, id: str, progress: Progress, credentials: Mapping[str, str] = NO_CREDENTIALS) -> Run:
        environment = self._environment | self._chaos.environment() | dict(credentials)
        group = self._starter.start([*self._command, str(order)], environment=environment, folder=order.parent, talks=False)
        if group.stdout:
            self._log.follow(group.stdout)
        return _CommandRun(group, self._chaos)

    def stop_idle(self) -> None:
        """Nothing is kept between two orders."""

    def close(self) -> None:
        """Each run is ended by whoever started it."""


class _CommandRun:
    def __init__(self, group: ProcessGroup, chaos: Chaos) -> None:
        self._group: ProcessGroup = group
        self._chaos: Chaos = chaos
        self._exit_code: int | None = None

    def wait(self, seconds: float) -> bool:
        if self._exit_code is None and self._group.wait(seconds):
            self._exit_code = self._group.end()  # also what it started and left behind
            self._chaos.ended(self._exit_code)
        return self._exit_code is not None

    def end(self) -> None:
        self._exit_code = self._group.end()

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def why_never_ready(self) -> OperatorFailed | None:
        return None


class HostProcess:
    """A warm process that speaks JSON lines: started with the first order, replaced when it is poisoned or dead, ended when idle."""

    def __init__(
        self, starter: Starter, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: BoundedLog,
        chaos: Chaos, idle_seconds: float, explain: Explain = lambda: None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._starter: Starter = starter
        self._command: list[str] = list(command)
        self._environment: dict[str, str] = dict(environment)
        self._folder: Path = folder
        self._log: BoundedLog = log
        self._chaos: Chaos = chaos
        self._idle_seconds: float = idle_seconds
        self._explain: Explain = explain
        self._clock: Callable[[], float] = clock
        self._lock: threading.Lock = threading.Lock()
        self._host: _Host | None = None
        self._idle_since: float = clock()

    @property
    def pid(self) -> int | None:
        """Of the process that would get the next order."""
        with self._lock:
            return self._host.pid if self._host and self._host.usable else None

    def start(self, order: Path, id: str, progress: Progress, credentials: Mapping[str, str] = NO_CREDENTIALS) -> Run:
        with self._lock:
            while True:
                if self._host is None or not self._host.usable:
                    self._host = self._begin()
                run = self._host.take(order, id, progress)
                if run is not None:
                    return run

    def stop_idle(self) -> None:
        with self._lock:
            if self._host is None or self._host.busy:
                self._idle_since = self._clock()
            elif self._clock() - self._idle_since >= self._idle_seconds:
                _log.info("an idle host ends", pid=self._host.pid)
                self._host.retire()
                self._host = None

    def close(self) -> None:
        with self._lock:
            if self._host is not None:
                self._host.kill()
                self._host = None

    def _begin(self) -> "_Host":
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = self._environment | self._chaos.environment()
        group = self._starter.start(self._command, environment=environment, folder=self._folder, talks=True)
        _log.info("a host started", pid=group.pid)
        return _Host(group, self._log, self._chaos, self._explain)


class _Host:
    """One process from its start to its end; `usable` until it is poisoned, retired or dead."""

    def __init__(self, group: ProcessGroup, log: BoundedLog, chaos: Chaos, explain: Explain) -> None:
        self._group: ProcessGroup = group
        self.explain: Explain = explain
        self._chaos: Chaos = chaos
        self._lock: threading.Lock = threading.Lock()
        self._speaking: threading.Lock = threading.Lock()
        self._runs: dict[str, _HostRun] = {}
        self.usable: bool = True
        self.ready: bool = False
        self.unable: OperatorFailed | None = None  # why it could not get ready, by its own word
        self._killed: bool = False
        if group.stderr:
            log.follow(group.stderr)
        if group.stdout:
            # Whatever is raised there ends the host, and its end is told to every run: nobody waits for a thread that is gone.
            threading.Thread(target=self._listen, args=(group.stdout,), name="host", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._group.pid

    @property
    def busy(self) -> bool:
        with self._lock:
            return bool(self._runs)

    def take(self, order: Path, id: str, progress: Progress) -> "_HostRun | None":
        """None where it ended meanwhile: the next one gets the order."""
        run = _HostRun(self, id, progress)
        with self._lock:
            if not self.usable:
                return None
            self._runs[id] = run
        if not self.say({"run": id, "order": str(order)}):
            self.usable = False
        return run

    def say(self, line: Mapping[str, str]) -> bool:
        """Whether it could be said; what it cannot hear it does not have to: its end is noticed where its output ends."""
        if self._group.stdin is None:
            return False
        try:
            with self._speaking:
                self._group.stdin.write(json.dumps(line).encode() + b"\n")
                self._group.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def retire(self) -> None:
        """Takes nothing more and ends when its last order has."""
        self.usable = False
        if not self.busy:
            # No run waits for it. Whatever is raised there, the host is killed; where even that fails, it dies with the worker.
            threading.Thread(target=self._say_goodbye, name="host-goodbye", daemon=True).start()

    def kill(self) -> int:
        self.usable = False
        self._killed = True
        return self._group.end()

    def _say_goodbye(self) -> None:
        try:
            self._close_stdin()
            self._group.wait(_GOODBYE_SECONDS)
        finally:
            self.kill()

    def _close_stdin(self) -> None:
        if self._group.stdin:
            with self._speaking, suppress(OSError):  # what it never read is nobody's loss
                self._group.stdin.close()

    def _listen(self, stream: IO[bytes]) -> None:
        try:
            with stream:
                while line := stream.readline(_LONGEST_LINE):
                    self._heard(line)
        except Exception as error:
            log_failure("a host sent invalid output and is stopped", error, pid=self.pid)
        self.usable = False
        killed, exit_code = self._killed, None
        try:
            exit_code = self._group.end()
            self._close_stdin()
        except Exception as error:
            log_failure("a host was not ended; it dies with the worker", error, pid=self.pid)
        if not killed:
            self._chaos.ended(exit_code)
        with self._lock:
            left, self._runs = list(self._runs.values()), {}
        if left and not killed:
            _log.warning("a host ended in the middle of its work", pid=self.pid, exit_code=exit_code, was_ready=self.ready)
        for run in left:
            run.over(exit_code)

    def _heard(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):  # no JSON, or so deep that nobody reads it
            said = None
        match said:
            case {"ready": _}:
                self.ready = True
            case {"preparing": str(what)}:
                with self._lock:
                    waiting = sorted(self._runs)
                _log.info("a host gets ready", pid=self.pid, preparing=what, waiting=waiting)
            case {"unable": str(error_class), "message": str(message)}:
                self.unable = OperatorFailed(error_class, message[:2000], retry=True)
            case {"progress": str(id), **rest}:
                with self._lock:
                    run = self._runs.get(id)
                if run:
                    run.progress(rest)
            case {"ended": str(id), **rest}:
                if rest.get("poisoned"):
                    self.usable = False
                with self._lock:
                    run = self._runs.pop(id, None)
                if run:
                    run.over(None)
                if not self.usable:
                    self.retire()
            case {"started": str()}:
                pass
            case _:
                _log.warning("a host sent a line that is not valid", pid=self.pid, bytes=len(line))


class _HostRun:
    def __init__(self, host: _Host, id: str, progress: Progress) -> None:
        self._host: _Host = host
        self._id: str = id
        self.progress: Progress = progress
        self._over: threading.Event = threading.Event()
        self._exit_code: int | None = None

    def wait(self, seconds: float) -> bool:
        return self._over.wait(seconds)

    def end(self) -> None:
        if not self._over.is_set():
            self._host.say({"cancel": self._id})
            if not self._over.wait(_CANCEL_SECONDS):
                _log.warning("a host does not stop an order and is ended", pid=self._host.pid)
                self._host.kill()
                self._over.wait()

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def why_never_ready(self) -> OperatorFailed | None:
        return None if self._host.ready else self._host.unable or self._host.explain()

    def over(self, exit_code: int | None) -> None:
        self._exit_code = exit_code
        self._over.set()
