"""Tables as local files: every new file is complete and durable before it gets its name."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from tracelake.storage.contract import PutResult, StoredFile, Watch
from tracelake.storage.paths import UnsafePath, below_location, contained, plain
from tracelake_sdk.errors import StorageOutcomeUnknown, StorageUnavailable

_READ_ONLY = 0o444
_TRIES = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LocalStorage:
    """A folder; any number of processes use it at once."""

    def __init__(self, root: Path, watch: Watch) -> None:
        self._root = Path(os.path.realpath(root))
        self._watch = watch

    def put_new(self, path: str, body: bytes, modified_at: datetime) -> PutResult:
        self._watch("put:before")
        target = self._root / plain(path)
        try:
            result = self._put_new(target, body, modified_at)
        except OSError as error:
            raise StorageOutcomeUnknown(_unknown(error)) from error
        self._watch("put:answered")
        return result

    def _put_new(self, target: Path, body: bytes, modified_at: datetime) -> PutResult:
        try:
            self._write_beside(target, body, self._link, modified_at)
            result = PutResult.CREATED
        except FileExistsError:
            result = PutResult.SAME if target.read_bytes() == body else PutResult.OTHER
        # Also if it existed: the process that linked it may have died before this, and a name that is not durable does not count.
        _sync(target.parent)
        self._watch("put:folder_synced")
        return result

    def _link(self, temporary: Path, target: Path) -> None:
        self._watch("put:temporary_written")
        os.link(temporary, target)  # atomic, and never replaces another file
        self._watch("put:linked")

    def replace(self, path: str, body: bytes) -> None:
        target = self._root / plain(path)
        try:
            self._write_beside(target, body, Path.replace)
            _sync(target.parent)
        except OSError as error:
            raise StorageOutcomeUnknown(_unknown(error)) from error

    def _write_beside(self, target: Path, body: bytes, move: Callable[[Path, Path], object], modified_at: datetime | None = None) -> None:
        """Writes a durable file next to the target and passes it to `move`. A file that a crash leaves there has a dot name, which Delta readers ignore."""
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(6)}.tmp")
        try:
            with self._open_new(temporary) as file:
                file.write(body)
                file.flush()
                if modified_at is not None:
                    nanoseconds = (modified_at - _EPOCH) // timedelta(microseconds=1) * 1000
                    os.utime(file.fileno(), ns=(nanoseconds, nanoseconds))
                os.fsync(file.fileno())
            move(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def _open_new(self, path: Path) -> BinaryIO:
        """In a folder that another process may remove as empty until the file is in it."""
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                self._make_folder(path.parent)
                return path.open("xb")
        raise FileNotFoundError(errno.ENOENT, "its folder is removed again and again", str(path))

    def _make_folder(self, folder: Path) -> None:
        missing: list[Path] = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for made in reversed(missing):
            made.mkdir(exist_ok=True)
            _sync(made.parent)  # also if another process created it: it may not have synced it yet

    def read(self, path: str) -> bytes | None:
        try:
            return self._inside(path).read_bytes()
        except OSError as error:
            return _absent(error)

    def size(self, path: str) -> int | None:
        try:
            return self._inside(path).stat().st_size
        except OSError as error:
            return _absent(error)

    def seal(self, paths: Sequence[str]) -> dict[str, str]:
        sealed: dict[str, str] = {}
        folders: set[Path] = set()
        try:
            for path in paths:
                target = self._inside(path)
                if target.is_file():
                    sealed[path] = _seal(target)
                    folders.update(folder for folder in target.parents if folder.is_relative_to(self._root))
            for folder in folders:
                _sync(folder)
        except OSError as error:
            raise StorageUnavailable(_why(error)) from error
        return sealed

    def list(self, folder: str) -> list[StoredFile]:
        found: list[StoredFile] = []
        for place, folders, names in os.walk(self._root / contained(folder), onerror=_absent):
            for path in (Path(place) / name for name in [*names, *folders]):
                try:
                    state = path.lstat()
                except OSError as error:
                    _absent(error)  # deleted since
                    continue
                if not stat.S_ISDIR(state.st_mode):  # links to folders count as files: they exist, and must be deletable
                    found.append(StoredFile(path.relative_to(self._root).as_posix(), state.st_size))
        return sorted(found, key=lambda file: file.path)

    def delete(self, paths: Sequence[str]) -> None:
        targets = [self._root / contained(path) for path in paths]
        try:
            for target in targets:
                if os.path.realpath(target.parent) != str(target.parent):
                    raise UnsafePath("a folder of the path is a symbolic link")
                target.unlink(missing_ok=True)
            for folder in {target.parent for target in targets}:
                self._clear_away(folder)
        except OSError as error:
            _absent(error)

    def _clear_away(self, folder: Path) -> None:
        """Removes folders of a table that are empty now; one that is in use again stays."""
        while below_location(folder.relative_to(self._root).as_posix()):
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass  # by another process
            except OSError:
                return
            folder = folder.parent

    def uri(self, path: str) -> str:
        # Not percent-encoded: Hadoop does not decode `%20`, and would write into a folder of that name.
        return f"file://{(self._root / plain(path)).as_posix()}"

    def local_path(self, path: str) -> Path:
        return self._inside(path)

    def _inside(self, path: str) -> Path:
        """A symbolic link that an operator wrote must not lead out of its folder."""
        target = self._root / plain(path)
        if os.path.realpath(target) != str(target):
            raise UnsafePath("a part of the path is a symbolic link")
        return target


def _seal(target: Path) -> str:
    handle = os.open(target, os.O_RDONLY)
    try:
        state = os.fstat(handle)
        if stat.S_IMODE(state.st_mode) != _READ_ONLY:
            os.fchmod(handle, _READ_ONLY)
        os.fsync(handle)
    finally:
        os.close(handle)
    return f"{state.st_size}-{state.st_ino}-{state.st_mtime_ns}"


def _absent(error: OSError) -> None:
    """Returns if the error means that the file does not exist; raises for a storage that cannot be reached."""
    if not isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
        raise StorageUnavailable(_why(error)) from error


def _why(error: OSError) -> str:
    """The message of the operating system, without the path."""
    return f"The storage does not answer: {error.strerror or type(error).__name__}."


def _unknown(error: OSError) -> str:
    return f"{_why(error)} It is unknown whether the file exists; write it again."


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
