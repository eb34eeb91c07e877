"""What rules mean, said a second time in plain Python, and samples of everything that columns, rules and patterns can be."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st

from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RuleScope, RuleToMeasure, RuleTree, Unique

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIGNS = "ab1_ .\n\té☃😀K\u212a-$^\0"

# By column: its type in Arrow, and its values. Dates and instants are days and microseconds, decimals are units: Python's own types are too narrow.
TYPES: dict[str, pa.DataType] = {
    "small": pa.int8(), "number": pa.int32(), "big": pa.int64(), "price": pa.decimal128(5, 2), "exact": pa.decimal128(38, 10), "count": pa.decimal128(18, 0),
    "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "ratio": pa.float64(), "short": pa.float32(), "text": pa.string(), "flag": pa.bool_(),
}
SCALES = {"price": 2, "exact": 10, "count": 0}
_DAYS = st.one_of(st.integers(-3, 3), st.integers(-3_000_000, 4_000_000), st.sampled_from([-719162, 2932896, -141428, -141427]))
_MICROS = st.one_of(st.integers(-3, 3), st.integers(-4 * 10**17, 4 * 10**17), st.sampled_from([-62135596800000000, 253402300799999999, -12219292800000001]))
_FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]), st.floats(allow_nan=True))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "small": st.integers(-128, 127), "number": st.one_of(st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1)),
    "big": st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)),
    "price": st.one_of(st.integers(-300, 300), st.integers(-99999, 99999)), "exact": st.one_of(st.integers(-3, 3), st.integers(1 - 10**38, 10**38 - 1)),
    "count": st.integers(1 - 10**18, 10**18 - 1), "day": _DAYS, "at": _MICROS, "ratio": _FLOATS, "short": st.floats(width=32),
    "text": st.text(SIGNS.replace("\0", "") + "\0", max_size=6), "flag": st.booleans(),
}


def array(column: str, values: Sequence[Any]) -> pa.Array:
    if column in SCALES:
        return pa.array([None if value is None else Decimal(f"{value}e-{SCALES[column]}") for value in values], TYPES[column])
    if column in ("day", "at"):
        return pa.array(values, pa.int32() if column == "day" else pa.int64()).cast(TYPES[column])
    return pa.array(values, TYPES[column])


@st.composite
def tables(draw: st.DrawFn, columns: Sequence[str] = tuple(TYPES), most: int = 12) -> dict[str, list[Any]]:
    rows = draw(st.integers(0, most))
    return {column: draw(st.lists(st.none() | VALUES[column], min_size=rows, max_size=rows)) for column in columns}


def to_arrow(table: dict[str, list[Any]]) -> pa.Table:
    return pa.table({column: array(column, values) for column, values in table.items()})


def _day(days: int) -> str | None:
    ordinal = days + EPOCH.toordinal()
    return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= date.max.toordinal() else None


def _instant(micros: int) -> str | None:
    try:
        return (EPOCH + timedelta(microseconds=micros)).isoformat()
    except OverflowError:
        return None


def bounds(column: str) -> st.SearchStrategy[Any]:
    """What a person may write as a bound of a range on this column."""
    if column == "day":
        return _DAYS.map(_day).filter(bool)
    if column == "at":
        return st.one_of(_MICROS.map(_instant).filter(bool), st.sampled_from(["2024-01-10", "1969-12-31T23:59:59.999999Z", "2024-01-10T05:00:00+02:00", "1582-10-10T00:00:00"]))
    numbers: list[st.SearchStrategy[Any]] = [st.integers(-3, 3), st.integers(-(10**40), 10**40), st.sampled_from(["-0.005", "1e3", "2.999", "+7", "1e-12", "99999999999999999999.5"])]
    if column in SCALES:
        numbers.append(VALUES[column].map(lambda units: f"{Decimal(f'{units}e-{SCALES[column]}'):f}"))
    elif column not in ("ratio", "short"):
        numbers.append(VALUES[column])
    return st.one_of(*numbers, st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    column = draw(st.sampled_from([name for name in TYPES if name not in ("text", "flag")]))
    low, high = (draw(st.none() | bounds(column)) for _ in range(2))
    inside = [draw(st.booleans()) for _ in range(3)]
    return Range(column=column, low=low, high=high, low_inside=inside[0], high_inside=inside[1], null_passes=inside[2])


@st.composite
def enums(draw: st.DrawFn) -> Enumerated:
    column = draw(st.sampled_from(["small", "number", "big", "price", "exact", "day", "at", "text", "flag"]))
    if column in SCALES:
        value: st.SearchStrategy[Any] = VALUES[column].map(lambda units: f"{Decimal(f'{units}e-{SCALES[column]}'):f}")
    elif column in ("day", "at"):
        value = VALUES[column].map(_day if column == "day" else _instant).filter(bool)
    elif column in ("small", "number"):
        value = VALUES["big"]
    else:
        value = VALUES[column]
    return Enumerated(column=column, values=tuple(draw(st.lists(value, min_size=1, max_size=4))), null_passes=draw(st.booleans()))


uniques = st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3, unique=True).map(lambda columns: Unique(columns=tuple(columns)))


@dataclass(frozen=True)
class Pattern:
    """One pattern as a person writes it, and as Python reads it with the meaning that it must have."""

    written: str
    python: str


_SETS = {
    r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]", r"\s": r"[\t\n\f\r ]", r"\S": r"[^\t\n\f\r ]", ".": r"[^\n]",
    "[a-c]": "[a-c]", "[^a]": "[^a]", r"[\d_]": "[0-9_]", r"[^\s\-]": r"[^\t\n\f\r \-]", "[é-☃]": "[é-☃]", r"\x{1F600}": "😀", r"\n": r"\n", r"\.": r"\.", r"\x61": "a",
    "[a.]": "[a.]", r"[\^\]]": r"[\^\]]", "[ab-]": "[ab-]", "K": "K", r"\v": "\x0b",
}  # fmt: skip
_LITERALS = st.sampled_from([sign for sign in SIGNS if sign not in ".$^\0"]).map(lambda sign: Pattern(sign, re.escape(sign)))
_ATOMS = st.one_of(_LITERALS, st.sampled_from(sorted(_SETS)).map(lambda written: Pattern(written, _SETS[written])))
_ANCHORS = st.sampled_from([Pattern("^", r"\A"), Pattern("$", r"\Z"), Pattern(r"\A", r"\A"), Pattern(r"\z", r"\Z")])
_REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??", "{1,3}?"])


def _larger(smaller: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    joined = st.lists(smaller | _ANCHORS, min_size=0, max_size=4).map(lambda parts: Pattern("".join(part.written for part in parts), "".join(part.python for part in parts)))
    either = st.lists(joined, min_size=1, max_size=3).map(
        lambda parts: Pattern("(?:" + "|".join(part.written for part in parts) + ")", "(?:" + "|".join(part.python for part in parts) + ")")
    )
    captured = joined.map(lambda part: Pattern(f"({part.written})", f"(?:{part.python})"))
    repeated = st.tuples(smaller | captured | either, _REPEATS).map(lambda pair: Pattern(f"(?:{pair[0].written}){pair[1]}", f"(?:{pair[0].python}){pair[1]}"))
    return st.one_of(joined, either, captured, repeated)


patterns = st.recursive(_ATOMS, _larger, max_leaves=8)


def violations(tree: RuleTree, table: dict[str, list[Any]], python_pattern: str | None = None) -> int:
    """How many rows break the rule."""
    match tree:
        case NotNull(column=column):
            return sum(value is None for value in table[column])
        case Range(column=column):
            return sum(not tree.null_passes if value is None else not _in_range(tree, value) for value in table[column])
        case Enumerated(column=column):
            wanted = {_exact(value, column) for value in tree.values}
            return sum(not tree.null_passes if value is None else _stored(value, column) not in wanted for value in table[column])
        case Regex(column=column):
            whole = re.compile(python_pattern or tree.pattern)
            return sum(not tree.null_passes if value is None else whole.fullmatch(value) is None for value in table[column])
        case Unique(columns=columns):
            keys = Counter(tuple(map(_same, row)) for row in zip(*(table[column] for column in columns), strict=True) if None not in row)
            return sum(times - 1 for times in keys.values())
        case _:
            raise AssertionError(tree)


def _same(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _in_range(tree: Range, value: Any) -> bool:
    if isinstance(value, float):
        if math.isnan(value):
            return False
        low, high = (None if bound is None else float(Fraction(repr(bound) if isinstance(bound, float) else bound)) for bound in (tree.low, tree.high))
    else:
        value = _stored(value, tree.column)
        low, high = (None if bound is None else _exact(bound, tree.column) for bound in (tree.low, tree.high))
    if low is not None and not (value >= low if tree.low_inside else value > low):
        return False
    return high is None or bool(value <= high if tree.high_inside else value < high)


def _stored(value: Any, column: str) -> Any:
    return Fraction(value, 10 ** SCALES[column]) if column in SCALES else value


def _exact(bound: Any, column: str) -> Any:
    if column == "day":
        return date.fromisoformat(bound).toordinal() - EPOCH.toordinal()
    if column == "at":
        moment = datetime.fromisoformat(bound)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)
    if column in ("text", "flag"):
        return bound
    return Fraction(repr(bound) if isinstance(bound, float) else bound)


def numbered(trees: Sequence[RuleTree], scope: RuleScope = RuleScope.BATCH) -> list[RuleToMeasure]:
    return [RuleToMeasure(id=UUID(int=number), revision=1, scope=scope, tree=tree) for number, tree in enumerate(trees)]
