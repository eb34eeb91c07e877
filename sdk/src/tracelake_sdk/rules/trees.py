"""Compiles rule trees into exact checks, so that DuckDB and Spark return the same results.

Bounds of discrete types (integers, decimals, dates, instants) become closed ranges of whole units: the column's smallest
steps, days, or microseconds. A tree that cannot be measured on a column raises RuleUnmeasurable with a sentence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from math import ceil, floor, isfinite
from typing import Any

from tracelake_sdk.rules.patterns import PatternRefused, re2_subset
from tracelake_sdk.rules.rule import Enumerated, NotNull, Range, Regex, RowCount, Unique

_NUMBER = re.compile(r"[+-]?[0-9]{1,100}(\.[0-9]{1,100})?([eE][+-]?[0-9]{1,3})?")
_DECIMAL = re.compile(r"decimal\(([0-9]+),\s*([0-9]+)\)")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_FLOATS = {"float": 32, "double": 64}


class RuleUnmeasurable(ValueError):
    """Why a rule cannot be measured here: a sentence for people, without data."""


class ValueKind(StrEnum):
    """The kinds of column types that rules distinguish."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    FLOAT = "float"
    TEXT = "text"
    BOOLEAN = "boolean"
    OTHER = "other"


@dataclass(frozen=True)
class TypedColumn:
    """A top-level column of a table."""

    kind: ValueKind
    precision: int = 0  # of a decimal: digits; of an integer or a floating number: bits
    scale: int = 0      # of a decimal

    @property
    def counted(self) -> bool:
        """Whether its values are whole units."""
        return self.kind in (ValueKind.INTEGER, ValueKind.DECIMAL, ValueKind.DATE, ValueKind.TIMESTAMP)

    @property
    def units(self) -> tuple[int, int]:
        """The smallest and the greatest number of units of its type."""
        match self.kind:
            case ValueKind.INTEGER:
                return -(2 ** (self.precision - 1)), 2 ** (self.precision - 1) - 1
            case ValueKind.DECIMAL:
                return 1 - 10**self.precision, 10**self.precision - 1
            case ValueKind.DATE:
                return -(2**31), 2**31 - 1
            case _:
                return -(2**63), 2**63 - 1


def columns_of(table_schema: Mapping[str, Any]) -> dict[str, TypedColumn]:
    """The columns of a schema in Delta's own form, by name."""
    return {field["name"]: _column(field["type"]) for field in table_schema["fields"]}


def _column(type_name: Any) -> TypedColumn:
    if not isinstance(type_name, str):
        return TypedColumn(ValueKind.OTHER)
    if type_name in _INTEGERS:
        return TypedColumn(ValueKind.INTEGER, _INTEGERS[type_name])
    if type_name in _FLOATS:
        return TypedColumn(ValueKind.FLOAT, _FLOATS[type_name])
    if found := _DECIMAL.fullmatch(type_name):
        return TypedColumn(ValueKind.DECIMAL, int(found[1]), int(found[2]))
    kinds = {"date": ValueKind.DATE, "timestamp": ValueKind.TIMESTAMP, "string": ValueKind.TEXT, "boolean": ValueKind.BOOLEAN}
    return TypedColumn(kinds.get(type_name, ValueKind.OTHER))


@dataclass(frozen=True)
class IsNull:
    column: str


@dataclass(frozen=True)
class OutsideUnits:
    """Violates the rule: fewer units than `low`, or more than `high`."""

    column: str
    of: TypedColumn
    low: int | None
    high: int | None
    null_passes: bool


@dataclass(frozen=True)
class OutsideFloats:
    """As OutsideUnits for floating numbers; NaN is outside every range."""

    column: str
    low: float | None
    high: float | None
    low_inside: bool
    high_inside: bool
    null_passes: bool


@dataclass(frozen=True)
class NotAmong:
    """Violates the rule: not one of `values`, which are units, texts or booleans, by the type of the column."""

    column: str
    of: TypedColumn
    values: tuple[int | str | bool, ...]
    null_passes: bool


@dataclass(frozen=True)
class NotMatching:
    """Violates the rule: the whole text does not match; the pattern is in canonical form."""

    column: str
    pattern: str
    null_passes: bool


@dataclass(frozen=True)
class Repeated:
    """Violates the rule: every row but one of those that share a key. A key with a null does not count."""

    columns: tuple[str, ...]


RowCheck = IsNull | OutsideUnits | OutsideFloats | NotAmong | NotMatching
Check = RowCheck | Repeated


def check_of(tree: NotNull | Range | Unique | RowCount | Enumerated | Regex, columns: Mapping[str, TypedColumn]) -> Check:
    """The check that an engine runs for a rule; raises RuleUnmeasurable."""
    match tree:
        case NotNull(column=name):
            _find(columns, name)
            return IsNull(name)
        case Range():
            return _range_check(tree, _find(columns, tree.column))
        case Enumerated():
            return _enum_check(tree, _find(columns, tree.column))
        case Regex():
            if _find(columns, tree.column).kind is not ValueKind.TEXT:
                raise RuleUnmeasurable(f"The column {tree.column} is not text, so no pattern applies to it.")
            try:
                return NotMatching(tree.column, re2_subset(tree.pattern), tree.null_passes)
            except PatternRefused as error:
                raise RuleUnmeasurable(f"The pattern cannot be used: {error}.") from None
        case Unique(columns=names):
            for name in names:
                if _find(columns, name).kind is ValueKind.OTHER:
                    raise RuleUnmeasurable(f"The column {name} cannot be part of a key.")
            return Repeated(names)
        case RowCount():
            raise RuleUnmeasurable("The number of rows is known without measuring.")


def _find(columns: Mapping[str, TypedColumn], name: str) -> TypedColumn:
    if name not in columns:
        raise RuleUnmeasurable(f"The column {name} does not exist.")
    return columns[name]


def _range_check(tree: Range, column: TypedColumn) -> OutsideUnits | OutsideFloats:
    if column.kind is ValueKind.FLOAT:
        low, high = (None if bound is None else _float(bound, tree.column) for bound in (tree.low, tree.high))
        return OutsideFloats(tree.column, low, high, tree.low_inside, tree.high_inside, tree.null_passes)
    if not column.counted:
        raise RuleUnmeasurable(f"The column {tree.column} has no order, so no range applies to it.")
    low = high = None
    if tree.low is not None:
        exact = _units(tree.low, column, tree.column)
        low = ceil(exact) if tree.low_inside else floor(exact) + 1
    if tree.high is not None:
        exact = _units(tree.high, column, tree.column)
        high = floor(exact) if tree.high_inside else ceil(exact) - 1
    return OutsideUnits(tree.column, column, low, high, tree.null_passes)


def _enum_check(tree: Enumerated, column: TypedColumn) -> NotAmong:
    values: list[int | str | bool] = []
    for value in tree.values:
        fits = {ValueKind.TEXT: isinstance(value, str), ValueKind.BOOLEAN: isinstance(value, bool), ValueKind.INTEGER: isinstance(value, int) and not isinstance(value, bool)}
        if column.kind in (ValueKind.TEXT, ValueKind.BOOLEAN) and fits[column.kind]:
            values.append(value)
        elif column.counted and fits.get(column.kind, not isinstance(value, bool)):
            exact = _units(value, column, tree.column)
            if exact.denominator != 1:
                raise RuleUnmeasurable(f"A value of the rule has more digits than the column {tree.column}.")
            values.append(int(exact))
        else:
            raise RuleUnmeasurable(f"The column {tree.column} holds {_words(column)}, and a value of the rule has another type.")
    return NotAmong(tree.column, column, tuple(values), tree.null_passes)


def _words(column: TypedColumn) -> str:
    return {ValueKind.FLOAT: "floating numbers", ValueKind.OTHER: "nested or binary values", ValueKind.BOOLEAN: "truth values"}.get(column.kind, f"{column.kind} values")


def _units(bound: float | int | str, column: TypedColumn, name: str) -> Fraction:
    """A bound in the column's units, exact."""
    match column.kind:
        case ValueKind.DATE:
            return Fraction(_days(bound, name))
        case ValueKind.TIMESTAMP:
            return Fraction(_microseconds(bound, name))
        case _:
            return _number(bound, name) * 10**column.scale


def _number(bound: float | int | str, name: str) -> Fraction:
    """A float has its decimal value: 0.1 is exactly one tenth."""
    if isinstance(bound, int):
        return Fraction(bound)
    text = bound if isinstance(bound, str) else repr(bound)
    if not _NUMBER.fullmatch(text):
        raise RuleUnmeasurable(f"A bound for the column {name} is not a number.")
    return Fraction(text)


def _float(bound: float | int | str, name: str) -> float:
    try:
        value = float(_number(bound, name))
    except OverflowError:
        value = float("inf")
    if not isfinite(value):
        raise RuleUnmeasurable(f"A bound for the column {name} is beyond every floating-point number; omit it.")
    return value


def _days(bound: float | int | str, name: str) -> int:
    if not isinstance(bound, str) or not _DAY.fullmatch(bound):
        raise RuleUnmeasurable(f"A bound for the column {name} is not a date such as 2024-01-10.")
    try:
        return date.fromisoformat(bound).toordinal() - _EPOCH.toordinal()
    except ValueError:
        raise RuleUnmeasurable(f"A bound for the column {name} is a day that does not exist.") from None


def _microseconds(bound: float | int | str, name: str) -> int:
    """An instant; without a zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(bound if isinstance(bound, str) else "")
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise RuleUnmeasurable(f"A bound for the column {name} is not a time such as 2024-01-10T05:00:00Z.") from None
