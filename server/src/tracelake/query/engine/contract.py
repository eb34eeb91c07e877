"""The protocol between front and engine process: frames of a JSON head and a body, one request and one answer at a time.

Neither side trusts the other: a head that is not valid ends the engine.
"""

import struct
from typing import IO, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.queries import QueryColumn, RequestedName, ResultFormat

_LENGTHS = struct.Struct(">II")
_LONGEST_HEAD = 64 * 2**20
_LONGEST_BODY = 2**31


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EngineLimits(_Frame):
    """The resources that one query may use."""

    threads: int
    memory_mib: int
    spill_mib: int
    max_seconds: float
    max_bytes: int


class ReadRequest(_Frame):
    """Request: return what this statement reads, if it may run."""

    do: Literal["read"] = "read"
    sql: str


class TableToRead(_Frame):
    name: str  # as the statement calls it
    table_schema: dict[str, Any]
    schema_hash: str
    unique_key: list[str]
    files: dict[str, list[str]]  # local paths by the hash of their schema


class RunRequest(_Frame):
    """Request: run the statement that was read last, over exactly these files."""

    do: Literal["run"] = "run"
    tables: list[TableToRead]
    row_limit: int
    format: ResultFormat


EngineRequest = Annotated[ReadRequest | RunRequest, Field(discriminator="do")]


class WasRead(_Frame):
    names: list[RequestedName]


class Ran(_Frame):
    """The result; the rows are the body. A JSON body lacks its last brace: the receipt is written before it."""

    columns: list[QueryColumn]
    row_count: int
    more: bool
    result_hash: str
    left_out: list[str]
    replayable: bool
    why_not: str | None


class Problem(_Frame):
    """Why there is no result."""

    code: str
    detail: str
    extra: dict[str, Any] = Field(default_factory=dict)

    @staticmethod
    def of(error: TracelakeError) -> "Problem":
        return Problem(code=error.code, detail=error.detail, extra=error.extra)

    def error(self) -> TracelakeError:
        return TracelakeError.of({"code": self.code, "detail": self.detail, **self.extra})


class Answer(_Frame):
    engine_version: str
    read: WasRead | None = None
    ran: Ran | None = None
    problem: Problem | None = None
    unfit: bool = False  # the engine must not be used again


def send(stream: IO[bytes], head: BaseModel, body: bytes = b"") -> None:
    spelt = head.model_dump_json().encode()
    stream.write(_LENGTHS.pack(len(spelt), len(body)))
    stream.write(spelt)
    stream.write(body)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Head and body; None if the other side has ended."""
    lengths = _exactly(stream, _LENGTHS.size)
    if lengths is None:
        return None
    head_length, body_length = _LENGTHS.unpack(lengths)
    if head_length > _LONGEST_HEAD or body_length > _LONGEST_BODY:
        return None
    head = _exactly(stream, head_length)
    body = _exactly(stream, body_length)
    return None if head is None or body is None else (head, body)


def _exactly(stream: IO[bytes], length: int) -> bytes | None:
    found = stream.read(length) if length else b""
    return found if len(found) == length else None
