"""Footers: the statistics in Parquet files, and which of them can be trusted.

A bound counts only if its writer is known to write correct ones: never for floating-point numbers (bounds ignore NaN), never for strings
that may have been truncated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracelake.worker.measuring.contract import Refused
from tracelake_sdk.datasets.measurements import FileStatistics
from tracelake_sdk.rules.trees import IsNull, OutsideUnits, RowCheck, TypedColumn, ValueKind

_KNOWN_WRITERS = ("parquet-mr ", "parquet-cpp-arrow ", "DuckDB ", "Polars", "parquet-rs ")
_WRITERS_OF_WHOLE_TEXTS = ("parquet-mr ", "parquet-cpp-arrow ")
_LONGEST_TEXT = 32  # bytes; no writer truncates shorter strings
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_YEARS = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC))


@dataclass(frozen=True)
class ColumnFacts:
    """What is certain about one column of one file; None if it is not."""

    rows: int
    nulls: int | None
    low: int | str | None = None   # units of the column, or text
    high: int | str | None = None
    size: int = 0                  # bytes before compression; only used to choose a method, never as a result

    @property
    def empty(self) -> bool:
        return self.nulls == self.rows


@dataclass(frozen=True)
class Footer:
    rows: int
    schema: Any      # of Arrow
    metadata: Any    # of pyarrow.parquet


def read_footer(file: Path) -> Footer:
    try:
        parquet = pq.ParquetFile(file)
        return Footer(parquet.metadata.num_rows, parquet.schema_arrow, parquet.metadata)
    except (pa.ArrowException, OSError, ValueError):
        raise Refused("not_parquet", "A file of the output is not valid Parquet.") from None


def facts_of(footer: Footer, columns: Mapping[str, TypedColumn]) -> dict[str, ColumnFacts]:
    """By name, for every column of the file that is neither nested nor missing."""
    metadata = footer.metadata
    writer = metadata.created_by or ""
    if not writer.startswith(_KNOWN_WRITERS):
        return {}
    found: dict[str, ColumnFacts] = {}
    for index in range(metadata.num_columns):
        leaf = metadata.schema.column(index)
        column = columns.get(leaf.path)
        if column is None or leaf.max_repetition_level or leaf.max_definition_level > 1 or leaf.path not in footer.schema.names:
            continue
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        chunks = [(group.num_rows, group.column(index).statistics) for group in groups]
        size = sum(group.column(index).total_uncompressed_size for group in groups)
        found[leaf.path] = replace(_column_facts(footer.rows, column, chunks, writer), size=size)
    return found


def _column_facts(rows: int, column: TypedColumn, chunks: Sequence[tuple[int, Any]], writer: str) -> ColumnFacts:
    nulls: int | None = 0
    bounds: list[tuple[int | str, int | str] | None] = []
    for count, statistics in chunks:
        if count == 0:
            continue
        known = statistics.null_count if statistics is not None and statistics.has_null_count else None
        nulls = None if nulls is None or known is None else nulls + known
        if known != count:  # an all-null chunk has no bounds and needs none
            bounds.append(_bounds(column, statistics, writer))
    if nulls is not None and not 0 <= nulls <= rows:
        nulls = None
    sure = [bound for bound in bounds if bound is not None]
    if not sure or len(sure) < len(bounds):
        return ColumnFacts(rows, nulls)
    lows, highs = zip(*sure, strict=True)
    return ColumnFacts(rows, nulls, min(lows), max(highs))  # pyright: ignore[reportArgumentType] of one kind


def _bounds(column: TypedColumn, statistics: Any, writer: str) -> tuple[int | str, int | str] | None:
    if statistics is None or not statistics.has_min_max:
        return None
    if column.kind is ValueKind.TEXT:
        texts = [_text(raw, writer) for raw in (statistics.min_raw, statistics.max_raw)]
        low, high = texts
    elif column.counted:
        low, high = (_units(raw, column, statistics.physical_type) for raw in (statistics.min_raw, statistics.max_raw))
    else:
        return None
    return (low, high) if low is not None and high is not None and low <= high else None  # pyright: ignore[reportOperatorIssue] of one kind


def _text(raw: Any, writer: str) -> str | None:
    if not isinstance(raw, bytes) or len(raw) > _LONGEST_TEXT or not writer.startswith(_WRITERS_OF_WHOLE_TEXTS):
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text  # Postgres cannot store NUL


def _units(raw: Any, column: TypedColumn, physical: str) -> int | None:
    if physical in ("INT32", "INT64") and isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if physical == "FIXED_LEN_BYTE_ARRAY" and column.kind is ValueKind.DECIMAL and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return None  # INT96, and other types with their own order


def proved(check: RowCheck, files: Sequence[tuple[int, Mapping[str, ColumnFacts]]]) -> int | None:
    """How many rows break the rule, if the footers prove it; `files` are rows and facts."""
    if not isinstance(check, IsNull | OutsideUnits):
        return None
    violations = 0
    for rows, facts in files:
        found = _broken(check, facts.get(check.column), rows)
        if found is None:
            return None
        violations += found
    return violations


def _broken(check: IsNull | OutsideUnits, facts: ColumnFacts | None, rows: int) -> int | None:
    if facts is None:
        return None if rows else 0
    if isinstance(check, IsNull):
        return facts.nulls
    if not facts.empty and not _inside(check, facts):
        return None
    return 0 if check.null_passes else facts.nulls


def _inside(check: OutsideUnits, facts: ColumnFacts) -> bool:
    if not isinstance(facts.low, int) or not isinstance(facts.high, int):
        return facts.rows == 0
    return (check.low is None or facts.low >= check.low) and (check.high is None or facts.high <= check.high)


def statistics_of(columns: Mapping[str, TypedColumn], facts: Mapping[str, ColumnFacts]) -> FileStatistics:
    """In Delta's form: correct bounds, not always the tightest."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for name, known in facts.items():
        low, high = _spelled(columns[name], known.low, up=False), _spelled(columns[name], known.high, up=True)
        if low is not None and high is not None:
            least[name], most[name] = low, high
    return FileStatistics(min=least, max=most, nulls={name: known.nulls for name, known in facts.items() if known.nulls is not None})


def _spelled(column: TypedColumn, bound: int | str | None, *, up: bool) -> int | float | str | None:
    if bound is None or isinstance(bound, str) or column.kind is ValueKind.INTEGER:
        return bound
    match column.kind:
        case ValueKind.DATE:
            ordinal = bound + _EPOCH.toordinal()
            return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= date.max.toordinal() else None
        case ValueKind.TIMESTAMP:
            return _instant(bound, up=up)
        case _:
            exact = Decimal(bound).scaleb(-column.scale)
            number = float(exact)  # Delta writes decimals as JSON numbers, which readers may parse as doubles
            return number if abs(bound) < 10**15 and Decimal(repr(number)) == exact else None


def _instant(microseconds: int, *, up: bool) -> str | None:
    """Delta's instants have milliseconds: the minimum is rounded down and the maximum up, so that both stay correct."""
    milliseconds = -(-microseconds // 1000) if up else microseconds // 1000
    if not (_YEARS[0] - _EPOCH) // _MILLISECOND <= milliseconds <= (_YEARS[1] - _EPOCH) // _MILLISECOND:
        return None
    return (_EPOCH + milliseconds * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")
