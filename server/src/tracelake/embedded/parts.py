"""The parts of a running system, and how one that ended is restarted."""

from collections.abc import Callable
from typing import Any, Protocol

from tracelake.embedded.processes import Child, ProcessIdentity
from tracelake_sdk.backoff import Backoff
from tracelake_sdk.errors import TracelakeError

_BACKOFF = Backoff(first=0.5, longest=30.0)
_STABLE_SECONDS = 60.0  # seconds of running after which the count of restarts is reset


class Part(Protocol):
    """Something that the supervisor runs."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        ...

    @property
    def identity(self) -> ProcessIdentity | None: ...


class Program:
    """A part that is one child process."""

    def __init__(self, begin: Callable[[], Child]) -> None:
        self._begin = begin
        self._child: Child | None = None

    def start(self) -> None:
        self._child = self._begin()

    def stop(self) -> None:
        if self._child:
            self._child.stop()
            self._child = None

    @property
    def exit_code(self) -> int | None:
        return self._child.exit_code if self._child else 0

    @property
    def identity(self) -> ProcessIdentity | None:
        return self._child.identity if self._child else None


class KeptUp:
    """A part that is restarted when it ends, after a pause that doubles while it keeps ending."""

    def __init__(self, name: str, part: Part, *, log: Any) -> None:
        self.name = name
        self.part = part
        self._log = log
        self._ends = 0
        self._started_at: float | None = None
        self._due: float | None = None

    def start(self, now: float) -> None:
        self.part.start()
        self._started_at = now
        self._due = None
        self._log.info("started", part=self.name, pid=self.part.identity and self.part.identity.pid)

    def run_once(self, now: float) -> bool:
        """Check it once; whether it was restarted."""
        if self._started_at is None or self.part.exit_code is None:
            return False
        if self._due is None:
            self._ends = 1 if now - self._started_at > _STABLE_SECONDS else self._ends + 1
            pause = _BACKOFF.after(self._ends)
            self._due = now + pause
            self._log.warning("ended", part=self.name, exit_code=self.part.exit_code, again_in_seconds=round(pause, 2))
        if now < self._due:
            return False
        try:
            self.part.stop()
            self.start(now)
        except (TracelakeError, OSError) as error:
            self._ends += 1
            self._due = now + _BACKOFF.after(self._ends)
            self._log.error("not started", part=self.name, error=str(error))
            return False
        return True

    def stop(self) -> None:
        if self._started_at is None:
            return
        self._started_at = None
        self.part.stop()
        self._log.info("stopped", part=self.name)
