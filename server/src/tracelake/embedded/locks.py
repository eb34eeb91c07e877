"""One process at a time in a folder: a lock that the kernel gives back when its holder is gone, however it went."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tracelake_sdk.errors import StartFailed, SystemBusy
from tracelake_sdk.home import lock_words, take_lock, write_lock_words


class FolderLock:
    """A locked file that names its holder's pid for those who come second."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None

    def take(self, busy: str, *, remedy: str = "", held: int | None = None) -> None:
        """Hold it from now on, in a folder that is made if need be; SystemBusy with these words around the holder's pid when somebody else does.

        `held`: a descriptor that may hold it already.
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
        """Let those who look know that the holder stops."""
        if self._descriptor is not None:
            write_lock_words(self._descriptor, stopping=True)

    def _adopt(self, held: int) -> bool:
        """Whether it is this very lock; that of another folder is given back."""
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
        """Give it back; again does nothing."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
