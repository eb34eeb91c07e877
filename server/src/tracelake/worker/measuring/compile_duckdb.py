"""Rules in DuckDB's SQL. Every check is a condition that holds for the rows that break the rule, and never for others."""

from collections.abc import Sequence
from pathlib import Path

from tracelake_sdk.rules.trees import IsNull, NotAmong, NotMatching, OutsideFloats, OutsideUnits, RowCheck, TypedColumn, ValueKind


def name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def names(columns: Sequence[str]) -> str:
    return ", ".join(map(name, columns))


def text(value: str) -> str:
    """A literal; it cannot contain the character with code 0."""
    return "||chr(0)||".join("'" + part.replace("'", "''") + "'" for part in value.split("\0"))


def files(paths: Sequence[Path]) -> str:
    """The rows of these files; a column that one of them lacks is null in it."""
    union = "true" if len(paths) > 1 else "false"
    return f"read_parquet([{', '.join(text(str(path)) for path in paths)}], hive_partitioning=false, union_by_name={union})"


def broken(check: RowCheck) -> str:
    column = name(check.column)
    match check:
        case IsNull():
            return f"{column} IS NULL"
        case OutsideUnits():
            return _or_null(f"NOT ({_inside(column, check)})", check.column, null_passes=check.null_passes)
        case OutsideFloats():
            parts = [f"isnan({column})"]
            if check.low is not None:
                parts.append(f"{column}::DOUBLE {'<' if check.low_inside else '<='} {_double(check.low)}")
            if check.high is not None:
                parts.append(f"{column}::DOUBLE {'>' if check.high_inside else '>='} {_double(check.high)}")
            return _or_null(" OR ".join(parts), check.column, null_passes=check.null_passes)
        case NotAmong():
            return _or_null(f"NOT ({_among(column, check)})", check.column, null_passes=check.null_passes)
        case NotMatching():
            return _or_null(f"NOT regexp_full_match({column}, {text(check.pattern)})", check.column, null_passes=check.null_passes)


def _or_null(condition: str, column: str, *, null_passes: bool) -> str:
    """A condition on a null is null, which counts as not broken."""
    return f"({condition})" if null_passes else f"({name(column)} IS NULL OR {condition})"


def _inside(column: str, check: OutsideUnits) -> str:
    least, most = check.of.units
    low = check.low if check.low is None or check.low > least else None
    high = check.high if check.high is None or check.high < most else None
    if (low is not None and low > most) or (high is not None and high < least):
        return f"{column} IS NULL AND NULL"  # nothing is inside, and a null stays a null
    parts = [f"{column} >= {units(check.of, low)}"] if low is not None else []
    parts += [f"{column} <= {units(check.of, high)}"] if high is not None else []
    return " AND ".join(parts) or f"{column} IS NOT NULL OR NULL"


def _among(column: str, check: NotAmong) -> str:
    if check.of.kind is ValueKind.BOOLEAN:
        values = [str(value).lower() for value in check.values]
    elif check.of.kind is ValueKind.TEXT:
        values = [text(str(value)) for value in check.values]
    else:
        least, most = check.of.units
        values = [units(check.of, int(value)) for value in check.values if least <= int(value) <= most]
    return f"{column} IN ({', '.join(values)})" if values else f"{column} IS NULL AND NULL"


def units(column: TypedColumn, count: int) -> str:
    """A literal of the column's own type, which can hold `count`."""
    match column.kind:
        case ValueKind.DATE:
            return f"(DATE '1970-01-01' + ({count})::INTEGER)"
        case ValueKind.TIMESTAMP:
            return f"make_timestamptz(({count})::BIGINT)"
        case ValueKind.DECIMAL:
            digits = str(abs(count)).rjust(column.scale + 1, "0")
            point = len(digits) - column.scale
            return f"'{'-' if count < 0 else ''}{digits[:point]}.{digits[point:] or '0'}'::DECIMAL({column.precision},{column.scale})"
        case _:
            return f"({count})::BIGINT"


def _double(value: float) -> str:
    return f"'{value!r}'::DOUBLE"


def present(columns: Sequence[str]) -> str:
    """A row with a null in a key column has no key."""
    return " AND ".join(f"{name(column)} IS NOT NULL" for column in columns)
