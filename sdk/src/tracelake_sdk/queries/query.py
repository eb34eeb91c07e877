"""Queries: the request, the pinned versions, and the receipt with which the same rows can be read again."""

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
# The header with the receipt, as one line of JSON, if the body is not JSON.
RECEIPT_HEADER = "Tracelake-Receipt"
MORE_HEADER = "Tracelake-More"


class QueryStatus(StrEnum):
    DONE = "done"
    REFUSED = "refused"        # the statement is not allowed, or reads a dataset that the caller may not read
    FAILED = "failed"          # the engine could not run it
    OVER_LIMIT = "over_limit"  # it needed more time, memory or disk than allowed


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
    type: str  # the engine's name of the type


class QueryPin(Deferred):
    """The version of one dataset that a query reads, fixed before the first file is opened."""

    name: str  # as the statement names it: `orders`, or `orders@3`
    dataset_uuid: UUID
    dataset_version: UUID
    version: int


class Receipt(Deferred):
    """The versions that a query read, and the hash of its result."""

    id: UUID
    at: datetime
    pins: list[QueryPin]
    sql_sha256: str
    result_hash: str | None            # over the rows as a multiset, in any order; None without a result
    left_out: list[str] = Field(default_factory=list)  # columns that the hash omits: computed floating-point numbers differ in their last digits
    row_count: int
    milliseconds: float
    engine_version: str
    replayable: bool
    why_not: str | None = None


class Replay(Deferred):
    """The comparison of a replayed query with the original."""

    of: UUID
    same: bool
    expected_hash: str | None
    expected_rows: int


class QueryAnswer(Deferred):
    """A result as JSON. Decimals and 64-bit integers are strings, NaN is "NaN"."""

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
    """A line of the query log. Only its author sees the statement."""

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
    model_config = ConfigDict(defer_build=False)  # FastAPI needs a built model for a request body

    sql: Sql
    description: str = Field(default="", max_length=1000)


class SavedQuery(Deferred):
    """A statement that its author saved under a name."""

    name: str
    sql: str
    description: str
    saved_at: datetime


# Requests of the query process to control
class RequestedName(_Wire):
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    version: int | None = Field(default=None, ge=1)  # None: the current one

    @property
    def called(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


class AdmitRequest(_Wire):
    caller: str  # the token of the user


class Admitted(Deferred):
    """The token may run queries; permission for each dataset is checked when it is pinned."""


class PinRequest(_Wire):
    caller: str  # the token of the user: datasets that it may not read are not pinned
    names: list[RequestedName] = Field(max_length=MOST_NAMES)
    replay_of: UUID | None = None  # take the pins of this query instead of current ones


class TableFacts(Deferred):
    """The files and schema of one version; immutable."""

    location: str                 # below the storage's root
    table_schema: dict[str, Any]
    schema_hash: str
    unique_key: list[str]
    files: list[tuple[str, str]]  # path below the location, and the hash of its own schema


class PinnedTable(Deferred):
    pin: QueryPin
    table: TableFacts


class Expected(Deferred):
    """The result of the original query, for a replay to compare with."""

    result_hash: str | None
    row_count: int
    row_limit: int


class Pinned(Deferred):
    """Committed pins with their tables; they hold for `lease_seconds` unless renewed."""

    id: UUID
    lease_seconds: float
    tables: list[PinnedTable]
    expected: Expected | None = None


class RenewRequest(_Wire):
    pins: list[UUID] = Field(max_length=1000)


class Renewed(Deferred):
    lost: list[UUID]  # released or expired: queries that use them must stop


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
    caller: str | None = None   # required then: the token of the user
    run: RunFacts


class Released(Deferred):
    id: UUID
    at: datetime
