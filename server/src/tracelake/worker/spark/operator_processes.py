"""How operator programs run: a warm host that runs one order after another, or a program that is started for one order.

Neither has a token. Only the outcome file reports what they did; these classes only know whether they still run.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from tracelake.chaos import Chaos
from tracelake.child_processes import BoundedLog, ChildProcess, Starter
from tracelake.worker.operator_failure import OperatorFailed

NO_CREDENTIALS: Mapping[str, str] = MappingProxyType({})
Progress = Callable[[Mapping[str, Any]], None]


class OperatorRun(Protocol):
    """One order that is running, or has ended."""

    def wait(self, seconds: float) -> bool:
        """Whether it ended within that time."""
        ...

    def end(self) -> None:
        """Stops it; it has ended when this returns."""
        ...

    @property
    def exit_code(self) -> int | None:
        """How its process ended; None while it runs."""
        ...

    def why_never_ready(self) -> OperatorFailed | None:
        """What this machine lacks, if its process ended before it was ready."""
        ...


class OperatorProcess(Protocol):
    """A way to run operator programs."""

    def start(self, order: Path, id: str, progress: Progress, credentials: Mapping[str, str] = NO_CREDENTIALS) -> OperatorRun:
        """`credentials`: environment variables with the credentials of this order. A shared process reads them from the file that the order names."""
        ...

    def stop_idle(self) -> None:
        """Ends processes that have been idle for too long."""
        ...

    def close(self) -> None:
        """Ends everything."""
        ...


class OperatorProcesses:
    """Which process runs which operator: its own command if the settings have one, else the warm host, if there is one."""

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
            raise OperatorFailed("runtime_missing", "This worker has no Spark; install the package tracelake-spark beside it.", retry=True)
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
    """A program that is started for one order; the path of the order is its last argument."""

    def __init__(self, starter: Starter, command: Sequence[str], *, environment: Mapping[str, str], log: BoundedLog, chaos: Chaos) -> None:
        self._starter: Starter = starter
        self._command: list[str] = list(command)
        self._environment: dict[str, str] = dict(environment)
        self._log: BoundedLog = log
        self._chaos: Chaos = chaos

    def start(self, order: Path, id: str, progress: Progress, credentials: Mapping[str, str] = NO_CREDENTIALS) -> OperatorRun:
        environment = self._environment | self._chaos.environment() | dict(credentials)
        process = self._starter.start([*self._command, str(order)], environment=environment, folder=order.parent)
        self._log.follow(process.stdout)
        return _CommandRun(process, self._chaos)

    def stop_idle(self) -> None:
        """Nothing is kept between two orders."""

    def close(self) -> None:
        """Each run is ended by the code that started it."""


class _CommandRun:
    def __init__(self, process: ChildProcess, chaos: Chaos) -> None:
        self._process: ChildProcess = process
        self._chaos: Chaos = chaos
        self._exit_code: int | None = None

    def wait(self, seconds: float) -> bool:
        if self._exit_code is None and self._process.wait(seconds):
            self._exit_code = self._process.end()  # also processes that it started
            self._chaos.ended(self._exit_code)
        return self._exit_code is not None

    def end(self) -> None:
        self._exit_code = self._process.end()

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def why_never_ready(self) -> OperatorFailed | None:
        return None
