"""Rules: what good data means, as data about one dataset.

A rule is written as an expression, parsed once into a tree, and stored as that tree; Spark and DuckDB compile the tree.
"""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from tracelake_sdk.deferred import Deferred


class RuleType(StrEnum):
    NOT_NULL = "NOT_NULL"
    RANGE = "RANGE"          # NaN is outside every range; null passes by default
    UNIQUE = "UNIQUE"        # a key with a null does not count and passes
    ROW_COUNT = "ROW_COUNT"
    ENUM = "ENUM"            # null passes by default
    REGEX = "REGEX"          # RE2, the whole text; null passes by default


class Severity(StrEnum):
    FAIL = "FAIL"  # blocks
    WARN = "WARN"  # only recorded


class RuleScope(StrEnum):
    BATCH = "batch"  # the rows that the task wrote
    TABLE = "table"  # the whole table with those rows


class _Tree(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NotNull(_Tree):
    type: Literal["NOT_NULL"] = "NOT_NULL"
    column: str


class Range(_Tree):
    """Bounds are numbers, or texts that are parsed as the column's type (dates, times, decimals)."""

    type: Literal["RANGE"] = "RANGE"
    column: str
    low: int | float | str | None = None
    high: int | float | str | None = None
    low_inside: bool = True
    high_inside: bool = True
    null_passes: bool = True


class Unique(_Tree):
    type: Literal["UNIQUE"] = "UNIQUE"
    columns: tuple[str, ...] = Field(min_length=1)


class RowCount(_Tree):
    type: Literal["ROW_COUNT"] = "ROW_COUNT"
    least: int | None = None
    most: int | None = None


class Enumerated(_Tree):
    type: Literal["ENUM"] = "ENUM"
    column: str
    values: tuple[int | str | bool, ...] = Field(min_length=1)
    null_passes: bool = True


class Regex(_Tree):
    type: Literal["REGEX"] = "REGEX"
    column: str
    pattern: str
    null_passes: bool = True


RuleTree = Annotated[NotNull | Range | Unique | RowCount | Enumerated | Regex, Field(discriminator="type")]


class RuleToMeasure(Deferred):
    """A rule as a worker measures it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: UUID
    revision: int
    scope: RuleScope
    tree: RuleTree


class TableRuleState(Deferred):
    """How many rows of the current table violate a rule about the whole table: a later measurement adds to it and reads only new files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule_id: UUID
    revision: int
    violations: int = Field(ge=0)


class MeasuringMethod(StrEnum):
    FOOTERS = "footers"  # proved from file statistics, no row was read
    SCAN = "scan"        # counted in one scan of the rows


class RuleMeasurement(Deferred):
    """The measurement of one rule; the gate decides whether it passes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule_id: UUID
    revision: int
    violations: int | None               # rows that violate it; None: it could not be measured, and `error` has the reason
    examined: int = 0                    # rows that were checked
    method: MeasuringMethod = MeasuringMethod.SCAN
    samples: list[str] = Field(default_factory=list, max_length=5)  # keys of violating rows, if the job has a key
    milliseconds: float = 0
    error: str | None = None
