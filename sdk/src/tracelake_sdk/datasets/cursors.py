"""Cursors: their types, and the sizes of ranges."""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, ValidationInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MICROSECOND = timedelta(microseconds=1)
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
_UNITS = {"w": timedelta(weeks=1), "d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_LONGEST = timedelta(days=36525)


class CursorType(StrEnum):
    """The type of a job's cursors; they compare by this type, never as text."""

    INTEGER = "integer"
    TIMESTAMP = "timestamp"

    def fits(self, cursor: int | datetime) -> bool:
        return isinstance(cursor, int) == (self is CursorType.INTEGER)


def number_of(cursor: int | datetime) -> int:
    """A cursor as a whole number, so that numbers and times are split by the same arithmetic: a time is its microseconds since 1970."""
    return cursor if isinstance(cursor, int) else (cursor - EPOCH) // _MICROSECOND


def number_of_size(size: int | timedelta) -> int:
    return size if isinstance(size, int) else size // _MICROSECOND


def find_cursor(number: int, kind: CursorType) -> int | datetime | None:
    """The inverse of `number_of`; None if no cursor has this number."""
    if kind is CursorType.INTEGER:
        return number if -(2**63) <= number < 2**63 else None
    try:
        return EPOCH + timedelta(microseconds=number)
    except OverflowError:
        return None


def parse_duration(text: str) -> timedelta:
    """`30s`, `15m`, `1h`, `1d`, `2w`: one whole number and one unit, up to a hundred years."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("a duration is a whole number and a unit: 30s, 15m, 1h, 1d or 2w")
    number, unit = int(found[1]), _UNITS[found[2]]
    if number > _LONGEST // unit:
        raise ValueError("a duration is at most a hundred years")
    return number * unit


def spell_duration(duration: timedelta) -> str:
    """The canonical form of a duration: in its largest unit that leaves no remainder, so that `60m` and `1h` are the same."""
    letter, unit = next((letter, unit) for letter, unit in _UNITS.items() if duration % unit == timedelta())
    return f"{duration // unit}{letter}"


def _spell_size(size: int | timedelta) -> int | str:
    return size if isinstance(size, int) else spell_duration(size)


def _size_from_wire(value: Any, info: ValidationInfo) -> int | timedelta:
    """A size that matches the cursor type of the config."""
    cursor = info.data.get("cursor")
    if cursor is None:
        return 1  # the cursor itself was already refused; its error is the one to report
    if cursor is CursorType.INTEGER:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
            raise ValueError("with `cursor: integer` a size is a whole number of at least 1")
        return value
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError("with `cursor: timestamp` a size is a duration such as 15m")
    return parse_duration(value)


_SIZE_HELP = "a whole number of at least 1, or with `cursor: timestamp` a duration such as 30s, 15m, 1h, 1d or 2w"
Size = Annotated[
    int | timedelta, PlainValidator(_size_from_wire, json_schema_input_type=int | str), PlainSerializer(_spell_size), Field(description=_SIZE_HELP)
]
