"""The warm host: one process that reads and writes JSON lines and runs many orders in one Spark session."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import structlog

from tracelake.chaos import Chaos
from tracelake.child_processes import BoundedLog, ChildProcess, Starter
from tracelake.loops import log_failure
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.spark.operator_processes import NO_CREDENTIALS, OperatorRun, Progress

_log = structlog.get_logger()

_CANCEL_SECONDS = 5.0      # to stop one order, before the whole process is ended
_GOODBYE_SECONDS = 10.0    # to end after its input was closed
_LONGEST_LINE = 1_000_000

Explain = Callable[[], OperatorFailed | None]


class HostProcess:
    """A warm process that reads and writes JSON lines: started with the first order, replaced when it is poisoned or dead, ended when idle."""

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
        """The pid of the process that would get the next order."""
        with self._lock:
            return self._host.pid if self._host and self._host.usable else None

    def start(self, order: Path, id: str, progress: Progress, credentials: Mapping[str, str] = NO_CREDENTIALS) -> OperatorRun:
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
        process = self._starter.start(self._command, environment=environment, folder=self._folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        _log.info("a host started", pid=process.pid)
        return _Host(process, self._log, self._chaos, self._explain)


class _Host:
    """One process from its start to its end; `usable` until it is poisoned, retired or dead."""

    def __init__(self, process: ChildProcess, log: BoundedLog, chaos: Chaos, explain: Explain) -> None:
        self._process: ChildProcess = process
        self.explain: Explain = explain
        self._chaos: Chaos = chaos
        self._lock: threading.Lock = threading.Lock()
        self._speaking: threading.Lock = threading.Lock()
        self._runs: dict[str, _HostRun] = {}
        self.usable: bool = True
        self.ready: bool = False
        self.unable: OperatorFailed | None = None  # why it could not get ready, as it reported
        self._killed: bool = False
        log.follow(process.stderr)
        # Any exception in it ends the host, and every run is notified of the end: no run waits for a thread that has ended.
        threading.Thread(target=self._listen, args=(process.stdout,), name="host", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def busy(self) -> bool:
        with self._lock:
            return bool(self._runs)

    def take(self, order: Path, id: str, progress: Progress) -> "_HostRun | None":
        """None if the host has ended meanwhile: the next one gets the order."""
        run = _HostRun(self, id, progress)
        with self._lock:
            if not self.usable:
                return None
            self._runs[id] = run
        if not self.say({"run": id, "order": str(order)}):
            self.usable = False
        return run

    def say(self, line: Mapping[str, str]) -> bool:
        """Whether the line was written; if not, the host has ended, which is noticed at the end of its output."""
        try:
            with self._speaking:
                self._process.stdin.write(json.dumps(line).encode() + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def retire(self) -> None:
        """Accepts no more orders and ends after its last one."""
        self.usable = False
        if not self.busy:
            # No run waits for it. After any exception the host is killed; if even that fails, it dies with the worker.
            threading.Thread(target=self._say_goodbye, name="host-goodbye", daemon=True).start()

    def kill(self) -> int:
        self.usable = False
        self._killed = True
        return self._process.end()

    def _say_goodbye(self) -> None:
        try:
            self._close_stdin()
            self._process.wait(_GOODBYE_SECONDS)
        finally:
            self.kill()

    def _close_stdin(self) -> None:
        with self._speaking, suppress(OSError):  # unread input is dropped
            self._process.stdin.close()

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
            exit_code = self._process.end()
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
            message = json.loads(line)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply
            message = None
        match message:
            case {"ready": _}:
                self.ready = True
            case {"preparing": str(what)}:
                with self._lock:
                    waiting = sorted(self._runs)
                _log.info("a host gets ready", pid=self.pid, preparing=what, waiting=waiting)
            case {"unable": str(error_class), "message": str(detail)}:
                self.unable = OperatorFailed(error_class, detail[:2000], retry=True)
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
                _log.warning("a host did not stop an order and is ended", pid=self._host.pid)
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
