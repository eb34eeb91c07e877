"""A lock that lets one process at a time use a folder; the kernel releases it when its holder ends, for any reason."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tracelake_sdk.errors import StartFailed, SystemBusy
from tracelake_sdk.home import lock_words, take_lock, write_lock_words


class FolderLock:
    """A locked file that contains the pid of its holder, for error messages."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None

    def take(self, busy: str, *, remedy: str = "", held: int | None = None) -> None:
        """Take the lock, and create the folder if needed; if another process holds it, raise SystemBusy with these words around the holder's pid.

        `held`: a descriptor that may already hold it.
        """
        if held is not None and self._adopt(held):
            return
        try:
            self._descriptor = take_lock(self._file)
        except BlockingIOError:
            raise SystemBusy(f"{busy}{self._holder()}{remedy}") from None
        except OSError as error:
            raise StartFailed(f"{self._file.parent} cannot be used ({error.strerror}); choose a TRACELAKE_HOME that this user may write") from None

    def say_stopping(self) -> None:
        """Note in the file that the holder is stopping."""
        if self._descriptor is not None:
            write_lock_words(self._descriptor, stopping=True)

    def _adopt(self, held: int) -> bool:
        """Whether the descriptor holds this lock; a descriptor of another folder's lock is closed."""
        try:
            os.set_inheritable(held, False)
            same = os.path.samestat(os.fstat(held), self._file.stat())
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            same = False
        if same:
            self._descriptor = held
        else:
            with suppress(OSError):
                os.close(held)
        return same

    def _holder(self) -> str:
        try:
            descriptor = os.open(self._file, os.O_RDONLY)
        except OSError:
            return ""
        try:
            words = lock_words(descriptor)
        finally:
            os.close(descriptor)
        return f" (process {words[0]})" if words else ""

    def release(self) -> None:
        """Release it; a second call does nothing."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
