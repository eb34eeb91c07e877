"""Moves partitions of old records from Postgres to files that reads use, or drops them.

The steps for one partition: it is sealed, so that it takes no record; its rows are written to a file for Spark; Spark's files are compared with them
and put into the table; the log entry frozen in Postgres, then put; count and hash compared once more with what the entry names;
then, in one transaction, reads switch to the files and the partition is dropped. A crash at any step leaves
the rows in Postgres, and the next run starts again or continues from the frozen entry. Files are named by content: any number of
processes may do this at once.
"""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from tracelake.control.cold import store
from tracelake.control.cold.parquet_files import sum_up
from tracelake.control.cold.rows import COLUMNS, SORT, values_of
from tracelake.control.cold.store import FrozenPartition, Partition
from tracelake.control.compaction.cold_table import LOCATION, PutFile, added_paths, file_path, log_entry, spell_files
from tracelake.control.compaction.spark_program import Compacting
from tracelake.control.database.transactions import Database, DatabaseRole, Watch, no_watch
from tracelake.control.records.catalogs import KindCache
from tracelake.storage.contract import PutResult, Storage
from tracelake.storage.paths import log_entry_path
from tracelake_sdk.errors import StorageOutcomeUnknown, TracelakeError, Unavailable
from tracelake_sdk.errors.records import CompactionFailed
from tracelake_sdk.records.compaction_program import CompactionOrder, RowSum

_HOLD = timedelta(hours=1)   # before another process takes over a killed run
_AT_ONCE = 2000              # rows per query
_TRIES_TO_DROP = 5           # each waits some seconds for readers
_LEFTOVER_SECONDS = 86400
_SCRATCH = "compaction-"
_log = structlog.get_logger()


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Compactor:
    database: Database
    storage: Storage
    scratch: Path
    compacting: Compacting
    every: timedelta = timedelta(hours=24)
    now: Callable[[], datetime] = _now
    watch: Watch = no_watch
    catalogs: KindCache = field(default_factory=KindCache)

    def run_once(self) -> int:
        """Compacts if it is due, by the stored end of the last run; returns how many partitions have left."""
        with self.database.transaction("begin_compaction") as tx:
            if not store.begin_run(tx, every=self.every, hold=_HOLD):
                return 0
        try:
            left = self.compact()
        except Unavailable:
            raise
        except TracelakeError as error:
            _log.error("old records were not moved", error=error.code, detail=error.detail)
            return 0
        except OSError as error:  # of the scratch
            _log.error("old records were not moved", error=type(error).__name__, detail=error.strerror)
            return 0
        with self.database.transaction("end_compaction") as tx:
            store.end_run(tx)
        return len(left)

    def compact(self) -> list[str]:
        """Compacts every partition that is old enough, whenever the last run was; returns the names of those that have left."""
        left = self._finish()
        with self.database.transaction("record_partitions") as tx:
            there = store.partitions(tx)
        for partition in there:
            if not partition.leaves:
                continue
            with self.database.transaction("seal_partition", role=DatabaseRole.DECIDE) as tx:
                sealed = store.seal(tx, partition.name)
            if not sealed:
                continue
            if partition.retention_class.startswith("archive_"):
                left += self._archive(partition)
            else:
                left += self._drop(partition.name)
        return left

    def _archive(self, partition: Partition) -> list[str]:
        self._clear_scratch()
        self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=self.scratch) as folder:
            written = self._write_down(partition, Path(folder) / "rows.jsonl")
            if not written.rows:
                return self._drop(partition.name)
            self.watch("compact:written_down")
            order = CompactionOrder(
                source=f"{folder}/rows.jsonl", target=f"{folder}/files", columns=COLUMNS, sort=SORT, apart="org_id"
            )
            paths = self.compacting(order, Path(folder))
            self.watch("compact:compacted")
            try:
                files = self._put(partition, paths, written)
            except StorageOutcomeUnknown:
                if self._frozen(partition.name) is None:
                    raise
                return self._finish()  # another process was faster, and removed these files while they were put
        self.watch("compact:files_put")
        with self.database.transaction("freeze_partition", role=DatabaseRole.DECIDE) as tx:
            store.lock_cold_table(tx)
            table, version = store.cold_table(tx), store.next_delta_version(tx)
            body = log_entry(table, version, partition.name, files, self.now())
            store.freeze(tx, name=partition.name, delta_version=version, body=body, rows=written.rows, hash=written.hash, files=spell_files(files))
            frozen = store.frozen(tx, partition.name)
        left = self._finish()
        if frozen is not None and partition.name not in left:  # another process was faster: no entry names these files
            self._clear_away(frozen)
        return left

    def _write_down(self, partition: Partition, path: Path) -> RowSum:
        """The rows of a sealed partition as lines of JSON."""
        written = RowSum()
        with path.open("w") as lines:
            for values in self._rows(partition):
                written.add(values.values())
                lines.write(json.dumps(values, separators=(",", ":")) + "\n")
        return written

    def _rows(self, partition: Partition) -> Iterator[dict[str, Any]]:
        after = partition.first_id
        while True:
            with self.database.transaction("leaving_records") as tx:
                rows = store.leaving(tx, partition, after=after, limit=_AT_ONCE)
                catalogs = {org: self.catalogs.of(tx, org) for org in {row.org_id for row in rows}}
            for row in rows:
                yield values_of(row, catalogs[row.org_id].kind(row.kind, row.kind_version))
            if len(rows) < _AT_ONCE:
                return
            after = rows[-1].id

    def _put(self, partition: Partition, paths: list[Path], written: RowSum) -> list[PutFile]:
        """Compared with the written rows before any log entry names them."""
        came = RowSum()
        sums = [(path, sum_up(path, came)) for path in paths]
        if (came.rows, came.hash) != (written.rows, written.hash):
            raise CompactionFailed(f"Spark wrote {came.rows} of {written.rows} records, or changed some; no record was moved.", partition=partition.name)
        files: list[PutFile] = []
        for path, found in sums:
            if not found["rows"]:
                continue
            body = path.read_bytes()
            place = file_path(partition.name, found["org_id"], hashlib.sha256(body).hexdigest())
            self.storage.put_new(place, body, self.now())
            files.append(PutFile.of(place, len(body), found))
        return files

    def _finish(self) -> list[str]:
        """Finishes frozen partitions that are still in Postgres, in the order of the log, so that Delta readers find no gap."""
        with self.database.transaction("frozen_partitions") as tx:
            frozen = store.unput(tx)
        left: list[str] = []
        for one in frozen:
            if self.storage.put_new(log_entry_path(LOCATION, one.delta_version), one.body, one.at) is PutResult.OTHER:
                raise CompactionFailed("Another program writes to the log of the cold table; nothing was dropped.", delta_version=one.delta_version)
            self.watch("compact:entry_put")
            self._verify(one)
            self.watch("compact:verified")
            self._clear_away(one)  # before the drop: a dropped partition is not checked again
            left += self._drop(one.name)
        return left

    def _frozen(self, name: str) -> FrozenPartition | None:
        with self.database.transaction("frozen_partition") as tx:
            return store.frozen(tx, name)

    def _clear_away(self, frozen: FrozenPartition) -> None:
        """Removes files that the frozen entry does not name, left by killed or slower runs: no entry can name them any more."""
        named = set(added_paths(frozen.body))
        self.storage.delete([file.path for file in self.storage.list(f"{LOCATION}/{frozen.name}") if file.path not in named])

    def _verify(self, frozen: FrozenPartition) -> None:
        """Checks count and hash of the files that the log names, read back from the table."""
        there = RowSum()
        entry = self.storage.read(log_entry_path(LOCATION, frozen.delta_version))
        for path in added_paths(entry or b""):
            body = self.storage.read(path)
            if body is None:
                raise CompactionFailed("A file that the log of the cold table names is missing; nothing was dropped.", partition=frozen.name)
            sum_up(pa.BufferReader(body), there)
        if (there.rows, there.hash) != (frozen.rows, frozen.hash):
            raise CompactionFailed("The cold table does not contain what was written; nothing was dropped.", partition=frozen.name)
        with self.database.transaction("note_read_back", role=DatabaseRole.DECIDE) as tx:
            store.note_read_back(tx, name=frozen.name, rows=there.rows, hash=there.hash)

    def _drop(self, name: str) -> list[str]:
        for tried in range(1, _TRIES_TO_DROP + 1):
            try:
                with self.database.transaction("drop_partition", role=DatabaseRole.DECIDE) as tx:
                    rows = store.drop_partition(tx, name)
            except Unavailable:  # a reader holds it, or the database is unavailable; the last try raises
                if tried == _TRIES_TO_DROP:
                    raise
            else:
                if rows is None:
                    return []
                _log.info("a partition of records has left Postgres", partition=name, records=rows)
                return [name]
        return []

    def _clear_scratch(self) -> None:
        """Removes what killed runs have left."""
        for folder in self.scratch.glob(f"{_SCRATCH}*"):
            if time.time() - folder.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
