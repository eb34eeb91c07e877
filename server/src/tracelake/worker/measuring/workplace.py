"""A workplace: the files of one table as local files that an engine can open, and new files that are written to it."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tracelake.storage.contract import Storage
from tracelake.storage.paths import UnsafePath, plain
from tracelake.worker.measuring.contract import Refused


@dataclass
class Workplace:
    """Paths are relative to the table; a remote file is copied into `scratch` on its first use."""

    storage: Storage
    location: str
    scratch: Path
    _copies: dict[str, Path] = field(default_factory=dict)

    def stored(self, path: str) -> str:
        """The path below the storage's root."""
        return f"{self.location}/{path}"

    @property
    def folders(self) -> list[Path]:
        """The folders that contain every file that `local` returns."""
        table = self.storage.local_path(self.location)
        return [self.scratch] if table is None else [table, self.scratch]

    def check(self, path: str) -> None:
        """Checks that a path is plain, does not go through a link, and is not a hard link to another file."""
        try:
            plain(path)
            local = self.storage.local_path(self.stored(path))
        except UnsafePath as unsafe:
            raise Refused("unsafe_path", f"The output names a file that is not allowed: {unsafe}.") from None
        if path.split("/", 1)[0] == "_delta_log":
            raise Refused("unsafe_path", "The output names a file of the table's own log.")
        if local is not None and local.is_file() and local.stat().st_nlink != 1:
            raise Refused("unsafe_path", "The output names a file that is a hard link to another file.")

    def local(self, path: str) -> Path:
        found = self.storage.local_path(self.stored(path)) or self._copies.get(path)
        if found is not None and found.is_file():
            return found
        return self._copy(path)

    def _copy(self, path: str) -> Path:
        body = None if self.storage.local_path(self.stored(path)) else self.storage.read(self.stored(path))
        if body is None:
            raise Refused("file_missing", f"A file of the table does not exist: {path}.")
        copy = self._copy_name()
        copy.write_bytes(body)
        self._copies[path] = copy
        return copy

    def _copy_name(self) -> Path:
        return self.scratch / f"{len(self._copies)}-{secrets.token_hex(4)}"

    @contextmanager
    def new_file(self, path: str) -> Generator[Path]:
        """The path to write a new file to; when it is complete, it is stored in the table and replaces one of the same name."""
        target = self.storage.local_path(self.stored(path))
        draft = (target.parent if target else self.scratch) / f".{secrets.token_hex(8)}.draft"
        try:
            yield draft
            if target:
                draft.replace(target)
            else:
                self.storage.replace(self.stored(path), draft.read_bytes())
                self._copies[path] = draft.replace(self._copy_name())
        finally:
            draft.unlink(missing_ok=True)
