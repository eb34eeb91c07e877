"""Scopes: the part of a dataset that an event, a task or a materialization is about.

A cursor is a whole number or an instant in UTC and compares as such, never as text.
"""

import hashlib
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from tracelake_sdk.datasets.cursors import CursorType, number_of
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.json_values import StorableText


def _cursor_from_wire(value: Any) -> Any:
    """Numbers stay numbers and ISO times become instants in UTC; anything else raises ValueError."""
    if isinstance(value, (bool, float)):
        raise ValueError("a cursor is a whole number or a time such as 2024-01-10T05:00:00Z")
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("a cursor is a whole number or a time such as 2024-01-10T05:00:00Z") from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a cursor that is a time needs its zone, such as 2024-01-10T05:00:00Z")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise ValueError("a cursor that is a time must be in the years 1 to 9999 of UTC") from None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a cursor that is a number fits in 64 bits")
    return value


def spell_cursor(value: int | datetime) -> int | str:
    """The canonical form of a cursor on the wire: `5`, `2024-01-10T05:00:00Z`, microseconds only if they are not zero."""
    if isinstance(value, int):
        return value
    return value.isoformat(timespec="microseconds" if value.microsecond else "seconds").replace("+00:00", "Z")


Cursor = Annotated[int | datetime, BeforeValidator(_cursor_from_wire), PlainSerializer(spell_cursor)]


class _Scope(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FullScope(_Scope):
    """The whole dataset."""

    kind: Literal["full"] = "full"

    def __str__(self) -> str:
        return "full"


class PartitionScope(_Scope):
    """The rows of one partition key; any text."""

    kind: Literal["partition"] = "partition"
    key: StorableText = Field(min_length=1, max_length=1024)

    def __str__(self) -> str:
        return f"partition:{self.key}"


class CursorScope(_Scope):
    """A single cursor value."""

    kind: Literal["cursor"] = "cursor"
    value: Cursor

    def __str__(self) -> str:
        return f"cursor:{spell_cursor(self.value)}"


class RangeScope(_Scope):
    """A half-open range `[start, end)` of a cursor."""

    kind: Literal["range"] = "range"
    start: Cursor
    end: Cursor

    @model_validator(mode="after")
    def _ordered(self) -> "RangeScope":
        if isinstance(self.start, int) != isinstance(self.end, int):
            raise ValueError("a range starts and ends with the same kind of cursor")
        if not self.start < self.end:  # pyright: ignore[reportOperatorIssue] both are of one kind here
            raise ValueError("a range ends after it starts")
        return self

    def __str__(self) -> str:
        return f"range:{spell_cursor(self.start)}_{spell_cursor(self.end)}"


Scope = Annotated[FullScope | PartitionScope | CursorScope | RangeScope, Field(discriminator="kind")]


def folder_of(scope: FullScope | PartitionScope | CursorScope | RangeScope) -> str:
    """The folder name of a scope: never its text, which may be a glob or a path, only letters, digits, `_` and `-`."""
    match scope:
        case FullScope():
            return "full"
        case PartitionScope(key=key):
            return f"p-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        case CursorScope(value=value):
            return f"c-{_in_paths(value)}"
        case RangeScope(start=start, end=end):
            return f"{_in_paths(start)}_{_in_paths(end)}"


def _in_paths(value: int | datetime) -> str:
    if isinstance(value, int):
        return str(value)
    return value.strftime("%Y%m%dT%H%M%S").rjust(15, "0") + (f"{value.microsecond:06}" if value.microsecond else "") + "Z"


def overlap(one: FullScope | PartitionScope | CursorScope | RangeScope, other: FullScope | PartitionScope | CursorScope | RangeScope) -> bool:
    """Whether two scopes of one dataset share a row."""
    if isinstance(one, FullScope) or isinstance(other, FullScope):
        return True
    if isinstance(one, PartitionScope) or isinstance(other, PartitionScope):
        return one == other
    first, second = span_of(one), span_of(other)
    return first.kind is second.kind and first.start < second.end and second.start < first.end


def covers(one: FullScope | PartitionScope | CursorScope | RangeScope, other: FullScope | PartitionScope | CursorScope | RangeScope) -> bool:
    """Whether every row of the other scope belongs to this one."""
    if isinstance(one, FullScope) or one == other:
        return True
    if isinstance(one, PartitionScope) or isinstance(other, (FullScope, PartitionScope)):
        return False
    outer, inner = span_of(one), span_of(other)
    return outer.kind is inner.kind and outer.start <= inner.start and inner.end <= outer.end


class Span(NamedTuple):
    """A cursor or a range as whole numbers `[start, end)`: the end after the last possible time has no time, but it has a number."""

    kind: CursorType
    start: int
    end: int


def span_of(scope: CursorScope | RangeScope) -> Span:
    first, end = (scope.value, None) if isinstance(scope, CursorScope) else (scope.start, scope.end)
    kind = CursorType.INTEGER if isinstance(first, int) else CursorType.TIMESTAMP
    return Span(kind, number_of(first), number_of(first) + 1 if end is None else number_of(end))
