"""Small files that are written atomically."""

import os
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write by rename and sync, so that a crash leaves either the old text or the new one."""
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)  # do not leave a partial file on a full disk
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rotate(path: Path, *, limit: int = 10_000_000) -> None:
    """Rename a log that is larger than the limit to `.1`, so that there are at most two."""
    if path.exists() and path.stat().st_size > limit:
        path.rename(path.with_name(path.name + ".1"))
