"""Operators: their names, what each requires of its job, and the models of their configs and requests.

They are data: deploys check a job against them, workers read their config through them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tracelake_sdk.dags.spark_operators import IngestFilesConfig, IngestFilesRequest, SqlConfig
from tracelake_sdk.dags.spec import Activation, Runtime
from tracelake_sdk.datasets.cursors import EPOCH, CursorType, Size
from tracelake_sdk.datasets.scopes import Cursor
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.tasks import MAX_EVENTS

_CursorType = Annotated[CursorType, Field(description="`integer` or `timestamp`")]


class _Config(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EmitConfig(_Config):
    cursor: _CursorType


class NoopConfig(_Config):
    pass


class RangeAggregatorConfig(_Config):
    """Ranges are `[origin + n·range_size, origin + (n+1)·range_size)`."""

    cursor: _CursorType
    range_size: Size
    origin: Cursor = Field(
        default=0, validate_default=True, description="a cursor that a range starts at: a whole number, or a time such as \"2024-01-10T05:00:00Z\" in quotes"
    )

    @model_validator(mode="before")
    @classmethod
    def _default_origin(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("cursor") == CursorType.TIMESTAMP and "origin" not in value:
            return {**value, "origin": EPOCH}
        return value

    @field_validator("origin", mode="after")
    @classmethod
    def _of_the_cursor(cls, origin: int | datetime, info: ValidationInfo) -> int | datetime:
        cursor = info.data.get("cursor")
        if cursor is not None and not cursor.fits(origin):
            raise ValueError(f"the origin is not a valid {cursor} cursor")
        return origin


class RangeSplitterConfig(_Config):
    """Chunks are counted from the start of each range; the last one may be shorter."""

    cursor: _CursorType
    chunk_size: Size


class EmitRequest(_Config):
    """The cursors to emit, in this order; `rewrite` emits them as rewritten."""

    cursors: list[Cursor] = Field(min_length=1, max_length=MAX_EVENTS)
    rewrite: bool = False

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if len({isinstance(cursor, int) for cursor in self.cursors}) > 1:
            raise ValueError("the cursors of one request are all whole numbers or all times")
        return self


class NoopRequest(_Config):
    pass


class RewriteRequest(_Config):
    """Rewrite the whole table of a job that replaces, from the current versions of its inputs; also if no input has changed."""

    rewrite: Literal[True] = True


@dataclass(frozen=True)
class Count:
    """A range of numbers; `most` None means any number."""

    least: int
    most: int | None

    def allows(self, number: int) -> bool:
        return self.least <= number and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        if self.least == self.most:
            return f"exactly {self.least}" if self.least else "no"
        return f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"


ScopeKind = Literal["cursor", "range"]


@dataclass(frozen=True)
class OperatorSpec:
    """What an operator requires of the job that runs it."""

    runtime: Runtime
    name: str
    config: type[BaseModel]
    request: type[BaseModel] | None         # what a request for a run carries; None: only events start it
    activations: frozenset[Activation]
    inputs: Count
    outputs: Count
    writes_files: bool = False              # its outputs are tables; without: events and ranges only
    reads_files: bool = False               # at least one of its inputs is a table
    location_keys: tuple[str, ...] = ()     # config keys that are paths below a location
    keys_to_append: tuple[str, ...] = ()    # config keys that only a job that appends may have
    columns_key: str | None = None          # the config key that lists columns and their types
    every_input_triggers: bool = False
    keeps_state: bool = False               # operator state moves with each completion
    ordered: bool = False                   # its tasks run one at a time, in event order
    receives: ScopeKind | None = None       # the only scopes that it can work on; None: any
    emits: ScopeKind | None = None          # the scopes of its events; None: those that it receives

    def __post_init__(self) -> None:
        if self.keeps_state and not self.ordered:
            raise ValueError(f"operator {self.name} keeps state, so its tasks must run in order: its state is read and changed under its line's lock")


def _by_name(*specs: OperatorSpec) -> Mapping[tuple[str, str], OperatorSpec]:
    return MappingProxyType({(spec.runtime.value, spec.name): spec for spec in specs})


OPERATORS: Mapping[tuple[str, str], OperatorSpec] = _by_name(
    # Emits the cursors of its request.
    OperatorSpec(
        Runtime.DISPATCHER, "emit", EmitConfig, EmitRequest,
        activations=frozenset({Activation.SOURCE}), inputs=Count(0, 0), outputs=Count(1, 1), emits="cursor",
        ordered=True,  # requests are emitted in the order in which they arrived, whichever worker runs them
    ),
    # Does nothing, durably.
    OperatorSpec(
        Runtime.DISPATCHER, "noop", NoopConfig, NoopRequest,
        activations=frozenset(Activation), inputs=Count(0, None), outputs=Count(0, 1),
    ),
    # Joins single cursors into aligned ranges.
    OperatorSpec(
        Runtime.DISPATCHER, "range_aggregator", RangeAggregatorConfig, None,
        activations=frozenset({Activation.REACTIVE}), inputs=Count(1, 1), outputs=Count(1, 1),
        every_input_triggers=True, keeps_state=True, ordered=True, receives="cursor", emits="range",
    ),
    # Cuts ranges into chunks; the inverse.
    OperatorSpec(
        Runtime.DISPATCHER, "range_splitter", RangeSplitterConfig, None,
        activations=frozenset({Activation.REACTIVE}), inputs=Count(1, 1), outputs=Count(1, 1),
        every_input_triggers=True, receives="range", emits="range",
    ),
    # Reads the files that are new since its last run.
    OperatorSpec(
        Runtime.SPARK, "ingest_files", IngestFilesConfig, IngestFilesRequest,
        activations=frozenset({Activation.SOURCE}), inputs=Count(0, 0), outputs=Count(1, 1), writes_files=True, location_keys=("path",),
        keys_to_append=("cursor_column", "batch_files"),  # a replace reads every file each time
        columns_key="schema",
        keeps_state=True, ordered=True,  # each run continues where the one before it stopped
    ),
    # Writes the rows of one SELECT over its inputs.
    OperatorSpec(
        Runtime.SPARK, "sql", SqlConfig, None,
        activations=frozenset({Activation.REACTIVE}), inputs=Count(1, None), outputs=Count(1, 1), writes_files=True, reads_files=True,
    ),
)
