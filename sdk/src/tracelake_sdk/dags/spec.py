"""DAGs: the canonical parsed form of a DAG file, with every default filled in.

Two files that mean the same have equal specs but for the order of their jobs; the file's comments, formatting and
`defaults:` are not part of the spec.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tracelake_sdk.datasets.cursors import EPOCH, CursorType, Size
from tracelake_sdk.datasets.scopes import Cursor, CursorScope, PartitionScope, RangeScope, Scope
from tracelake_sdk.deferred import Deferred

NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")  # matched in full: DAG, job, dataset and pool names
# Matched in full: columns that a key or a partition is made of. Delta does not allow blanks or any of `,;{}()=`; a dot or a quote would be parsed as a path.
COLUMN = re.compile(r"[^\s\x00-\x1f\x7f,;{}()=.`'\"\\]{1,255}")
DEFAULT_POOL = "default"
DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_TIMEOUT_SECONDS = 1800

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,127}$")]


def _column(name: str) -> str:
    if not COLUMN.fullmatch(name):
        raise ValueError("a column's name is 1 to 255 characters without blanks, dots, quotes and any of , ; { } ( ) =")
    return name


Column = Annotated[str, AfterValidator(_column)]


class Activation(StrEnum):
    """What makes a job's tasks."""

    SOURCE = "source"      # a request, or another trigger outside the lake
    REACTIVE = "reactive"  # the events of its inputs


class SourceKind(StrEnum):
    MANUAL = "manual"  # a person or a service requests each run


class Runtime(StrEnum):
    """Where an operator runs."""

    SPARK = "spark"
    PYTHON = "python"
    LAMBDA = "lambda"
    DISPATCHER = "dispatcher"  # events and ranges only, never rows


class ExecutionStrategy(StrEnum):
    """How an event's scope maps to the output's scope."""

    PER_UPDATE = "PerUpdate"        # the event's own scope
    PER_PARTITION = "PerPartition"  # the partitions or ranges of the output that the event's scope touches


class UpdateStrategy(StrEnum):
    """What a task does to existing rows."""

    APPEND = "append"    # adds rows with a new unique key, deletes nothing
    REPLACE = "replace"  # rewrites its scope


class NullKeys(StrEnum):
    """What happens to an append with rows that have a null in the unique key, for which it is unknown whether they already exist."""

    BLOCK = "block"        # the gate blocks it
    DISTINCT = "distinct"  # no two such rows are the same: they are appended every time


class Layer(StrEnum):
    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"


class _Spec(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)


class SourceSpec(_Spec):
    kind: SourceKind


class JobOutput(_Spec):
    """An output of another job of the same DAG."""

    job: Name
    output: int = Field(ge=0)


class NamedDataset(_Spec):
    """A dataset that another DAG publishes."""

    dataset: Name


class CursorBounds(_Spec):
    """`min` is included, `below` is not; one of them may be omitted."""

    min: Cursor | None = None
    below: Cursor | None = None

    @model_validator(mode="after")
    def _bounded(self) -> "CursorBounds":
        if self.min is None and self.below is None:
            raise ValueError("bounds need `min`, `below` or both")
        if self.min is not None and self.below is not None:
            if isinstance(self.min, int) != isinstance(self.below, int):
                raise ValueError("both bounds must be numbers, or both times")
            if not self.min < self.below:  # pyright: ignore[reportOperatorIssue] both are of one kind here
                raise ValueError("`min` must be less than `below`")
        return self


class WhereSpec(_Spec):
    """Which events pass an edge: those of named partitions, or those of a range of the cursor."""

    partition: tuple[str, ...] | None = None
    cursor: CursorBounds | None = None

    @model_validator(mode="after")
    def _one(self) -> "WhereSpec":
        if (self.partition is None) == (self.cursor is None):
            raise ValueError("`where` names either `partition` or `cursor`")
        if self.partition is not None and not self.partition:
            raise ValueError("`where` names at least one partition")
        return self


class InputSpec(_Spec):
    reads: JobOutput | NamedDataset = Field(validation_alias="from", serialization_alias="from")
    trigger: bool = True  # false: read and pinned, but its events make no task
    where: WhereSpec | None = None


class PartitionSpec(_Spec):
    """How an output is split into scopes: by the values of a column, or by ranges of it if the column is a cursor."""

    column: Column
    cursor: CursorType | None = None  # None: each value of the column is a partition key
    range_size: Size | None = None    # of ranges that are aligned to the origin; None: the ranges of the events
    origin: Cursor | None = None      # never None with a range_size

    @model_validator(mode="before")
    @classmethod
    def _default_origin(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("range_size") is not None and value.get("origin") is None:
            return {**value, "origin": EPOCH if value.get("cursor") == CursorType.TIMESTAMP else 0}
        return value

    @field_validator("range_size", mode="after")
    @classmethod
    def _of_a_cursor(cls, size: int | timedelta | None, info: ValidationInfo) -> int | timedelta | None:
        if size is not None and info.data.get("cursor", "refused") is None:
            raise ValueError("`range_size` needs a `cursor`")
        return size

    @field_validator("origin", mode="after")
    @classmethod
    def _of_spans(cls, origin: int | datetime | None, info: ValidationInfo) -> int | datetime | None:
        if origin is None or not {"cursor", "range_size"} <= info.data.keys():  # the value that was already refused is the one to report
            return origin
        cursor: CursorType | None = info.data["cursor"]
        if cursor is None:
            raise ValueError("`origin` needs a `cursor`")
        if info.data["range_size"] is None:
            raise ValueError("`origin` needs a `range_size`")
        if not cursor.fits(origin):
            raise ValueError(f"the origin is not a valid {cursor} cursor")
        return origin


class OutputSpec(_Spec):
    layer: Layer
    partition_by: PartitionSpec | None = None
    description: str = ""
    domain: str
    owner: str


class ScalingSpec(_Spec):
    worker_pool: Name = DEFAULT_POOL
    max_concurrency: int | None = Field(default=None, ge=1)  # None: as many as the pool has slots


class JobSpec(_Spec):
    name: Name
    activation: Activation
    source: SourceSpec | None = None
    inputs: tuple[InputSpec, ...] = ()
    execution_strategy: ExecutionStrategy | None = None
    runtime: Runtime
    operator: str
    config: dict[str, Any] = Field(default_factory=dict)  # the operator's config with its defaults
    outputs: tuple[OutputSpec, ...] = ()
    update_strategy: UpdateStrategy | None = None
    unique_key: tuple[Column, ...] = ()
    null_keys: NullKeys = NullKeys.BLOCK
    scaling: ScalingSpec = Field(default_factory=ScalingSpec)
    max_attempts: int = Field(default=DEFAULT_MAX_ATTEMPTS, ge=1)
    timeout_seconds: int = Field(default=DEFAULT_TIMEOUT_SECONDS, ge=1)


class PublishSpec(_Spec):
    """The output that is published under a dataset name."""

    job: Name
    output_index: int = Field(ge=0)


class DagSpec(_Spec):
    name: Name
    jobs: tuple[JobSpec, ...]  # in the order of the file
    publish: dict[str, PublishSpec] = Field(default_factory=dict)

    def job(self, name: str) -> JobSpec:
        return next(job for job in self.jobs if job.name == name)


def passes(where: WhereSpec | None, scope: Scope) -> bool:
    """Whether an event of this scope passes the edge; a `where` that does not apply to this kind of scope passes it, so that no event is dropped by mistake.

    A full scope always passes, a range when it overlaps the bounds. `partition` applies only to partitions, `cursor`
    only to cursors and ranges of the same type, numbers or times.
    """
    if where is None:
        return True
    if where.partition is not None:
        return not isinstance(scope, PartitionScope) or scope.key in where.partition
    bounds = where.cursor or CursorBounds.model_construct()
    match scope:
        case CursorScope(value=value):
            return _less(value, bounds.min) is not True and _less(value, bounds.below) is not False
        case RangeScope(start=start, end=end):
            return _less(bounds.min, end) is not False and _less(start, bounds.below) is not False
        case _:
            return True


def _less(one: int | datetime | None, other: int | datetime | None) -> bool | None:
    """`one < other`; None if one is missing, or a number would be compared with a time."""
    if one is None or other is None or isinstance(one, int) != isinstance(other, int):
        return None
    return one < other  # pyright: ignore[reportOperatorIssue] both are of one kind here
