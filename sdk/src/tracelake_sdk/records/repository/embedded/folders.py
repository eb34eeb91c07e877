"""The storage of a repository's files: one interface for a local disk and an object store, and the local implementation."""

import fcntl
import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records.repository.embedded.layout import STAGED, TURN, second_path, staged_path

Watch = Callable[[str], None]  # called at named points; tests kill the process there


@dataclass
class RecordFile:
    """The file of a record that is being stored."""

    id: str
    path: str  # the preferred path; changed if it is taken
    body: bytes


class Folder(Protocol):
    """Paths are relative, made by `layout`. Raises RepositoryUnavailable if the storage cannot be reached."""

    def read(self, path: str) -> bytes | None: ...

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]: ...

    def put_new(self, path: str, body: bytes) -> bool:
        """Creates a file atomically; returns False if it already exists."""
        ...

    def replace(self, path: str, body: bytes) -> None:
        """Replaces a file atomically: readers see the old bytes or the new ones."""
        ...

    def paths(self, folder: str) -> list[str]:
        """All paths below this one, in order."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """The contents of those files that still exist."""
        ...

    def stage(self, files: Sequence[RecordFile]) -> None:
        """Writes the files completely before the log names them: a line never names a missing file. Sets their final paths."""
        ...

    def staged(self, file: RecordFile) -> bool:
        """Whether the file still exists; a rebuild deletes files that no line names."""
        ...

    def keep(self, files: Sequence[RecordFile]) -> None:
        """Keeps files that the log names now."""
        ...

    def discard(self, files: Sequence[RecordFile]) -> None:
        """Deletes staged files that are not needed."""
        ...


@contextmanager
def reached() -> Generator[None]:
    """Turns an OSError into RepositoryUnavailable, without the path."""
    try:
        yield
    except OSError as error:
        raise RepositoryUnavailable(f"The folder of the repository does not answer: {error.strerror or type(error).__name__}.") from error


class LocalFolder:
    """A folder of this machine. With `fsync`, stored records also survive a power loss."""

    def __init__(self, root: Path, *, fsync: bool = False, watch: Watch = lambda moment: None) -> None:
        self.root: Path = root
        self.fsync: bool = fsync
        self.watch: Watch = watch
        self._made: set[str] = set()  # folders that already exist

    def read(self, path: str) -> bytes | None:
        with reached():
            return self._read(path)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        with reached():
            return [self._read(path) for path in paths]

    def put_new(self, path: str, body: bytes) -> bool:
        with reached():
            temporary = self._write_beside(path, body)
            try:
                os.link(temporary, self.root / path)
            except FileExistsError:
                return False
            finally:
                temporary.unlink(missing_ok=True)
            self._sync_folder(path)
        return True

    def replace(self, path: str, body: bytes) -> None:
        with reached():
            temporary = self._write_beside(path, body)
            self.watch(f"replace:{path}:written")
            temporary.replace(self.root / path)
            self._sync_folder(path)

    def paths(self, folder: str) -> list[str]:
        root = f"{self.root}/"
        with reached():
            walked = os.walk(f"{root}{folder}".rstrip("/"), onerror=_absent_or_raise)
            return sorted(f"{parent}/{name}".removeprefix(root) for parent, _, names in walked for name in names)

    def delete(self, paths: Sequence[str]) -> None:
        with reached():
            for path in paths:
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.root}/{path}")  # noqa: PTH108  # for each record, and a Path costs as much as the call

    def stage(self, files: Sequence[RecordFile]) -> None:
        with reached():
            for file in files:
                self._stage(file)
            if self.fsync:
                for folder in {file.path.rpartition("/")[0] for file in files}:
                    _sync(self.root / folder)
        self.watch("store:staged")

    def staged(self, file: RecordFile) -> bool:
        return os.path.lexists(f"{self.root}/{staged_path(file.path, file.id)}")

    def keep(self, files: Sequence[RecordFile]) -> None:
        self.watch("store:logged")
        self.delete([staged_path(file.path, file.id) for file in files])

    def discard(self, files: Sequence[RecordFile]) -> None:
        self.delete([path for file in files for path in (file.path, staged_path(file.path, file.id))])

    @contextmanager
    def turn(self) -> Generator[None]:
        """One writer at a time among all processes; the kernel releases the lock of a process that ends."""
        with reached():
            self.make_folder(TURN.rpartition("/")[0])
            handle = os.open(f"{self.root}/{TURN}", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with reached():
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            # Unlocked explicitly: a process that was forked in between also has this handle and would keep the lock.
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def make_folder(self, folder: str) -> None:
        if folder in self._made:
            return
        missing: list[Path] = []
        path = self.root / folder
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for made in reversed(missing):
            made.mkdir(exist_ok=True)
            if self.fsync:
                _sync(made.parent)
        self._made.add(folder)

    def _read(self, path: str) -> bytes | None:
        try:
            handle = os.open(f"{self.root}/{path}", os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(handle, "rb", buffering=0) as file:
            return file.readall()

    def _stage(self, file: RecordFile) -> None:
        folder = file.path.rpartition("/")[0]
        name = f"{self.root}/{staged_path(file.path, file.id)}"
        while True:
            self.make_folder(folder)
            try:
                self._write_staged(name, file.body)
                # Link the final name only if it is free. The staged name stays until the log names the record.
                try:
                    os.link(name, f"{self.root}/{file.path}")
                except FileExistsError:
                    file.path = second_path(file.path, file.id)
                    os.link(name, f"{self.root}/{file.path}")
            except FileNotFoundError:  # the folder was removed, or a rebuild deleted the file as that of a dead writer
                if not self.root.parent.is_dir():
                    raise
                self._made.discard(folder)
            else:
                return

    def _write_staged(self, name: str, body: bytes) -> None:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            write_all(handle, body)
            if self.fsync:
                os.fsync(handle)
        finally:
            os.close(handle)

    def _write_beside(self, path: str, body: bytes) -> Path:
        target = self.root / path
        self.make_folder(path.rpartition("/")[0])
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(6)}.tmp")
        with temporary.open("xb") as file:
            file.write(body[: len(body) // 2])
            file.flush()
            self.watch(f"write:{path}:half")
            file.write(body[len(body) // 2 :])
            file.flush()
            if self.fsync:
                os.fsync(file.fileno())
        return temporary

    def _sync_folder(self, path: str) -> None:
        if self.fsync:
            _sync((self.root / path).parent)


def write_all(handle: int, body: bytes) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(handle, view) :]


def is_staged(path: str) -> bool:
    """Also deletes temporary files of a killed process."""
    name = path.rpartition("/")[2]
    return name.startswith(".") and name.endswith((STAGED, ".tmp"))


def _absent_or_raise(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
