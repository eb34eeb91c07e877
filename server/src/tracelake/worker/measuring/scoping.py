# ruff: noqa: S608  # the SQL is made of checks; names and literals in it are quoted by compile_duckdb
"""Scoping: which scope each file belongs to, and how many of its rows are outside of it."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from tracelake.worker.measuring.compile_duckdb import files, name, text, units
from tracelake.worker.measuring.contract import OutputToMeasure, Refused
from tracelake.worker.measuring.engine import CountingEngine
from tracelake.worker.measuring.footers import ColumnFacts
from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope, covers, folder_of
from tracelake_sdk.rules.trees import TypedColumn, ValueKind

_TIME = re.compile(r"([0-9]{8}T[0-9]{6})([0-9]{6})?Z")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000  # microseconds


def scope_of(output: OutputToMeasure, folder: str, first_key: str | None) -> Scope:
    """The scope of a folder; `first_key` is the partition key of one of its rows, if there is any."""
    by_folder = {folder_of(scope): scope for scope in [*(output.scopes or []), *output.staged.scopes]}
    if folder in by_folder:
        return by_folder[folder]
    found = _read_folder(folder, first_key) if output.staged.partition_by else FullScope()  # a table without partitions has one scope, reported or not
    if found is None or folder_of(found) != folder or (output.scopes is not None and not output.adopted):
        raise Refused("scope_unknown", "A file of the output is in a folder that does not belong to its scopes.")
    return found


def _read_folder(folder: str, first_key: str | None) -> Scope | None:
    try:
        if folder.startswith("p-"):
            return PartitionScope(key=first_key) if first_key else None
        if folder.startswith("c-"):
            return CursorScope(value=_cursor(folder[2:]))
        start, _, end = folder.partition("_")
        return RangeScope(start=_cursor(start), end=_cursor(end))
    except ValueError:
        return None


def _cursor(spelled: str) -> int | datetime:
    if _WHOLE.fullmatch(spelled):
        return int(spelled)
    if found := _TIME.fullmatch(spelled):
        return datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC, microsecond=int(found[2] or 0))
    raise ValueError("not a cursor")


def first_key(engine: CountingEngine, local: Path, spec: PartitionSpec, columns: Mapping[str, TypedColumn]) -> str | None:
    """The partition key of some row."""
    column = columns.get(spec.column)
    if column is None or (spelled := key_text(spec.column, column)) is None:
        return None
    found = engine.read_row(f"SELECT {spelled} FROM {files([local])} WHERE {name(spec.column)} IS NOT NULL LIMIT 1")
    return found[0] if found else None


def key_text(column: str, of: TypedColumn) -> str | None:
    """A value of the column as a partition key; None if its values cannot be one."""
    match of.kind:
        case ValueKind.TEXT:
            return name(column)
        case ValueKind.TIMESTAMP:
            return f"make_timestamp(epoch_us({name(column)}))::VARCHAR"
        case ValueKind.FLOAT | ValueKind.OTHER:
            return None
        case _:
            return f"{name(column)}::VARCHAR"


def announced(output: OutputToMeasure, scope: Scope) -> bool:
    return output.staged.everything or any(covers(whole, scope) for whole in output.staged.scopes)


def count_outside(
    engine: CountingEngine, spec: PartitionSpec | None, columns: Mapping[str, TypedColumn], scope: Scope,
    members: Sequence[tuple[Path, int, Mapping[str, ColumnFacts]]],
) -> int:  # fmt: skip
    """How many rows of these files (each with its rows and facts) are outside of their scope."""
    rows = sum(count for _, count, _ in members)
    if isinstance(scope, FullScope) or not rows:
        return 0
    column = columns.get(spec.column) if spec else None
    if spec is None or column is None:
        return rows
    inside = _inside(spec, column, scope)
    if inside is None:
        return rows
    unproved = [local for local, count, facts in members if count and not _proved(spec, column, scope, facts.get(spec.column))]
    if not unproved:
        return 0
    found = engine.read_row(f"SELECT count(*) FILTER (WHERE NOT coalesce({inside}, false)) FROM {files(unproved)}")
    return int(found[0]) if found else rows


def _span(scope: CursorScope | RangeScope, column: TypedColumn) -> tuple[int, int]:
    """The lowest and the highest unit of the column inside the scope; a day counts by its first instant, in UTC."""
    value = scope.value if isinstance(scope, CursorScope) else scope.start
    low = _number(value)
    high = low if isinstance(scope, CursorScope) else _number(scope.end) - 1
    return (-(-low // _DAY), high // _DAY) if column.kind is ValueKind.DATE else (low, high)


def _number(cursor: int | datetime) -> int:
    return cursor if isinstance(cursor, int) else (cursor - _EPOCH) // timedelta(microseconds=1)


def _fits(spec: PartitionSpec, column: TypedColumn, scope: CursorScope | RangeScope) -> bool:
    value = scope.value if isinstance(scope, CursorScope) else scope.start
    if isinstance(value, int):
        return spec.cursor is CursorType.INTEGER and column.kind is ValueKind.INTEGER
    return spec.cursor is CursorType.TIMESTAMP and column.kind in (ValueKind.TIMESTAMP, ValueKind.DATE)


def _inside(spec: PartitionSpec, column: TypedColumn, scope: PartitionScope | CursorScope | RangeScope) -> str | None:
    if isinstance(scope, PartitionScope):
        return _has_key(spec.column, column, scope.key) if spec.cursor is None else None
    if not _fits(spec, column, scope):
        return None
    low, high = _span(scope, column)
    wide = TypedColumn(column.kind, 64)
    return f"{name(spec.column)} BETWEEN {units(wide, low)} AND {units(wide, high)}"


def _has_key(column: str, of: TypedColumn, key: str) -> str | None:
    """Engines format floating-point numbers differently, so they are compared by value."""
    try:
        if of.kind is ValueKind.FLOAT:
            return f"{name(column)} = '{float(key)!r}'::{'FLOAT' if of.precision == 32 else 'DOUBLE'}"
        if of.kind is ValueKind.DECIMAL:
            key = f"{Decimal(key):f}"
    except (ValueError, ArithmeticError):
        return None
    spelled = key_text(column, of)
    return None if spelled is None else f"{spelled} = {text(key)}"


def _proved(spec: PartitionSpec, column: TypedColumn, scope: PartitionScope | CursorScope | RangeScope, facts: ColumnFacts | None) -> bool:
    if facts is None or facts.nulls != 0 or facts.low is None or facts.high is None:
        return False
    if isinstance(scope, PartitionScope):
        return column.kind in (ValueKind.TEXT, ValueKind.INTEGER) and str(facts.low) == str(facts.high) == scope.key
    if not isinstance(facts.low, int) or not isinstance(facts.high, int):
        return False
    low, high = _span(scope, column)
    return low <= facts.low and facts.high <= high
