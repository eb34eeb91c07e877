"""The records of a service as a MetadataRepository: the same signatures over HTTP.

Every call is idempotent, since storing the same record again changes nothing: it is retried after a broken connection. A service
that does not answer is RepositoryUnavailable, or OutcomeUnknown if it may have stored the records.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import ConfigDict, TypeAdapter, ValidationError

from tracelake_sdk.client.addresses import address_of
from tracelake_sdk.client.wire import CONNECT_SECONDS, Unanswered, Unreached, connect, error_in, send
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.errors import NotRunning, OutcomeUnknown, TracelakeError, Unauthenticated, Unavailable
from tracelake_sdk.errors.records import KindUnknown, RepositoryUnavailable
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.record import (
    Aggregate,
    Aggregation,
    MetadataContext,
    MetadataRecord,
    MetadataTarget,
    RecordFilters,
    RecordPage,
    StoredRecord,
    StoreResult,
    TailPage,
    Window,
)
from tracelake_sdk.records.repository.admission import same_tenant

Answer = TypeVar("Answer")

_MOST_AT_ONCE = 5_000
_MOST_BYTES = 8 * 2**20  # of one bulk, unless one record is larger
_NDJSON = "application/x-ndjson"
_SILENCE_SECONDS = 60.0  # a stream that is silent for this long is broken: the service sends keep-alives more often

_DEFERRED = ConfigDict(defer_build=True)  # built when it is first used
_STORED: TypeAdapter[StoredRecord | None] = TypeAdapter(StoredRecord | None, config=_DEFERRED)
_AGGREGATES: TypeAdapter[list[Aggregate]] = TypeAdapter(list[Aggregate], config=_DEFERRED)
_TARGETS: TypeAdapter[list[MetadataTarget]] = TypeAdapter(list[MetadataTarget], config=_DEFERRED)
_KINDS: TypeAdapter[list[Kind]] = TypeAdapter(list[Kind], config=_DEFERRED)
_KIND: TypeAdapter[Kind] = TypeAdapter(Kind)
_PAGE: TypeAdapter[RecordPage] = TypeAdapter(RecordPage)
_TAIL: TypeAdapter[TailPage] = TypeAdapter(TailPage)
_RESULT: TypeAdapter[StoreResult] = TypeAdapter(StoreResult)


class _Results(Deferred):
    results: list[StoreResult]


_RESULTS: TypeAdapter[_Results] = TypeAdapter(_Results)


class RemoteRepository:
    """A MetadataRepository behind HTTP; its tenant is the token's, and `tenant`, if given, is what contexts must name."""

    def __init__(self, api_url: str, token: str, *, tenant: str | None = None, timeout: float = 30.0) -> None:
        self.api_url: str = address_of(api_url)
        self.tenant: str | None = tenant
        if not token.strip():
            raise Unauthenticated(f"No token for {self.api_url}; pass one.")
        self._http: httpx2.Client = connect(self.api_url, token.strip(), timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Kinds
    def kinds(self) -> list[Kind]:
        return self._get(_KINDS, "/v1/kinds", {"tenant": self.tenant})

    def kind(self, name: str, version: int | None = None) -> Kind:
        if not name.strip(".") or _part(name) != name:  # in a URL it would be another path
            raise KindUnknown(f"No kind {name} is registered; see `tracelake kind list`.")
        return self._get(_KIND, f"/v1/kinds/{_part(name)}", {"version": version, "tenant": self.tenant})

    def register(self, kind: Kind, *, check_only: bool = False) -> Kind:
        query = {"check_only": "true" if check_only else None, "tenant": self.tenant}
        return self._post(_KIND, "/v1/kinds", kind.model_dump_json(by_alias=True), query=query)

    # Records
    def store(self, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        self._check(context)
        return self._post(_RESULT, "/v1/records", f'{{"record":{record.model_dump_json()},"context":{context.model_dump_json()}}}')

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        """Sends as many requests as needed; if a later one fails, the earlier ones are stored, and sending all again is safe."""
        self._check(context)
        where, results = context.model_dump_json(), list[StoreResult]()
        for part in _parts([record.model_dump_json() for record in records]):
            results += self._post(_RESULTS, "/v1/records/bulk", f'{{"records":[{",".join(part)}],"context":{where}}}').results
        return results

    def latest(self, target: MetadataTarget, kind: str, context: MetadataContext) -> StoredRecord | None:
        self._check(context)
        return self._get(_STORED, "/v1/records/latest", _about(target, kind, context))

    def history(self, target: MetadataTarget, kind: str, context: MetadataContext, limit: int = 100, window: Window | None = None) -> RecordPage:
        self._check(context)
        sides = {"start": _spelt(window.start), "end": _spelt(window.end)} if window else {}
        return self._get(_PAGE, "/v1/records/history", _about(target, kind, context) | {"limit": limit} | sides)

    def query(self, filters: RecordFilters, context: MetadataContext) -> RecordPage:
        self._check(context)
        body = f'{{"filters":{filters.model_dump_json()},"tenant":{_json(context.tenant)}}}'
        return self._post(_PAGE, "/v1/records/query", body, reads=True)

    def aggregate(self, filters: RecordFilters, aggregation: Aggregation, context: MetadataContext) -> list[Aggregate]:
        self._check(context)
        body = f'{{"filters":{filters.model_dump_json()},"aggregation":{aggregation.model_dump_json()},"tenant":{_json(context.tenant)}}}'
        return self._post(_AGGREGATES, "/v1/records/aggregate", body, reads=True)

    def targets(self, context: MetadataContext, kind: str | None = None) -> list[MetadataTarget]:
        self._check(context)
        return self._get(_TARGETS, "/v1/records/targets", {"kind": kind, "tenant": context.tenant})

    def tail(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> TailPage:
        self._check(context)
        return self._get(_TAIL, "/v1/records/tail", {"offset": offset, "kinds": list(kinds), "limit": limit, "tenant": context.tenant})

    def follow(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> Iterator[TailPage]:
        """The records accepted after an offset, and new ones while the connection lasts; leave the loop to disconnect.

        The iterator ends with the connection: start again with the offset of the last page, as `repository.following.follow` does.
        """
        self._check(context)
        query = _parameters({"offset": offset, "kinds": list(kinds), "limit": limit, "tenant": context.tenant, "follow": "true"})
        timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=CONNECT_SECONDS)
        try:
            with self._http.stream("GET", "/v1/records/tail", params=query, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise self._error(response)
                if not response.headers.get("content-type", "").startswith(_NDJSON):
                    raise self._stranger()
                for line in response.iter_lines():
                    if line:
                        yield TailPage.model_validate_json(line)
        except (httpx2.TransportError, ValidationError) as error:  # an invalid line was cut off
            raise RepositoryUnavailable(f"The stream from {self.api_url} broke; continue after the last page.") from error

    def _check(self, context: MetadataContext) -> None:
        if self.tenant is not None:
            same_tenant(context, self.tenant)

    # HTTP
    def _get(self, kind: TypeAdapter[Answer], path: str, query: Mapping[str, Any]) -> Answer:
        return self._read(kind, self._send("GET", path, reads=True, params=_parameters(query)))

    def _post(self, kind: TypeAdapter[Answer], path: str, body: str, *, reads: bool = False, query: Mapping[str, Any] | None = None) -> Answer:
        sent = self._send("POST", path, reads=reads, content=body.encode(), headers={"Content-Type": "application/json"}, params=_parameters(query or {}))
        return self._read(kind, sent)

    def _send(self, method: str, path: str, *, reads: bool, **parts: Any) -> httpx2.Response:
        try:
            return send(self._http, method, path, **parts)
        except Unreached as error:
            raise RepositoryUnavailable(f"Nothing answers at {self.api_url}.") from error
        except Unanswered as error:
            if reads:
                raise RepositoryUnavailable(f"{self.api_url} accepted the request and did not answer; try again shortly.") from error
            detail = f"The connection to {self.api_url} broke after the records were sent: they may or may not be stored; sending them again is safe."
            raise OutcomeUnknown(detail) from error

    def _read(self, kind: TypeAdapter[Answer], response: httpx2.Response) -> Answer:
        if not response.is_success:
            raise self._error(response)
        try:
            return kind.validate_json(response.content)
        except ValidationError as error:
            raise self._stranger() from error

    def _stranger(self) -> NotRunning:
        return NotRunning(f"The server at {self.api_url} is not a Tracelake of this release; check its address.")

    def _error(self, response: httpx2.Response) -> TracelakeError:
        found = error_in(response)
        if found is None and response.status_code < 500:
            return NotRunning(f"The server at {self.api_url} is not a Tracelake (HTTP {response.status_code}); check its address.")
        if found is None or isinstance(found, Unavailable):
            return RepositoryUnavailable(f"{self.api_url} cannot answer now; try again shortly.", retry_after=found.retry_after if found else None)
        return found


def _parts(spelt: list[str]) -> Iterator[list[str]]:
    """Splits records into parts with limited records and bytes; a single record may be larger."""
    part, size = list[str](), 0
    for record in spelt:
        if part and (len(part) >= _MOST_AT_ONCE or size + len(record) > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record)
    if part or not spelt:
        yield part  # an empty list is sent too: the service decides whether it is valid


def _about(target: MetadataTarget, kind: str, context: MetadataContext) -> dict[str, Any]:
    return {"kind": kind, "source_id": target.source_id, "schema": target.schema_name, "table": target.table, "tenant": context.tenant}


def _parameters(query: Mapping[str, Any]) -> dict[str, str | list[str]]:
    return {name: value if isinstance(value, list) else str(value) for name, value in query.items() if value is not None}


def _spelt(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _json(text: str) -> str:
    return json.dumps(text)


def _part(name: str) -> str:
    return quote(name, safe="")
