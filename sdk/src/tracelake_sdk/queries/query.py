"""Queries: what is asked, what it was pinned to, and the receipt by which the same rows can be had again."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints

from tracelake_sdk.deferred import Deferred

MOST_SQL = 100_000   # characters of one statement
MOST_NAMES = 200     # datasets of one statement
MOST_ROWS = 1_000_000

Sql = Annotated[str, StringConstraints(min_length=1, max_length=MOST_SQL, pattern=r"^[^\x00]*$")]
SAVED_NAME = r"^[a-z][a-z0-9_]{0,127}$"
SavedName = Annotated[str, StringConstraints(pattern=SAVED_NAME)]


class ResultFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"  # a stream of Arrow record batches


MEDIA_TYPES = {
    ResultFormat.JSON: "application/json",
    ResultFormat.CSV: "text/csv; charset=utf-8",
    ResultFormat.ARROW: "application/vnd.apache.arrow.stream",
}
# Where the receipt is when the body is not JSON: one line of JSON in this header.
RECEIPT_HEADER = "Tracelake-Receipt"
MORE_HEADER = "Tracelake-More"


class QueryStatus(StrEnum):
    DONE = "done"
    REFUSED = "refused"        # not a statement that may run here, or about a dataset that the caller may not read
    FAILED = "failed"          # the engine could not do what it says
    OVER_LIMIT = "over_limit"  # it needed more time, memory or space than it may have


class _Wire(Deferred):
    model_config = ConfigDict(extra="forbid")


class QueryRequest(_Wire):
    sql: Sql
    format: ResultFormat = ResultFormat.JSON
    limit: int | None = Field(default=None, ge=1, le=MOST_ROWS, description="Maximum number of rows; if omitted, the limit of the service.")


class ReplayRequest(_Wire):
    sql: Sql | None = Field(default=None, description="The statement of the receipt; only its author may omit it.")
    format: ResultFormat = ResultFormat.JSON


class QueryColumn(Deferred):
    name: str
    type: str  # as the engine spells it


class QueryPin(Deferred):
    """The version of one dataset that a query reads, fixed before the first file is opened."""

    name: str  # as it was asked for: `orders`, or `orders@3`
    dataset_uuid: UUID
    dataset_version: UUID
    version: int


class Receipt(Deferred):
    """What a query read and what came out of it."""

    id: UUID
    at: datetime
    pins: list[QueryPin]
    sql_sha256: str
    result_hash: str | None            # over the rows as a set in which equal rows count, whatever their order; None where there is no result
    left_out: list[str] = Field(default_factory=list)  # columns that the hash leaves out: computed floating-point numbers differ in their last digits
    row_count: int
    milliseconds: float
    engine_version: str
    replayable: bool
    why_not: str | None = None


class Replay(Deferred):
    """What became of asking a query again on its pins."""

    of: UUID
    same: bool
    expected_hash: str | None
    expected_rows: int


class QueryAnswer(Deferred):
    """A result as JSON. Decimals and 64-bit integers are texts, NaN is "NaN"."""

    columns: list[QueryColumn]
    rows: list[list[Any]]
    more: bool  # True: there are rows beyond the limit
    receipt: Receipt
    replay: Replay | None = None


@dataclass(frozen=True)
class RawAnswer:
    """A result as CSV or as an Arrow stream."""

    body: bytes
    more: bool  # True: there are rows beyond the limit
    receipt: Receipt


class QueryRun(Deferred):
    """A line of the query log. The statement is shown to its author alone."""

    id: UUID
    at: datetime
    actor: str
    sql: str | None
    sql_sha256: str
    pins: list[QueryPin]
    status: QueryStatus
    error_code: str | None
    result_hash: str | None
    left_out: list[str]
    row_count: int | None
    milliseconds: float
    engine_version: str
    replayable: bool
    why_not: str | None
    replay_of: UUID | None


class SaveQuery(_Wire):
    model_config = ConfigDict(defer_build=False)  # FastAPI takes it as a body, and must find it built

    sql: Sql
    description: str = Field(default="", max_length=1000)


class SavedQuery(Deferred):
    """A statement that its author keeps under a name."""

    name: str
    sql: str
    description: str
    saved_at: datetime


# What a query process asks of control
class AskedName(_Wire):
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    version: int | None = Field(default=None, ge=1)  # None: the one that readers see now

    @property
    def called(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


class AdmitRequest(_Wire):
    caller: str  # the token of the user


class Admitted(Deferred):
    """The token is one that may ask; which datasets it may read is judged when they are pinned."""


class PinRequest(_Wire):
    caller: str  # the token of the user: what it may not read is not pinned
    names: list[AskedName] = Field(max_length=MOST_NAMES)
    replay_of: UUID | None = None  # take the pins of this query instead of current ones


class TableFacts(Deferred):
    """What is behind one version; it never changes."""

    location: str                 # below the storage's root
    table_schema: dict[str, Any]
    schema_hash: str
    unique_key: list[str]
    files: list[tuple[str, str]]  # path below the location, and the hash of its own schema


class PinnedTable(Deferred):
    pin: QueryPin
    table: TableFacts


class Expected(Deferred):
    """What a query that is replayed came to."""

    result_hash: str | None
    row_count: int
    row_limit: int


class Pinned(Deferred):
    """Pins that are committed, and what lies behind them; they hold for `lease_seconds` unless renewed."""

    id: UUID
    lease_seconds: float
    tables: list[PinnedTable]
    expected: Expected | None = None


class RenewRequest(_Wire):
    pins: list[UUID] = Field(max_length=1000)


class Renewed(Deferred):
    lost: list[UUID]  # released or expired: whatever reads under them must stop


class RunFacts(_Wire):
    """What a query process reports when a query has ended."""

    sql: Sql
    status: QueryStatus
    error_code: str | None = None
    result_hash: str | None = None
    left_out: list[str] = Field(default_factory=list)
    row_count: int | None = None
    row_limit: int
    milliseconds: float
    engine_version: str
    replayable: bool = False
    why_not: str | None = None
    replay_of: UUID | None = None


class ReleaseRequest(_Wire):
    pin: UUID | None = None     # None: it ended before anything was pinned
    caller: str | None = None   # needed then: whose query it was
    run: RunFacts


class Released(Deferred):
    id: UUID
    at: datetime
