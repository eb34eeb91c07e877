"""Child processes that die with their parent, and a safe way to end leftovers: never by name, never by a reused pid."""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tracelake.child_processes import ChildProcess, ended_within
from tracelake.files import rotate

# The signals to send in turn, and how many seconds to wait after each.
Requests = Sequence[tuple[signal.Signals, float]]
STOP: Requests = ((signal.SIGTERM, 20), (signal.SIGKILL, 10))


@dataclass(frozen=True)
class ProcessIdentity:
    """Identifies one process: a pid is reused, a pid with its start time is not."""

    pid: int
    started: str  # the boot and the clock tick in it

    @classmethod
    def find(cls, pid: int) -> Self | None:
        """The process that has this pid now, or None."""
        try:
            # The name in parentheses may contain anything, so fields are counted from its end.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        if fields[0] in "ZX":
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return cls(pid, f"{boot}/{fields[19]}")

    @property
    def alive(self) -> bool:
        return ProcessIdentity.find(self.pid) == self

    def end(self, requests: Requests = STOP) -> bool:
        """Send the signals in turn; True when it has ended. Another process with the same pid is left alone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            # A pidfd stays with the process it was opened on: the process that is checked is the one that gets the signals.
            if not self.alive:
                return True
            for request, seconds in requests:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, request)
                if ended_within(handle, seconds):
                    return True
        finally:
            os.close(handle)
        return False


class Child:
    """A program that runs in its own session, with its output in a log file."""

    def __init__(
        self, name: str, command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str] | None = None,
        folder: Path | None = None, death: signal.Signals = signal.SIGKILL, unprivileged: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        rotate(log)
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
            self._process: ChildProcess = ChildProcess(
                command, environment=environment, folder=folder, stdout=output, stderr=output, death=death, rights="unprivileged" if unprivileged else "as-is"
            )
        self.identity = ProcessIdentity.find(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._process.poll()

    def wait(self, seconds: float) -> bool:
        """Whether it ended within that time."""
        return self._process.wait(seconds) and self.exit_code is not None

    def stop(self, requests: Requests = STOP) -> bool:
        """Send the signals in turn; True when it has ended."""
        for request, seconds in requests:
            if self.exit_code is not None:
                return True
            self._process.send(request)
            if self.wait(seconds):
                return True
        return self.exit_code is not None
