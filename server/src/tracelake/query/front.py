"""The front: has a statement parsed, its datasets pinned and an engine run it, logs the query, and returns the result with its receipt."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict, Field

from tracelake.query.copies import Copies
from tracelake.query.engine.contract import Answer, Ran, ReadRequest, RunRequest
from tracelake.query.engines import EngineProcess, Engines, Listener
from tracelake.query.leases import PinLeases
from tracelake.query.pin_client import PinClient
from tracelake_sdk.errors import NotFound, QueryAbandoned, QueryInvalid, QueryOverLimit, QueryRefused, TracelakeError
from tracelake_sdk.queries import (
    MORE_HEADER,
    RECEIPT_HEADER,
    Pinned,
    PinRequest,
    QueryStatus,
    Receipt,
    ReleaseRequest,
    Replay,
    RequestedName,
    ResultFormat,
    RunFacts,
    Sql,
)

_log = structlog.get_logger()

_UNKNOWN_ENGINE = "none"


class ForwardedQuery(BaseModel):
    """A query that control forwards."""

    model_config = ConfigDict(extra="forbid")

    sql: Sql
    format: ResultFormat = ResultFormat.JSON
    limit: int | None = Field(default=None, ge=1)
    replay_of: UUID | None = None


class Reply(NamedTuple):
    body: bytes
    headers: dict[str, str]
    format: ResultFormat


@dataclass(frozen=True)
class Front:
    control: PinClient
    engines: Engines
    leases: PinLeases
    copies: Copies
    default_rows: int
    max_rows: int

    def answer(self, question: ForwardedQuery, token: str, listener: Listener) -> Reply:
        """Raises the query's error, after the query was logged."""
        started = time.monotonic()
        row_limit = min(question.limit or self.default_rows, self.max_rows)
        entry = _LogEntry(question, row_limit, started)
        # First an engine, then pins: a waiting query holds no pins.
        with self.engines.engine() as engine, listener.listening_to(engine):
            entry.engine_version, names = _read(engine, question.sql, entry, self.control, token)
            pinned = self._pin(PinRequest(caller=token, names=names, replay_of=question.replay_of), entry, token)
            with self.leases.held(pinned):
                answer, body = self._run(engine, question, pinned, entry)
        ran = _ran(answer)
        facts = entry.facts(ran)
        released = self.control.release(ReleaseRequest(pin=pinned.id, run=facts))
        receipt = Receipt(
            id=released.id,
            at=released.at,
            pins=[table.pin for table in pinned.tables],
            sql_sha256=hashlib.sha256(question.sql.encode()).hexdigest(),
            result_hash=ran.result_hash,
            left_out=ran.left_out,
            row_count=ran.row_count,
            milliseconds=facts.milliseconds,
            engine_version=answer.engine_version,
            replayable=ran.replayable,
            why_not=ran.why_not,
        )
        _log.info("a query was answered", query=str(receipt.id), rows=ran.row_count, milliseconds=facts.milliseconds, datasets=len(pinned.tables))
        return _reply(question, ran, body, receipt, _replay(question, pinned, ran))

    def _pin(self, request: PinRequest, entry: "_LogEntry", token: str) -> Pinned:
        try:
            pinned = self.control.take(request)
        except (NotFound, QueryRefused) as error:
            self.control.release(ReleaseRequest(caller=token, run=entry.failure(error)))
            raise
        if pinned.expected is not None:
            entry.row_limit = pinned.expected.row_limit
        return pinned

    def _run(self, engine: EngineProcess, question: ForwardedQuery, pinned: Pinned, entry: "_LogEntry") -> tuple[Answer, bytes]:
        try:
            with self.copies.local(pinned.tables) as tables:
                return engine.run(RunRequest(tables=tables, row_limit=entry.row_limit, format=question.format))
        except TracelakeError as error:
            self.control.release(ReleaseRequest(pin=pinned.id, run=entry.failure(error)))
            raise


class _LogEntry:
    """The facts of one query for the query log, collected while it runs."""

    def __init__(self, question: ForwardedQuery, row_limit: int, started: float) -> None:
        self._question: ForwardedQuery = question
        self._started: float = started
        self.row_limit: int = row_limit
        self.engine_version: str = _UNKNOWN_ENGINE

    def facts(self, ran: Ran) -> RunFacts:
        return RunFacts(
            sql=self._question.sql,
            status=QueryStatus.DONE,
            result_hash=ran.result_hash,
            left_out=ran.left_out,
            row_count=ran.row_count,
            row_limit=self.row_limit,
            milliseconds=self._milliseconds(),
            engine_version=self.engine_version,
            replayable=ran.replayable,
            why_not=ran.why_not,
            replay_of=self._question.replay_of,
        )

    def failure(self, error: TracelakeError) -> RunFacts:
        match error:
            case QueryOverLimit():
                status = QueryStatus.OVER_LIMIT
            case QueryRefused() | NotFound():
                status = QueryStatus.REFUSED
            case _:
                status = QueryStatus.FAILED
        return RunFacts(
            sql=self._question.sql, status=status, error_code=error.code, row_limit=self.row_limit, milliseconds=self._milliseconds(),
            engine_version=self.engine_version, replay_of=self._question.replay_of,
        )  # fmt: skip

    def _milliseconds(self) -> float:
        return round((time.monotonic() - self._started) * 1000, 3)


def _read(engine: EngineProcess, sql: str, entry: _LogEntry, control: PinClient, token: str) -> tuple[str, list[RequestedName]]:
    try:
        answer = engine.read(ReadRequest(sql=sql))
    except (QueryRefused, QueryInvalid, QueryOverLimit, QueryAbandoned) as error:
        control.release(ReleaseRequest(caller=token, run=entry.failure(error)))
        raise
    if answer.read is None:
        raise TracelakeError("An engine returned an answer of the wrong type.")
    return answer.engine_version, answer.read.names


def _ran(answer: Answer) -> Ran:
    if answer.ran is None:
        raise TracelakeError("An engine returned an answer of the wrong type.")
    return answer.ran


def _replay(question: ForwardedQuery, pinned: Pinned, ran: Ran) -> Replay | None:
    if question.replay_of is None or pinned.expected is None:
        return None
    expected = pinned.expected
    same = (ran.result_hash, ran.row_count) == (expected.result_hash, expected.row_count)
    return Replay(of=question.replay_of, same=same, expected_hash=expected.result_hash, expected_rows=expected.row_count)


def _reply(question: ForwardedQuery, ran: Ran, body: bytes, receipt: Receipt, replay: Replay | None) -> Reply:
    spelt = receipt.model_dump_json()
    if question.format is ResultFormat.JSON:
        again = f',"replay":{replay.model_dump_json()}' if replay else ""
        return Reply(b"".join((body, b',"receipt":', spelt.encode(), again.encode(), b"}")), {}, question.format)
    # A header is one line of ASCII, so the JSON is ASCII-escaped.
    whole = receipt.model_dump(mode="json") | ({"replay": replay.model_dump(mode="json")} if replay else {})
    return Reply(body, {RECEIPT_HEADER: _ascii(whole), MORE_HEADER: "true" if ran.more else "false"}, question.format)


def _ascii(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
