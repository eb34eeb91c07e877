"""The warm process that measures what operators staged: it handles one order at a time, is started on first use and restarted after it died."""

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from tracelake.chaos import Chaos
from tracelake.child_processes import BoundedLog, ChildProcess, Starter
from tracelake.loops import log_failure
from tracelake.worker.measuring.contract import Limits, MeasureOrder, MeasureResult, OutputToMeasure
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.datasets.measurements import OutputMeasured

_log = structlog.get_logger()

COMMAND = (sys.executable, "-m", "tracelake.worker.measuring")
_LONGEST_ANSWER = 256_000_000


class MeasuringProcess:
    """One measurement at a time, for any number of threads."""

    def __init__(
        self, starter: Starter, *, storage: Mapping[str, Any], environment: Mapping[str, str], folder: Path, log: BoundedLog,
        chaos: Chaos, limits: Limits | None = None, command: Sequence[str] = COMMAND,
    ) -> None:  # fmt: skip
        self._starter: Starter = starter
        self._storage: dict[str, Any] = dict(storage)
        self._environment: dict[str, str] = dict(environment)
        self._folder: Path = folder
        self._log: BoundedLog = log
        self._chaos: Chaos = chaos
        self._limits: Limits = limits or Limits()
        self._command: list[str] = list(command)
        self._turn: threading.Lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._closed: bool = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def measure(self, id: str, outputs: Sequence[OutputToMeasure], *, scratch: Path, give_up: Callable[[], bool] = lambda: False) -> list[OutputMeasured]:
        """Measures these files; raises OperatorFailed if they are refused, or if the process died.

        The process is ended when `give_up` returns true: its result is no longer needed.
        """
        order = MeasureOrder(id=id, storage=self._storage, scratch=str(scratch), outputs=list(outputs), limits=self._limits)
        with self._turn:
            result = self._ask(order, give_up)
        if result.refusal is not None:
            raise OperatorFailed(result.refusal.error_class, result.refusal.message, retry=result.refusal.retry)
        return result.outputs

    def close(self) -> None:
        self._closed = True
        process = self._process
        if process is not None:
            process.end()  # before the lock: threads that wait for it must not wait any longer
            with self._turn:
                if self._process is process:
                    self._end(process)

    def _ask(self, order: MeasureOrder, give_up: Callable[[], bool]) -> MeasureResult:
        process = self._running()
        over = threading.Event()
        # A measurement cannot be canceled, so the process is ended; also if `give_up` raises.
        watcher = threading.Thread(target=_end_when, args=(process, over, give_up), name="measuring-watch", daemon=True)
        watcher.start()
        try:
            line = _exchange(process, order.model_dump_json().encode() + b"\n")
        finally:
            over.set()
            watcher.join()
        if line is None:
            exit_code = self._end(process)
            _log.warning("measuring ended in the middle of its work", pid=process.pid, exit_code=exit_code)
            raise OperatorFailed("measuring_died", f"The measuring process ended with exit code {exit_code} before it answered; see its log.", retry=True)
        try:
            result = MeasureResult.model_validate_json(line)
        except ValidationError:
            result = None
        if result is None or result.id != order.id:
            self._end(process)
            raise OperatorFailed("measuring_died", "The measuring process returned an invalid answer; see its log.", retry=True)
        return result

    def _running(self) -> ChildProcess:
        if self._process is not None and not self._process.wait(0) and not self._closed:
            return self._process
        if self._process is not None:
            self._end(self._process)
        if self._closed:
            raise OperatorFailed("measuring_died", "The worker is stopping.", retry=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = self._environment | self._chaos.environment()
        self._process = self._starter.start(self._command, environment=environment, folder=self._folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self._log.follow(self._process.stderr)
        return self._process

    def _end(self, process: ChildProcess) -> int:
        exit_code = process.end()
        self._chaos.ended(exit_code)
        process.close_pipes()
        self._process = None
        return exit_code


def _exchange(process: ChildProcess, line: bytes) -> bytes | None:
    """The answer to a line; None if the process ended before it."""
    try:
        process.stdin.write(line)
        process.stdin.flush()
        answer = process.stdout.readline(_LONGEST_ANSWER)
    except (OSError, ValueError):
        return None
    return answer if answer.endswith(b"\n") else None


def _end_when(process: ChildProcess, over: threading.Event, give_up: Callable[[], bool]) -> None:
    try:
        while not over.wait(0.1) and not give_up():
            pass
    except Exception as error:
        log_failure("it is unknown whether a measurement is still wanted, so it is stopped", error, pid=process.pid)
    if not over.is_set():
        process.end()
