"""Compaction of a folder: files of old records become Parquet files of a Delta table beside them, or are deleted.

The log and the index do not change, so every offset, page and identity stays valid. A record's file is deleted after its
body was read back from the table; after a crash the record is in the file, or in both, and the next run cleans up.
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from tracelake_sdk.errors.records import CompactionFailed
from tracelake_sdk.records.compaction_program import CompactionOrder, RowSum
from tracelake_sdk.records.kinds import Retention
from tracelake_sdk.records.repository.embedded.cold_files import (
    COLD,
    COLUMNS,
    DROPPED,
    SORT,
    ColdFiles,
    DroppedRecords,
    added_files,
    is_of,
    log_entry_path,
)
from tracelake_sdk.records.repository.embedded.folders import Folder, Watch
from tracelake_sdk.records.repository.embedded.index import Listed, Pair
from tracelake_sdk.records.repository.embedded.layout import RECORDS

Compacting = Callable[[CompactionOrder, Path], list[Path]]

_AT_ONCE = 1000  # files that are read together
_TYPES = {"string": "string", "timestamp": "timestamp"}


@dataclass(frozen=True)
class Compacted:
    """The result of a compaction."""

    archived: int  # records moved to Parquet files
    dropped: int   # records deleted


class FolderCompaction:
    """Compacts the records that were listed when it began."""

    def __init__(self, folder: Folder, listed: Sequence[tuple[Pair, Listed]], compacting: Compacting, watch: Watch, now: datetime) -> None:
        there = set(folder.paths(RECORDS))
        self._listed: list[tuple[str, Listed]] = [(pair[0], found) for pair, found in listed if found.path in there]
        self._folder: Folder = folder
        self._compacting: Compacting = compacting
        self._watch: Watch = watch
        self._now: datetime = now
        self._cold: ColdFiles = ColdFiles(folder)

    def run(self, retentions: dict[str, Retention], older_than: timedelta | None) -> Compacted:
        """Compacts by the retention of each kind; `older_than` also archives older records that their kind keeps."""
        archived = self._archive(self._to_archive(retentions, older_than))
        return Compacted(archived, self._drop(retentions))

    def preview(self, retentions: dict[str, Retention], older_than: timedelta | None) -> Compacted:
        """What `run` would do now; nothing is changed."""
        old = [found.id for found in self._to_archive(retentions, older_than)]
        return Compacted(len(old) - len(self._cold.holds(old)), len(self._to_drop(retentions)))

    def _to_archive(self, retentions: dict[str, Retention], older_than: timedelta | None) -> list[Listed]:
        return [found for kind, found in self._listed if self._leaves(found, _archived_after(retentions[kind], older_than))]

    def _to_drop(self, retentions: dict[str, Retention]) -> list[tuple[str, Listed, timedelta]]:
        """The kind of each record, and the age at which it is compacted."""
        ages = {kind: timedelta(days=kept.days) for kind, kept in retentions.items() if kept.then == "drop" and kept.days is not None}
        return [(kind, found, ages[kind]) for kind, found in self._listed if self._leaves(found, ages.get(kind))]

    def _leaves(self, found: Listed, after: timedelta | None) -> bool:
        return after is not None and made_at(found.id) < self._now - after

    def _archive(self, old: list[Listed]) -> int:
        self._watch("compact:begun")
        archived = 0
        self._cold.poll()
        base = self._cold.version  # read first: a later commit stops this run, so that no record is archived twice
        with tempfile.TemporaryDirectory(prefix="tracelake-compaction-") as scratch:
            source = Path(scratch) / "rows.jsonl"
            written, leaving = self._write_down(old, source)
            if written.rows:
                order = CompactionOrder(source=str(source), target=f"{scratch}/files", columns=COLUMNS, sort=SORT)
                self._commit(self._compacting(order, Path(scratch)), written, version=base + 1)
                archived = written.rows
        self._clear_away(leaving)
        return archived

    def _write_down(self, old: Sequence[Listed], source: Path) -> tuple[RowSum, list[Listed]]:
        """The rows of records that are not in the table yet, and all records whose files still exist."""
        written, there = RowSum(), list[Listed]()
        with source.open("w") as lines:
            for first in range(0, len(old), _AT_ONCE):
                some = old[first : first + _AT_ONCE]
                bodies = self._folder.read_many([found.path for found in some])
                hot = [(found, body) for found, body in zip(some, bodies, strict=True) if body is not None and is_of(body, found.id)]
                archived = self._cold.holds([found.id for found, _ in hot])
                there += [found for found, _ in hot]
                for found, body in hot:
                    if found.id not in archived:
                        row = _row(found, body)
                        written.add(row.values())
                        lines.write(json.dumps(row, separators=(",", ":")) + "\n")
        return written, there

    def _commit(self, paths: list[Path], written: RowSum, *, version: int) -> None:
        """Fails if there was another commit since the run began: the log entry is created only if it does not exist."""
        self._watch("compact:compacted")
        put: list[tuple[str, bytes]] = []
        for path in paths:
            body = path.read_bytes()
            put.append((f"{hashlib.sha256(body).hexdigest()[:32]}.parquet", body))
            self._folder.put_new(f"{COLD}/{put[-1][0]}", body)
        self._watch("compact:files_put")
        ids = {name: [row["id"] for row in self._cold.rows([f"{COLD}/{name}"])] for name, _ in put}
        put = [(name, body) for name, body in put if ids[name]]
        self._compare(written, [f"{COLD}/{name}" for name, _ in put])
        entry = _entry(version, [(name, len(body), ids[name]) for name, body in put], self._now)
        if not self._folder.put_new(log_entry_path(version), entry):
            raise CompactionFailed("Another process is compacting this repository; nothing was deleted. Run it again when that process is done.")
        self._watch("compact:entry_put")
        self._compare(written, [added.path for added in added_files(self._folder.read(log_entry_path(version)) or b"")])

    def _compare(self, written: RowSum, paths: list[str]) -> None:
        there = RowSum()
        for row in self._cold.rows(paths):
            there.add(row[name] for name in COLUMNS)
        if (there.rows, there.hash) != (written.rows, written.hash):
            raise CompactionFailed("The table does not contain what was written; no file of a record was deleted.")

    def _clear_away(self, leaving: list[Listed]) -> None:
        """Deletes the files of records that are in the table; other files stay."""
        self._watch("compact:verified")
        for first in range(0, len(leaving), _AT_ONCE):
            some = leaving[first : first + _AT_ONCE]
            archived = self._cold.holds([found.id for found in some])
            self._folder.delete([found.path for found in some if found.id in archived])
            self._watch("compact:some_deleted")

    def _drop(self, retentions: dict[str, Retention]) -> int:
        """Recorded before the files are deleted: files of dropped records may exist for a while, but are not shown."""
        earlier = DroppedRecords.read(self._folder)
        below, before = dict(earlier.below), dict(earlier.before)
        leaving: list[Listed] = []
        for kind, found, age in self._to_drop(retentions):
            below[kind] = max(below.get(kind, ""), _first_id(self._now - age))
            before[kind] = max(before.get(kind, ""), _just_behind(found.produced))
            leaving.append(found)
        if not leaving:
            return 0
        self._folder.replace(DROPPED, DroppedRecords(below, before).to_json())
        self._watch("compact:drop_recorded")
        gone = 0
        for first in range(0, len(leaving), _AT_ONCE):
            some = leaving[first : first + _AT_ONCE]
            bodies = self._folder.read_many([found.path for found in some])
            paths = [found.path for found, body in zip(some, bodies, strict=True) if body is not None and is_of(body, found.id)]
            self._folder.delete(paths)
            gone += len(paths)
        return gone


def made_at(id: str) -> datetime:
    """The timestamp of a UUIDv7."""
    return datetime.fromtimestamp((UUID(id).int >> 80) / 1000, UTC)


def _first_id(at: datetime) -> str:
    return f"{int(at.timestamp() * 1000):012x}" + "0" * 20


def _just_behind(produced: str) -> str:
    at = datetime.strptime(produced, "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC) + timedelta(microseconds=1)
    return at.isoformat(timespec="microseconds")


def _archived_after(retention: Retention, older_than: timedelta | None) -> timedelta | None:
    """None: the records stay files, or are dropped."""
    if retention.then == "drop":
        return None
    kept = timedelta(days=retention.days) if retention.days is not None else None
    return min((after for after in (kept, older_than) if after is not None), default=None)


def _row(found: Listed, body: bytes) -> dict[str, Any]:
    record = json.loads(body)["record"]
    target = record["target"]
    produced = datetime.strptime(found.produced, "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC)
    row = {
        "kind": record["kind"], "source_id": target["source_id"], "schema_name": target["schema"], "table_name": target["table"],
        "produced_at": (produced - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), "id": str(UUID(found.id)), "path": found.path, "body": body.decode(),
    }  # fmt: skip
    return {name: row[name] for name in COLUMNS}


def _entry(version: int, files: list[tuple[str, int, list[str]]], at: datetime) -> bytes:
    """One entry of a Delta log, with the lowest reader and writer versions."""
    milliseconds = int(at.timestamp() * 1000)
    actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE", "operationParameters": {"mode": "Append"}, "timestamp": milliseconds, "engineInfo": "tracelake"}}]
    if version == 0:
        fields = [{"name": name, "type": _TYPES[type], "nullable": True, "metadata": {}} for name, type in COLUMNS.items()]
        actions += [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {
                "id": hashlib.sha256(f"{milliseconds}{files}".encode()).hexdigest()[:32], "name": "metadata_records", "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": [], "createdTime": milliseconds,
                "configuration": {"delta.enableExpiredLogCleanup": "false", "delta.logRetentionDuration": "interval 36500 days"},
            }},
        ]  # fmt: skip
    for name, size, ids in files:
        stats = {"numRecords": len(ids), "minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}, "nullCount": {"id": 0}}
        actions.append({"add": {
            "path": name, "size": size, "partitionValues": {}, "modificationTime": milliseconds, "dataChange": True, "stats": json.dumps(stats),
        }})  # fmt: skip
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()
