"""Scopes in Spark: cursors as plain numbers, and which rows belong to which scope. Cursors are compared as numbers and times, never as text."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ByteType, DataType, DateType, IntegerType, LongType, ShortType, StructType, TimestampType

from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope
from tracelake_spark.failures import OperatorFailed

if TYPE_CHECKING:
    from pyspark.sql import Column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def column(name: str) -> "Column":
    """A column by its exact name, with any characters."""
    return F.col(_quoted(name))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def number_of(cursor: int | datetime) -> int:
    """A cursor as a whole number: itself, or the microseconds since 1970."""
    return cursor if isinstance(cursor, int) else (cursor - _EPOCH) // _MICROSECOND


def size_number(size: int | timedelta) -> int:
    return size if isinstance(size, int) else size // _MICROSECOND


def cursor_of(number: int, kind: CursorType) -> int | datetime:
    return number if kind is CursorType.INTEGER else _EPOCH + number * _MICROSECOND


def cursor_type(name: str, schema: StructType) -> CursorType:
    """The type of the cursors in a column; raises OperatorFailed for a column that cannot be a cursor."""
    found: DataType | None = next((field.dataType for field in schema.fields if field.name == name), None)
    if found is None:
        raise OperatorFailed("cursor_column_missing", f"The column {name!r}, the cursor, does not exist.")
    if isinstance(found, (ByteType, ShortType, IntegerType, LongType)):
        return CursorType.INTEGER
    if isinstance(found, (TimestampType, DateType)):
        return CursorType.TIMESTAMP
    raise OperatorFailed("cursor_column_type", f"The column {name!r} is {found.simpleString()}; a cursor is a whole number, a date or a timestamp.")


def cursor_number(name: str, kind: CursorType) -> "Column":
    """The cursors of a column as whole numbers."""
    return F.expr(cursor_sql(name, kind))


def cursor_sql(name: str, kind: CursorType) -> str:
    return f"cast({_quoted(name)} AS BIGINT)" if kind is CursorType.INTEGER else f"unix_micros(cast({_quoted(name)} AS TIMESTAMP))"


def span_of(scope: CursorScope | RangeScope) -> tuple[int, int]:
    """The half-open span of numbers that a scope covers."""
    if isinstance(scope, RangeScope):
        return number_of(scope.start), number_of(scope.end)
    return number_of(scope.value), number_of(scope.value) + 1


def key_text(name: str) -> "Column":
    """The partition keys of a column: the text of each value."""
    return column(name).cast("string")


def spans_of(scopes: Sequence[Scope]) -> list[CursorScope | RangeScope]:
    """Scopes of a cursor, sorted; any other scope is refused."""
    spans = [scope for scope in scopes if isinstance(scope, (CursorScope, RangeScope))]
    if len(spans) != len(scopes):
        raise OperatorFailed("scope_mismatch", "A scope of the task is a partition key, but the dataset is partitioned by a cursor.")
    return sorted(spans, key=span_of)


def keys_of(scopes: Sequence[Scope]) -> list[str]:
    keys = [scope.key for scope in scopes if isinstance(scope, PartitionScope)]
    if len(keys) != len(scopes):
        raise OperatorFailed("scope_mismatch", "A scope of the task is a cursor or a range, but the dataset is partitioned by keys.")
    return keys


def scope_condition(scopes: Sequence[Scope] | None, partition_by: PartitionSpec | None) -> "Column | None":
    """Which rows belong to the scopes; None: all of them."""
    if scopes is None or any(isinstance(scope, FullScope) for scope in scopes):
        return None
    if not scopes:
        return F.lit(False)
    if partition_by is None:
        raise OperatorFailed("scope_mismatch", "The task reads scopes of a dataset that is not partitioned.")
    if partition_by.cursor is None:
        return key_text(partition_by.column).isin(keys_of(scopes))
    joined: list[tuple[int, int]] = []
    for start, end in map(span_of, spans_of(scopes)):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    at, kind = _quoted(partition_by.column), partition_by.cursor
    # As SQL, which contains only numbers: built node by node, hundreds of spans take seconds.
    return F.expr(" OR ".join(f"({at} >= {cursor_literal(start, kind)} AND {at} < {cursor_literal(end, kind)})" for start, end in joined))


def cursor_literal(number: int, kind: CursorType) -> str:
    """A cursor literal for a condition that can use file statistics; a time is written in microseconds, which do not depend on a calendar."""
    return f"{number}L" if kind is CursorType.INTEGER else f"timestamp_micros({number}L)"
