"""The contract of a storage: everything that control and worker ask of the place where tables live."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Protocol

Watch = Callable[[str], None]  # called at each named moment, as in tracelake.chaos


class PutResult(Enum):
    CREATED = "created"  # this call, or an earlier try inside it, made the file
    SAME = "same"        # it was there already, with these bytes
    OTHER = "other"      # it was there already, with other bytes: somebody else writes here


@dataclass(frozen=True)
class StoredFile:
    path: str
    size: int


class Storage(Protocol):
    """Paths are relative to the root and plain (see `paths`); anything else raises UnsafePath.

    What cannot be reached raises StorageUnavailable; nothing is retried for long inside.
    """

    def put_new(self, path: str, body: bytes, modified_at: datetime) -> PutResult:
        """Makes this file, whole and durable, only if it is absent; StorageOutcomeUnknown means: it may be there or not, put it again.

        Local files get the modification time, by which Delta readers travel in time; object stores set their own.
        """
        ...

    def replace(self, path: str, body: bytes) -> None:
        """Makes or replaces this file, whole and durable; readers see the old bytes or the new ones."""
        ...

    def read(self, path: str) -> bytes | None: ...

    def size(self, path: str) -> int | None: ...

    def seal(self, paths: Sequence[str]) -> dict[str, str]:
        """Makes finished files durable and read-only and says what each one that exists is now: the same text, the same file."""
        ...

    def list(self, folder: str) -> list[StoredFile]:
        """Every file below the folder, also those that nothing names, by path; empty where there is no such folder."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes what is still there of these, and local folders of a table that became empty."""
        ...

    def uri(self, path: str) -> str:
        """What Spark opens: `file:///…` or `s3a://…`."""
        ...

    def local_path(self, path: str) -> Path | None:
        """None where the storage is not on this machine."""
        ...
