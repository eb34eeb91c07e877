"""Cold records of a folder: bodies of record files that were compacted into the Parquet files of a Delta table beside them.

The index contains every record, hot or cold; only the body of a record whose file was deleted is read from here, by id.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tracelake_sdk.bounded_cache import BoundedCache
from tracelake_sdk.errors.records import ColdUnreadable
from tracelake_sdk.records.compaction_program import ColumnType
from tracelake_sdk.records.record import DroppedSpan, RecordFilters
from tracelake_sdk.records.repository.embedded.folders import Folder

COLD = "cold"                    # the Delta table
DROPPED = "cold/dropped.json"    # what was dropped, by kind
COLUMNS: dict[str, ColumnType] = {
    "kind": "string",
    "source_id": "string",
    "schema_name": "string",
    "table_name": "string",
    "produced_at": "timestamp",
    "id": "string",
    "path": "string",            # of its file
    "body": "string",            # the content of its file, unchanged
}
SORT = ["kind", "source_id", "schema_name", "table_name", "produced_at", "id"]
_FILES_KEPT, _GROUPS_KEPT = 4, 16


@dataclass(frozen=True)
class ColdFile:
    """A file of the table, as its Delta log names it."""

    path: str
    first_id: str
    last_id: str
    rows: int


@dataclass(frozen=True)
class DroppedRecords:
    """The records that were dropped by retention, by kind."""

    below: dict[str, str]   # kind → id in hexadecimal digits
    before: dict[str, str]  # kind → records produced earlier were dropped

    @staticmethod
    def read(folder: Folder) -> "DroppedRecords":
        found = json.loads(folder.read(DROPPED) or b"{}")
        return DroppedRecords(found.get("below", {}), found.get("before", {}))

    def to_json(self) -> bytes:
        return json.dumps({"below": self.below, "before": self.before}).encode()

    def gone(self, kind: str, id: str) -> bool:
        return id < self.below.get(kind, "")

    def spans(self, filters: RecordFilters) -> list[DroppedSpan]:
        """The dropped spans that overlap the filters."""
        start = filters.produced.start if filters.produced else None
        named = [DroppedSpan.model_validate({"kind": kind, "before": before}) for kind, before in sorted(self.before.items())]
        return [span for span in named if (not filters.kinds or span.kind in filters.kinds) and (start is None or start < span.before)]


class ColdFiles:
    """Raises ColdUnreadable if a record is in a file that cannot be read here."""

    def __init__(self, folder: Folder) -> None:
        self._folder: Folder = folder
        self.version: int = -1  # of the Delta log that was read last
        self._added: list[ColdFile] = []
        self._opened: BoundedCache[str, _Opened] = BoundedCache(_FILES_KEPT)

    def poll(self) -> None:
        """Reads new commits of the Delta log."""
        while (body := self._folder.read(log_entry_path(self.version + 1))) is not None:
            self._added += added_files(body)
            self.version += 1

    def bodies(self, ids: Sequence[str]) -> dict[str, bytes]:
        """The bodies of the records that are here, by id."""
        self.poll()
        found: dict[str, bytes] = {}
        for added in self._added:
            wanted = [id for id in ids if id not in found and added.first_id <= id <= added.last_id]
            if wanted:
                found |= self._open(added).bodies(wanted)
        return found

    def holds(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids are here."""
        self.poll()
        found: set[str] = set()
        for added in self._added:
            wanted = [id for id in ids if added.first_id <= id <= added.last_id]
            if wanted:
                found |= self._open(added).positions.keys() & set(wanted)
        return found

    def rows(self, paths: Sequence[str]) -> Iterator[dict[str, Any]]:
        """All rows of some files; times as microseconds."""
        for path in paths:
            yield from _Opened(self._folder, path).rows()

    def every_row(self) -> Iterator[dict[str, Any]]:
        self.poll()
        yield from self.rows([added.path for added in self._added])

    def _open(self, added: ColdFile) -> "_Opened":
        return self._opened.find_or_make(added.path, lambda: _Opened(self._folder, added.path))


class _Opened:
    """One Parquet file with a cache of its row groups."""

    def __init__(self, folder: Folder, path: str) -> None:
        body = folder.read(path)
        if body is None:
            raise ColdUnreadable(f"`{path}`, a file of older records, is missing from the repository; restore it.")
        try:
            import pyarrow as pa  # noqa: PLC0415  # an extra; folders without cold records do without
            import pyarrow.parquet as pq  # noqa: PLC0415
        except ModuleNotFoundError:
            raise ColdUnreadable("Older records of this repository are stored in Parquet files, which need the package pyarrow; install `tracelake-sdk[cold]`.") from None
        self._path: str = path
        try:
            # Without Arrow's threads: one that still holds a Python object when Python exits aborts the process with SIGABRT.
            self._file: Any = pq.ParquetFile(pa.BufferReader(body), pre_buffer=False)
            ids: list[str] = self._file.read(columns=["id"], use_threads=False).column(0).to_pylist()
        except (OSError, ValueError):  # includes Arrow's errors
            raise _unreadable(path) from None
        self.positions: dict[str, int] = {UUID(id).hex: position for position, id in enumerate(ids)}
        self._starts: list[int] = [0]
        for group in range(self._file.num_row_groups):
            self._starts.append(self._starts[-1] + self._file.metadata.row_group(group).num_rows)
        self._groups: BoundedCache[int, list[str]] = BoundedCache(_GROUPS_KEPT)

    def bodies(self, ids: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for id in ids:
            if (position := self.positions.get(id)) is not None:
                group = bisect_right(self._starts, position) - 1
                found[id] = self._groups.find_or_make(group, lambda group=group: self._read(group))[position - self._starts[group]].encode()
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        import pyarrow as pa  # noqa: PLC0415

        try:
            for batch in self._file.iter_batches(1000, columns=list(COLUMNS), use_threads=False):
                table: Any = pa.Table.from_batches([batch])
                produced = table["produced_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
                yield from table.set_column(table.schema.get_field_index("produced_at"), "produced_at", produced).to_pylist()
        except (OSError, ValueError):
            raise _unreadable(self._path) from None

    def _read(self, group: int) -> list[str]:
        try:
            return self._file.read_row_group(group, columns=["body"], use_threads=False).column(0).to_pylist()
        except (OSError, ValueError):
            raise _unreadable(self._path) from None


def read_bodies(folder: Folder, cold: ColdFiles, found: Sequence[tuple[str, str]]) -> list[bytes | None]:
    """The bodies of records by id and path, hot or cold. The path of a compacted record may belong to another record now."""
    bodies = folder.read_many([path for _, path in found])
    gone = [id for (id, _), body in zip(found, bodies, strict=True) if not is_of(body, id)]
    if not gone:
        return bodies
    elsewhere = cold.bodies(gone)
    return [body if is_of(body, id) else elsewhere.get(id) for (id, _), body in zip(found, bodies, strict=True)]


def is_of(body: bytes | None, id: str) -> bool:
    """Whether a file belongs to the record with this id, judged by its first bytes; a damaged file still counts."""
    if body is None:
        return False
    return not body.startswith(b'{"id":"') or body.startswith(f'{{"id":"{UUID(id)}"'.encode())


def log_entry_path(version: int) -> str:
    return f"{COLD}/_delta_log/{version:020}.json"


def added_files(entry: bytes) -> list[ColdFile]:
    adds = [action["add"] for action in map(json.loads, entry.splitlines()) if "add" in action]
    files = [(add["path"], json.loads(add["stats"])) for add in adds]
    return [ColdFile(f"{COLD}/{path}", UUID(stats["minValues"]["id"]).hex, UUID(stats["maxValues"]["id"]).hex, stats["numRecords"]) for path, stats in files]


def _unreadable(path: str) -> ColdUnreadable:
    return ColdUnreadable(f"`{path}`, a file of older records, cannot be read; restore it.")
