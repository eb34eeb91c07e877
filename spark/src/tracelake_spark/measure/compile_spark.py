"""Rules as Spark columns. Every check is a condition that holds for the rows that break the rule, and never for others."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from tracelake_sdk.rules.trees import IsNull, NotAmong, NotMatching, OutsideFloats, OutsideUnits, RowCheck, TypedColumn, ValueKind

if TYPE_CHECKING:
    from pyspark.sql import Column


def named(column: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return F.col("`" + column.replace("`", "``") + "`")


def broken(check: RowCheck) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    column = named(check.column)
    match check:
        case IsNull():
            return column.isNull()
        case OutsideUnits():
            condition = ~_inside(check)
        case OutsideFloats():
            number = column.cast("double")
            condition = F.isnan(number)
            if check.low is not None:
                condition = condition | (number < check.low if check.low_inside else number <= check.low)
            if check.high is not None:
                condition = condition | (number > check.high if check.high_inside else number >= check.high)
        case NotAmong():
            condition = ~_among(check)
        case NotMatching():
            condition = ~column.rlike(rf"\A(?:{check.pattern})\z")
    return (column.isNotNull() & condition) if check.null_passes else (column.isNull() | condition)


def units(column: str, of: TypedColumn) -> "Column":
    """The column as whole units, except that a decimal stays one."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    match of.kind:
        case ValueKind.DATE:
            return F.unix_date(named(column)).cast("bigint")
        case ValueKind.TIMESTAMP:
            return F.unix_micros(named(column))
        case ValueKind.DECIMAL:
            return named(column)
        case _:
            return named(column).cast("bigint")


def _literal(of: TypedColumn, count: int) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if of.kind is not ValueKind.DECIMAL:
        return F.lit(count).cast("bigint")
    sign, digits = ("-", str(-count)) if count < 0 else ("", str(count))
    return F.lit(Decimal(f"{sign}{digits}e-{of.scale}")).cast(f"decimal({of.precision},{of.scale})")


def _inside(check: OutsideUnits) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    least, most = check.of.units
    low = check.low if check.low is None or check.low > least else None
    high = check.high if check.high is None or check.high < most else None
    if (low is not None and low > most) or (high is not None and high < least):
        return F.lit(False)
    number = units(check.column, check.of)
    parts = [number >= _literal(check.of, low)] if low is not None else []
    parts += [number <= _literal(check.of, high)] if high is not None else []
    return _all(parts)


def _among(check: NotAmong) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if check.of.kind in (ValueKind.TEXT, ValueKind.BOOLEAN):
        return named(check.column).isin(list(check.values))
    least, most = check.of.units
    values = [_literal(check.of, int(value)) for value in check.values if least <= int(value) <= most]
    return units(check.column, check.of).isin(values) if values else F.lit(False)


def _all(parts: Sequence["Column"]) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    whole = F.lit(True)
    for part in parts:
        whole = whole & part
    return whole


def key(columns: Sequence[str]) -> "Column":
    """A key as one value; null if a part of it is null."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return F.when(_all([named(column).isNotNull() for column in columns]), F.struct(*map(named, columns)))
