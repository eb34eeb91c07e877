"""Opening and scanning cold files. A file that cannot be read is an error, never a shorter result."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from tracelake.control.cold.rows import COLUMNS
from tracelake.storage.contract import Storage
from tracelake.storage.paths import UnsafePath
from tracelake_sdk.bounded_cache import BoundedCache
from tracelake_sdk.errors import StorageUnavailable
from tracelake_sdk.errors.records import ColdUnreadable
from tracelake_sdk.records.compaction_program import RowSum

_AT_ONCE = 2000               # rows decoded together
_MOST_KEPT = 256 * 1024 * 1024  # bytes of the cache for files of an object store

Table = Any  # of Arrow, whose package has no types
pc: Any = pyarrow.compute


class ColdStorage:
    """Opens cold files. They never change, so files from an object store are cached."""

    def __init__(self, storage: Storage | None, *, most_bytes: int = _MOST_KEPT) -> None:
        self._storage: Storage | None = storage
        self._kept: BoundedCache[str, bytes] = BoundedCache(most_bytes, weigh=len)

    def open(self, path: str) -> pq.ParquetFile:
        """Raises ColdUnreadable."""
        if self._storage is None:
            raise ColdUnreadable(
                "Older records are stored in files, and this process has no storage to read them from; set TRACELAKE__STORAGE__URL to the storage that they were written to."
            )
        storage = self._storage
        try:
            local = storage.local_path(path)
            return pq.ParquetFile(local if local is not None else pa.BufferReader(self._kept.find_or_make(path, lambda: _fetch(storage, path))))
        except (OSError, pa.ArrowException, StorageUnavailable, UnsafePath):
            raise _unreadable() from None


def _fetch(storage: Storage, path: str) -> bytes:
    body = storage.read(path)
    if body is None:
        raise ColdUnreadable("A file of older records is missing from the storage; restore it.")
    return body


def chosen(file: pq.ParquetFile, columns: Sequence[str], equal: dict[str, str], kinds: Sequence[str], bounds: dict[str, tuple[Any, Any]]) -> Table:
    """Rows with these values within these bounds, both inclusive; row groups that cannot contain one are skipped. Raises ColdUnreadable."""
    needed = [*dict.fromkeys([*columns, *equal, *bounds, "kind"])]
    footer = file.metadata
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    groups = [group for group in range(footer.num_row_groups) if _may_hold(footer.row_group(group), places, equal, kinds, bounds)]
    try:
        table = file.read_row_groups(groups, columns=needed)
    except (OSError, pa.ArrowException):
        raise _unreadable() from None
    for name, value in equal.items():
        table = table.filter(pc.equal(table[name], value))
    if kinds:
        table = table.filter(pc.is_in(table["kind"], value_set=pa.array(kinds, pa.string())))
    for name, (least, most) in bounds.items():
        if least is not None:
            table = table.filter(pc.greater_equal(table[name], pa.scalar(least, table.schema.field(name).type)))
        if most is not None:
            table = table.filter(pc.less_equal(table[name], pa.scalar(most, table.schema.field(name).type)))
    return table.select(list(columns))


def sum_up(path: Path | Any, into: RowSum) -> dict[str, Any]:
    """Adds every row of a file to a sum, and returns what the file contains. Raises ColdUnreadable."""
    kinds: set[str] = set()
    found: dict[str, Any] = {"rows": 0, "org_id": None, "produced_from": None, "produced_to": None, "first": (2**64, 0), "last": (0, 0)}
    try:
        for batch in pq.ParquetFile(path).iter_batches(_AT_ONCE, columns=list(COLUMNS)):
            for row in in_micros(pa.Table.from_batches([batch])).to_pylist():
                into.add(row[name] for name in COLUMNS)
                kinds.add(row["kind"])
                found["rows"] += 1
                found["org_id"] = row["org_id"]
                found["produced_from"] = min(found["produced_from"] or row["produced_at"], row["produced_at"])
                found["produced_to"] = max(found["produced_to"] or row["produced_at"], row["produced_at"])
                found["first"] = min(found["first"], (row["xid"], row["seq"]))
                found["last"] = max(found["last"], (row["xid"], row["seq"]))
    except (OSError, pa.ArrowException):
        raise _unreadable() from None
    return found | {"kinds": sorted(kinds)}


def in_micros(table: Table) -> Table:
    """Times as whole numbers."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    return table


def rows_of(table: Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(_AT_ONCE):
        yield from batch.to_pylist()


def _may_hold(group: Any, places: dict[str, int], equal: dict[str, str], kinds: Sequence[str], bounds: dict[str, tuple[Any, Any]]) -> bool:
    """Decided by its footer; without statistics a row group may contain a match."""
    for name in {*equal, *bounds, *(["kind"] if kinds else [])}:
        statistics = group.column(places[name]).statistics
        if statistics is None or not statistics.has_min_max:
            continue
        least, most = statistics.min, statistics.max
        if name in equal and not least <= equal[name] <= most:
            return False
        if name == "kind" and kinds and not any(least <= kind <= most for kind in kinds):
            return False
        if name in bounds and not _overlap(bounds[name], least, most):
            return False
    return True


def _overlap(wanted: tuple[Any, Any], least: Any, most: Any) -> bool:
    from_, to = wanted
    if isinstance(most, datetime):  # footers may be truncated to milliseconds
        least, most = least - timedelta(milliseconds=1), most + timedelta(milliseconds=1)
    return (from_ is None or most >= from_) and (to is None or least <= to)


def _unreadable() -> ColdUnreadable:
    return ColdUnreadable("A file of older records cannot be read; check that the storage answers and the file is complete.")
