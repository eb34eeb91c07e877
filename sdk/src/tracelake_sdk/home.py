"""The home folder of an embedded system, in which a client finds its address and its token."""

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_STOPPING = "stopping"    # follows the pid in the lock file while the system stops
_LOCK_TRIES = 20
_LOCK_PAUSE_SECONDS = 0.01


def default_home() -> Path:
    """`TRACELAKE_HOME`, else `~/.tracelake`."""
    return Path(os.environ.get("TRACELAKE_HOME") or Path.home() / ".tracelake")


@dataclass(frozen=True)
class HomeFiles:
    """The files of a home that several programs use."""

    home: Path

    @property
    def running(self) -> Path:
        """Written by `tracelaked up` when everything answers: `{"api_url": …, "pid": …}`; absent while it is down."""
        return self.home / "running.json"

    @property
    def credentials(self) -> Path:
        """The tokens of the first admin, the worker and the query process: `{"admin_token": …, …}`, readable only by its owner."""
        return self.home / "credentials.json"

    @property
    def lock(self) -> Path:
        """Held by `tracelaked up` while it runs, including startup and shutdown."""
        return self.home / "lock"

    def hold(self) -> int | None:
        """Mark the home as starting: the descriptor that holds its lock. None if that is not possible; starting the system then reports why."""
        try:
            held = take_lock(self.lock)
        except OSError:
            return None
        with suppress(OSError):
            self.running.unlink(missing_ok=True)  # left by a killed system: its address is stale
        return held

    def is_starting(self) -> bool:
        """Whether a system is starting or running here."""
        return (words := self._held_by()) is not None and _STOPPING not in words

    def is_stopping(self) -> bool:
        return (words := self._held_by()) is not None and _STOPPING in words

    def _held_by(self) -> list[str] | None:
        """The words in the lock file; None if no process holds the lock."""
        try:
            descriptor = os.open(self.lock, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock_words(descriptor)
        finally:
            os.close(descriptor)
        return None

    def api_url(self) -> str | None:
        return _value(self.running, "api_url")

    def admin_token(self) -> str | None:
        return _value(self.credentials, "admin_token")

    def worker_token(self) -> str | None:
        return _value(self.credentials, "worker_token")

    def query_token(self) -> str | None:
        return _value(self.credentials, "query_token")


def take_lock(file: Path) -> int:
    """A descriptor that holds the lock of this file, whose folder is created if it is missing. The kernel releases it when the last process that has it open ends.

    Raises BlockingIOError if another process holds it, and another OSError if the file cannot be created.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    write_lock_words(descriptor)
    return descriptor


def _lock(descriptor: int) -> None:
    """Retries briefly, because a command that checks the lock holds it for an instant."""
    for _ in range(_LOCK_TRIES - 1):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_SECONDS)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_words(descriptor: int) -> list[str]:
    return os.pread(descriptor, 64, 0).decode().split()


def write_lock_words(descriptor: int, *, stopping: bool = False) -> None:
    """Writes the pid of this process, and whether it is stopping. In place: a rename would leave the lock on an unlinked file."""
    words = f"{os.getpid()} {_STOPPING}" if stopping else str(os.getpid())
    with suppress(OSError):  # on a full disk the lock still holds, without a pid
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{words}\n".encode(), 0)


def _value(path: Path, key: str) -> str | None:
    try:
        found = json.loads(path.read_text()).get(key)
    except FileNotFoundError:
        return None
    return found if isinstance(found, str) else None
