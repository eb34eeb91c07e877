"""Cold records in the same two orders as hot ones: newest first, and in the order of the log.

To read both, read Postgres first, in the same transaction: rows locked there cannot leave before the files are
chosen, and rows that have left are in these files.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.cold import store
from tracelake.control.cold.parquet_files import ColdStorage, chosen, rows_of
from tracelake.control.cold.rows import micros
from tracelake.control.cold.store import ColdFileRow
from tracelake.control.database.transactions import Transaction
from tracelake.storage.contract import Storage
from tracelake_sdk.records import DroppedSpan, RecordFilters, Window

_SAID = ("id", "produced_at", "kind_version", "stored_at", "record", "context", "dataset_ids", "xid", "seq")
Seen = frozenset[str] | None  # datasets whose records may be read; None: all


@dataclass(frozen=True)
class ColdRow:
    id: UUID
    produced_at: datetime
    kind_version: int
    stored_at: datetime
    record: str
    context: str
    xid: str
    seq: int


class ColdRecords:
    """Without a storage, any read that needs a file raises ColdUnreadable."""

    def __init__(self, storage: Storage | None = None) -> None:
        self._files: ColdStorage = ColdStorage(storage)

    def newest_first(self, tx: Transaction, org: UUID, filters: RecordFilters, seen: Seen, before: tuple[datetime | str, UUID]) -> Iterator[ColdRow]:
        """Every record that the filters may match, after a position; `record_matching` applies windows and paths."""
        equal = _equal(filters)
        least, most = _bounds(filters.produced, before[0])
        files = store.files(tx, org=org, kinds=filters.kinds, produced_from=least or "-infinity", produced_to=most or "infinity")
        waiting: list[tuple[int, int, int, ColdRow]] = []  # a heap with the newest record on top
        for at, file in enumerate(files):
            yield from _until(waiting, file.produced_to)
            for number, row in enumerate(self._rows(file, equal | {"org_id": str(org)}, filters.kinds, {"produced_at": (least, most)}, seen)):
                if isinstance(before[0], str) or (row.produced_at, row.id) < (before[0], before[1]):
                    waiting.append((*_newest_on_top(row), at * 10**9 + number, row))
            heapq.heapify(waiting)
        yield from _until(waiting, None)

    def logged(
        self, tx: Transaction, org: UUID, *, after: tuple[str, int], last: tuple[str, int], kinds: list[str], limit: int, seen: Seen
    ) -> list[ColdRow]:
        """The first records after one position of the log, up to and including another."""
        found: list[ColdRow] = []
        low, high = (int(after[0]), after[1]), (int(last[0]), last[1])
        for file in store.files_in_log(tx, org=org, after=after, kinds=kinds):
            if len(found) == limit and _in_log(found[-1]) < (int(file.first_xid), file.first_seq):
                break
            found += [
                row for row in self._rows(file, {"org_id": str(org)}, kinds, {"xid": (low[0], high[0])}, seen) if low < _in_log(row) <= high
            ]
            found = heapq.nsmallest(limit, found, key=_in_log)
        return found

    def log_end(self, tx: Transaction, org: UUID) -> tuple[str, int] | None:
        end = store.log_end(tx, org)
        return None if end is None else (end.xid, end.seq)

    def dropped(self, tx: Transaction, org: UUID, filters: RecordFilters) -> list[DroppedSpan]:
        """The records from which the filters select."""
        start = filters.produced.start if filters.produced else None
        found = store.dropped(tx, org=org, kinds=filters.kinds)
        return [DroppedSpan(kind=span.kind, before=span.before) for span in found if start is None or start < span.before]

    def _rows(
        self, file: ColdFileRow, equal: dict[str, str], kinds: Sequence[str], bounds: dict[str, tuple[Any, Any]], seen: Seen
    ) -> Iterator[ColdRow]:
        for row in rows_of(chosen(self._files.open(file.path), _SAID, equal, kinds, bounds)):
            if seen is None or row["dataset_ids"] is None or seen.issuperset(row["dataset_ids"]):
                yield ColdRow(
                    UUID(row["id"]), row["produced_at"], row["kind_version"], row["stored_at"], row["record"], row["context"], str(row["xid"]), row["seq"]
                )


def _equal(filters: RecordFilters) -> dict[str, str]:
    conditions = {
        "source_id": filters.source_id,
        "schema_name": filters.schema_name,
        "table_name": filters.table,
        "producer_id": filters.producer_id,
        "job_id": filters.job_id,
        "run_id": filters.run_id,
        "namespace": filters.namespace,
        "workspace": filters.workspace,
        "cluster": filters.cluster,
        "quality": filters.quality.value if filters.quality else None,
    }
    return {name: value for name, value in conditions.items() if value is not None}


def _bounds(produced: Window | None, before: datetime | str) -> tuple[datetime | None, datetime | None]:
    """Both inclusive; the caller checks the exact ends."""
    ends = [end for end in (produced.end if produced else None, before) if isinstance(end, datetime)]
    return produced.start if produced else None, min(ends, default=None)


def _in_log(row: ColdRow) -> tuple[int, int]:
    return int(row.xid), row.seq


def _newest_on_top(row: ColdRow) -> tuple[int, int]:
    return -micros(row.produced_at), -row.id.int


def _until(waiting: list[tuple[int, int, int, ColdRow]], reaches: datetime | None) -> Iterator[ColdRow]:
    """The records that are newer than every file still to be opened."""
    while waiting and (reaches is None or waiting[0][3].produced_at > reaches):
        yield heapq.heappop(waiting)[3]
