"""Records: structured facts about a target, of a registered kind, with the context in which they were emitted."""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, model_validator

from tracelake_sdk.deferred import Deferred
from tracelake_sdk.json_values import Json, StorableText, storable

LONGEST_NAME = 500
LARGEST_RECORD = 1024 * 1024  # bytes of its JSON
WINDOW_SIDES = ("window_start", "window_end")  # of a payload


def _utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this time is before the year 1 or after the year 9999") from None


Moment = Annotated[AwareDatetime, AfterValidator(_utc)]
Name = Annotated[StorableText, Field(min_length=1, max_length=LONGEST_NAME)]
KindName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class _Fact(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class MetadataTarget(_Fact):
    """What a record is about; targets are equal by source, schema and table, and `extras` only describes."""

    source_id: Name
    schema_name: Name = Field(alias="schema")
    table: Name
    extras: Json = Field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.source_id, self.schema_name, self.table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetadataTarget) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class MetadataContext(_Fact):
    """Where and in which run a record is emitted or read; `tenant` limits every read."""

    job_id: Name | None = None
    run_id: Name | None = None  # one attempt: a retry has another
    namespace: Name | None = None
    cluster: Name
    workspace: Name
    tenant: Name
    extras: Json = Field(default_factory=dict)


class Quality(StrEnum):
    """How the facts of a record were obtained."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    BACKFILLED = "backfilled"  # taken from older logs, after the fact


class MetadataRecord(_Fact):
    """One fact; `version` is that of the kind's schema; if omitted, the newest."""

    target: MetadataTarget
    kind: KindName
    payload: Json
    produced_at: Moment
    producer_id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*\.v[1-9][0-9]*$", max_length=200)]  # changes only with its contract
    version: int | None = Field(default=None, ge=1)
    quality: Quality | None = None
    extras: Json = Field(default_factory=dict)

    @model_validator(mode="after")
    def _mirror_window(self) -> Self:
        """Copies the payload's window into `extras`; done here so that every repository and every hash has the same content."""
        self.extras.update({side: self.payload[side] for side in WINDOW_SIDES if side in self.payload})
        return self


class MetadataRequest(_Fact):
    """The target and the context of a consumer."""

    target: MetadataTarget
    context: MetadataContext


class StoredRecord(_Fact):
    """An accepted record."""

    id: UUID  # UUIDv7; breaks ties of `latest`
    record: MetadataRecord
    context: MetadataContext
    stored_at: Moment
    kind_version: int


class StoreResult(_Fact):
    """The result of storing one record; `refused` and `conflict` have the problem."""

    result: Literal["stored", "same", "refused", "conflict"]
    id: UUID | None = None  # of the stored record; for `conflict`, of the existing one
    problem: dict[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        return self.result in ("stored", "same")


class Window(_Fact):
    """Half-open: `start` is included, `end` is not; an omitted side is open."""

    start: Moment | None = None
    end: Moment | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError("a window ends after it starts")
        return self


class Comparison(StrEnum):
    EQ = "eq"
    NE = "ne"          # also if the path does not exist
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"          # one of a list
    EXISTS = "exists"  # with true or false


class PathFilter(_Fact):
    """A condition on the value at a path of the record: `payload.rows`, `extras.dataset.version`."""

    path: Annotated[str, Field(pattern=r"^(payload|extras|context|target)(\.[^.\x00]{1,200}){1,16}$", max_length=1000)]
    op: Comparison
    value: Any

    @model_validator(mode="after")
    def _comparable(self) -> Self:
        storable(self.value)
        plain = (str, int, float, bool, type(None))
        match self.op:
            case Comparison.IN:
                fits = isinstance(self.value, list) and all(isinstance(item, plain) for item in self.value)
            case Comparison.EXISTS:
                fits = isinstance(self.value, bool)
            case Comparison.EQ | Comparison.NE:
                fits = isinstance(self.value, plain)
            case _:
                fits = isinstance(self.value, (str, int, float)) and not isinstance(self.value, bool)
        if not fits:
            raise ValueError(f"`{self.op}` does not take this value")
        return self

    @property
    def steps(self) -> list[str]:
        return self.path.split(".")


class RecordFilters(_Fact):
    """The filters of a query; omitted filters match everything. Results are newest first."""

    kinds: list[KindName] = Field(default_factory=list)
    source_id: Name | None = None
    schema_name: Name | None = Field(default=None, alias="schema")
    table: Name | None = None
    producer_id: Name | None = None
    job_id: Name | None = None
    run_id: Name | None = None
    namespace: Name | None = None
    workspace: Name | None = None
    cluster: Name | None = None
    quality: Quality | None = None
    window: Window | None = None    # overlaps the record's own window; a record without one must have `produced_at` inside
    produced: Window | None = None  # `produced_at` inside
    where: list[PathFilter] = Field(default_factory=list, max_length=20)
    kind_version: int | None = Field(default=None, ge=1)  # payloads in this version instead of the newest
    limit: int = Field(default=100, ge=1, le=10_000)
    page: str | None = None         # `next` of the previous page


class DroppedSpan(_Fact):
    """Records of a kind that were dropped by their retention, so that a result without them does not look complete."""

    kind: KindName
    before: Moment  # records produced earlier were dropped


class RecordPage(_Fact):
    """Records, newest first, and the token of the next page."""

    items: list[StoredRecord]
    next: str | None = None
    dropped: list[DroppedSpan] = Field(default_factory=list)

    def __iter__(self) -> Iterator[StoredRecord]:  # pyright: ignore[reportIncompatibleMethodOverride]  # a page is its records
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class TailPage(_Fact):
    """Records in the order in which they were accepted, and the offset after the last one."""

    items: list[StoredRecord]
    offset: str  # opaque; stays valid after rotation, rebuild and compaction


class Metric(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Aggregation(_Fact):
    """What to compute over the filtered records; values that are not numbers are skipped."""

    metric: Metric = Metric.COUNT
    path: str | None = Field(default=None, pattern=r"^(payload|extras)(\.[^.\x00]{1,200}){1,16}$")
    group_by: list[Annotated[str, Field(pattern=r"^(kind|target|producer_id|day|(payload|extras|context)(\.[^.\x00]{1,200}){1,16})$")]] = Field(
        default_factory=list, max_length=5
    )

    @model_validator(mode="after")
    def _of_something(self) -> Self:
        if (self.path is None) != (self.metric is Metric.COUNT):
            raise ValueError("`count` takes no path, the other metrics need one")
        return self


class Aggregate(_Fact):
    """One group and its value; None if the group has no number, or if the value overflows."""

    group: dict[str, Any]
    value: float | int | None
    records: int
