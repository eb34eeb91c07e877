"""Where a repository's files lie: one small contract over a local disk and an object store, and the one that is a local disk."""

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

Watch = Callable[[str], None]  # called at each named moment; tests end the process there


@dataclass
class RecordFile:
    """One record on its way into the folder."""

    id: str
    path: str  # the wanted one; another where that is taken
    body: bytes


class Folder(Protocol):
    """Paths are relative, made by `layout`. What cannot be reached raises RepositoryUnavailable."""

    def read(self, path: str) -> bytes | None: ...

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]: ...

    def put_new(self, path: str, body: bytes) -> bool:
        """Whole or absent, and never over another; False if it already exists."""
        ...

    def replace(self, path: str, body: bytes) -> None:
        """Whole: readers see the old bytes or the new ones."""
        ...

    def paths(self, folder: str) -> list[str]:
        """Every path below, in order."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """What is still there of these."""
        ...

    def stage(self, files: Sequence[RecordFile]) -> None:
        """Brings them there, whole, before the log names them: a line never names what is not there. Fixes their paths."""
        ...

    def staged(self, file: RecordFile) -> bool:
        """Whether it is still there; a rebuild clears away what no line names."""
        ...

    def keep(self, files: Sequence[RecordFile]) -> None:
        """The log names them now."""
        ...

    def discard(self, files: Sequence[RecordFile]) -> None:
        """Staged, and then not needed."""
        ...


@contextmanager
def reached() -> Generator[None]:
    """What the machine says becomes RepositoryUnavailable, without the path."""
    try:
        yield
    except OSError as error:
        raise RepositoryUnavailable(f"The folder of the repository does not answer: {error.strerror or type(error).__name__}.") from error


class LocalFolder:
    """A folder of this machine. With `fsync` what was stored survives a power loss too."""

    def __init__(self, root: Path, *, fsync: bool = False, watch: Watch = lambda moment: None) -> None:
        self.root: Path = root
        self.fsync: bool = fsync
        self.watch: Watch = watch
        self._made: set[str] = set()  # folders that were there once

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
        """One writer at a time, of all processes; the kernel ends the turn of one that dies."""
        with reached():
            self.make_folder(TURN.rpartition("/")[0])
            handle = os.open(f"{self.root}/{TURN}", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with reached():
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            # Said aloud: a process that was forked meanwhile has this handle too and would hold the lock for us.
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
                # Its own name too, only where it is nobody else's. The staged one stays until the log names the record.
                try:
                    os.link(name, f"{self.root}/{file.path}")
                except FileExistsError:
                    file.path = second_path(file.path, file.id)
                    os.link(name, f"{self.root}/{file.path}")
            except FileNotFoundError:  # the folder was removed, or a rebuild took this for a dead writer's
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
    """Also what a killed process left of a file that it was writing beside another."""
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
