"""One process at a time in a folder: a lock that the kernel gives back when its holder is gone, however it went."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tracelake_sdk.errors import StartFailed, SystemBusy


class FolderLock:
    """A locked file that names its holder's pid for those who come second."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None

    def take(self, busy: str) -> None:
        """Hold it from now on, in a folder that is made if need be; SystemBusy with these words when somebody else does."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartFailed(f"{self._file.parent} cannot be used ({error.strerror}); choose a TRACELAKE_HOME that this user may write") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode().strip()
            os.close(descriptor)
            raise SystemBusy(f"{busy} (process {holder})" if holder else busy) from None
        # In place: a rename would leave the lock on a file that nobody sees.
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # a courtesy: on a full disk the lock holds without its holder's pid
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; again does nothing."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
