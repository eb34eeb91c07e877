"""Who owns the segments of a spool folder: one lock file per process, held until it ends."""

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from tracelake_sdk.records.emitter.segments import SUFFIX

_LOCK = ".lock"


@dataclass(frozen=True)
class Owner:
    """The lock on the segments of one name; the kernel releases it when the process ends."""

    folder: Path
    name: str  # sorts by start time
    file: int

    def segment(self, number: int) -> Path:
        return self.folder / f"{self.name}.{number:08d}{SUFFIX}"

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.name}.*{SUFFIX}"))

    def release(self) -> None:
        """Deletes the lock file too if nothing is left."""
        if not self.segments():
            (self.folder / f"{self.name}{_LOCK}").unlink(missing_ok=True)
        os.close(self.file)


def new_owner(folder: Path) -> Owner:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}"
        if (owner := claim(folder, name)) is not None:
            return owner


def claim(folder: Path, name: str) -> Owner | None:
    """None if a living process holds the lock, or the owner ended in between."""
    path = folder / f"{name}{_LOCK}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(file).st_ino:
            return Owner(folder, name, file)
    except (BlockingIOError, FileNotFoundError):
        pass  # held by another process, or just removed
    os.close(file)
    return None


def owner_names(folder: Path) -> list[str]:
    """All owners with entries in the folder, oldest first."""
    return sorted({path.name.removesuffix(_LOCK) for path in folder.glob(f"*{_LOCK}")} | {path.name.split(".")[0] for path in folder.glob(f"*{SUFFIX}")})


def bytes_of_others(folder: Path, own: str) -> int:
    found = 0
    for path in folder.glob(f"*{SUFFIX}"):
        if not path.name.startswith(f"{own}."):
            try:
                found += path.stat().st_size
            except FileNotFoundError:
                continue  # delivered in between
    return found
