"""The interface of a storage: everything that control and worker need from the place where tables are stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Protocol

Watch = Callable[[str], None]  # called at each named moment, as in tracelake.chaos


class PutResult(Enum):
    CREATED = "created"  # this call, or an earlier try inside it, created the file
    SAME = "same"        # it already existed, with these bytes
    OTHER = "other"      # it already existed, with other bytes: another process writes here


@dataclass(frozen=True)
class StoredFile:
    path: str
    size: int


class Storage(Protocol):
    """Paths are relative to the root and plain (see `paths`); anything else raises UnsafePath.

    A storage that cannot be reached raises StorageUnavailable; nothing is retried for long inside.
    """

    def put_new(self, path: str, body: bytes, modified_at: datetime) -> PutResult:
        """Creates this file atomically and durably, only if it is absent; StorageOutcomeUnknown means that it may exist or not: put it again.

        Local files get the modification time, which Delta readers use for time travel; object stores set their own.
        """
        ...

    def replace(self, path: str, body: bytes) -> None:
        """Creates or replaces this file atomically and durably; readers see either the old bytes or the new ones."""
        ...

    def read(self, path: str) -> bytes | None: ...

    def size(self, path: str) -> int | None: ...

    def seal(self, paths: Sequence[str]) -> dict[str, str]:
        """Makes finished files durable and read-only and returns a seal for each one that exists: the same seal means the same file."""
        ...

    def list(self, folder: str) -> list[StoredFile]:
        """Every file below the folder, including those that no table names, by path; empty if the folder does not exist."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes those of these files that exist, and local folders of a table that became empty."""
        ...

    def uri(self, path: str) -> str:
        """The URI for Spark: `file:///…` or `s3a://…`."""
        ...

    def local_path(self, path: str) -> Path | None:
        """None if the storage is not on this machine."""
        ...
