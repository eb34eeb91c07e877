"""Metadata records and kinds over HTTP. Thin: each route is its use case.

These routes read and write bytes themselves: a bulk is parsed once, in the model that names it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from functools import cache
from typing import Annotated, Any
from uuid import UUID

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tracelake.control.access.callers import Caller
from tracelake.control.api.bodies import takes
from tracelake.control.api.context import record_services_of, user_of
from tracelake.control.api.guarded_routes import UserRoute
from tracelake.control.api.problems import first_fault
from tracelake.control.records.authorization import AuthorizedRecords
from tracelake_sdk.errors.records import RecordRefused
from tracelake_sdk.records import (
    Aggregate,
    Aggregation,
    MetadataContext,
    MetadataRecord,
    MetadataTarget,
    Metric,
    PathFilter,
    Quality,
    RecordFilters,
    RecordPage,
    StoredRecord,
    StoreResult,
    TailPage,
    Window,
)
from tracelake_sdk.records.kinds import Kind

router = APIRouter(prefix="/v1", tags=["records"], route_class=UserRoute)

MOST_AT_ONCE = 10_000
NDJSON = "application/x-ndjson"
_BEAT_SECONDS = 15.0  # seconds between empty lines, so that a closed connection is noticed
_STREAMED = 200       # records of a line, at most

Tenant = Annotated[str | None, Query(max_length=500, description="The tenant of the token; another one is refused.")]
Text = Annotated[str | None, Query(max_length=500)]
Moment = Annotated[str | None, Query(max_length=64)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StoreRequest(_Request):
    record: MetadataRecord
    context: MetadataContext


class BulkRequest(_Request):
    records: list[MetadataRecord] = Field(max_length=MOST_AT_ONCE)
    context: MetadataContext


class BulkAnswer(_Request):
    results: list[StoreResult]


class RecordQueryRequest(_Request):
    filters: RecordFilters = RecordFilters()
    tenant: str | None = None


class AggregateRequest(_Request):
    filters: RecordFilters = RecordFilters()
    aggregation: Aggregation = Aggregation()
    tenant: str | None = None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


async def _answer(request: Request, kind: Any, step: Callable[[AuthorizedRecords, Caller], object]) -> Response:
    """One hop into the framework's threads for everything: authentication, the step, and its JSON."""

    def whole() -> bytes:
        return _adapter(kind).dump_json(step(record_services_of(request).records, user_of(request)))

    return Response(await anyio.to_thread.run_sync(whole), media_type="application/json")


# Storing
@router.post("/records", response_model=StoreResult, openapi_extra=takes(StoreRequest))
async def store(request: Request) -> Response:
    """Stores a record; an equal one is stored once."""
    body = await request.body()

    def step(records: AuthorizedRecords, caller: Caller) -> StoreResult:
        sent = StoreRequest.model_validate_json(body)
        return records.store(caller, sent.record, sent.context)

    return await _answer(request, StoreResult, step)


@router.post("/records/bulk", response_model=BulkAnswer, openapi_extra=takes(BulkRequest))
async def bulk_store(request: Request) -> Response:
    """One result per record, in order; an invalid record does not affect the others."""
    body = await request.body()

    def step(records: AuthorizedRecords, caller: Caller) -> BulkAnswer:
        try:
            sent = BulkRequest.model_validate_json(body)
        except ValidationError as error:
            return BulkAnswer(results=_one_by_one(records, caller, body, error))
        return BulkAnswer.model_construct(results=records.bulk_store(caller, sent.records, sent.context))

    return await _answer(request, BulkAnswer, step)


def _one_by_one(records: AuthorizedRecords, caller: Caller, body: bytes, error: ValidationError) -> list[StoreResult]:
    """If only some records are invalid, stores the others; raises the error if the request itself is invalid."""
    if any(found["loc"][:1] != ("records",) or len(found["loc"]) < 2 for found in error.errors(include_url=False, include_input=False)):
        raise error
    whole: dict[str, Any] = json.loads(body)
    good: list[MetadataRecord] = []
    results: list[StoreResult | None] = []
    for item in whole["records"]:
        try:
            good.append(MetadataRecord.model_validate_json(json.dumps(item)))
            results.append(None)
        except ValidationError as wrong:
            results.append(StoreResult(result="refused", problem=RecordRefused(f"The record is wrong at {first_fault(wrong)}.").problem()))
    stored = iter(records.bulk_store(caller, good, MetadataContext.model_validate(whole["context"])))
    return [next(stored) if result is None else result for result in results]


# Reading
@router.get("/records/latest", response_model=StoredRecord | None)
async def latest(
    request: Request, kind: str, source_id: str, schema: Annotated[str, Query()], table: str, tenant: Tenant = None
) -> Response:
    """The newest record of a kind about a target, or null. A dataset may be named: source `lake`, its layer as schema."""
    target = MetadataTarget(source_id=source_id, schema=schema, table=table)
    return await _answer(request, StoredRecord | None, lambda records, caller: records.latest(caller, target, kind, tenant=tenant))


@router.get("/records/history", response_model=RecordPage)
async def history(
    request: Request, kind: str, source_id: str, schema: Annotated[str, Query()], table: str,
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = 100, start: Moment = None, end: Moment = None, tenant: Tenant = None,
) -> Response:  # fmt: skip
    target = MetadataTarget(source_id=source_id, schema=schema, table=table)
    window = _window(start, end)
    return await _answer(request, RecordPage, lambda records, caller: records.history(caller, target, kind, limit, window, tenant=tenant))


async def _filters(
    kinds: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
    source_id: Text = None, schema: Text = None, table: Text = None, producer_id: Text = None, job_id: Text = None, run_id: Text = None,
    namespace: Text = None, workspace: Text = None, cluster: Text = None, quality: Quality | None = None,
    start: Annotated[str | None, Query(max_length=64, description="With `end`: overlaps the record's own window.")] = None, end: Moment = None,
    produced_start: Moment = None, produced_end: Moment = None,
    where: Annotated[list[str], Query(max_length=20, description='Conditions as JSON: {"path": "payload.rows", "op": "gt", "value": 0}')] = [],  # noqa: B006
    kind_version: int | None = None, limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = 100, page: Annotated[str | None, Query(max_length=200)] = None,
) -> RecordFilters:  # fmt: skip
    return RecordFilters(
        kinds=kinds, source_id=source_id, schema=schema, table=table, producer_id=producer_id, job_id=job_id, run_id=run_id, namespace=namespace,
        workspace=workspace, cluster=cluster, quality=quality, window=_window(start, end), produced=_window(produced_start, produced_end),
        where=[PathFilter.model_validate_json(condition) for condition in where], kind_version=kind_version, limit=limit, page=page,
    )  # fmt: skip


Filters = Annotated[RecordFilters, Depends(_filters)]


@router.get("/records/query", response_model=RecordPage)
async def query(request: Request, filters: Filters, tenant: Tenant = None) -> Response:
    """Newest first."""
    return await _answer(request, RecordPage, lambda records, caller: records.query(caller, filters, tenant=tenant))


@router.post("/records/query", response_model=RecordPage, openapi_extra=takes(RecordQueryRequest))
async def query_by_body(request: Request) -> Response:
    """The same, for filters that are too long for a URL."""
    body = await request.body()

    def step(records: AuthorizedRecords, caller: Caller) -> RecordPage:
        sent = RecordQueryRequest.model_validate_json(body)
        return records.query(caller, sent.filters, tenant=sent.tenant)

    return await _answer(request, RecordPage, step)


@router.get("/records/aggregate", response_model=list[Aggregate])
async def aggregate(
    request: Request, filters: Filters, metric: Metric = Metric.COUNT, path: Annotated[str | None, Query(max_length=1000)] = None,
    group_by: Annotated[list[str], Query(max_length=5)] = [], tenant: Tenant = None,  # noqa: B006
) -> Response:  # fmt: skip
    aggregation = Aggregation(metric=metric, path=path, group_by=group_by)
    return await _answer(request, list[Aggregate], lambda records, caller: records.aggregate(caller, filters, aggregation, tenant=tenant))


@router.post("/records/aggregate", response_model=list[Aggregate], openapi_extra=takes(AggregateRequest))
async def aggregate_by_body(request: Request) -> Response:
    body = await request.body()

    def step(records: AuthorizedRecords, caller: Caller) -> list[Aggregate]:
        sent = AggregateRequest.model_validate_json(body)
        return records.aggregate(caller, sent.filters, sent.aggregation, tenant=sent.tenant)

    return await _answer(request, list[Aggregate], step)


@router.get("/records/targets", response_model=list[MetadataTarget])
async def targets(request: Request, kind: Annotated[str | None, Query(max_length=64)] = None, tenant: Tenant = None) -> Response:
    return await _answer(request, list[MetadataTarget], lambda records, caller: records.targets(caller, kind, tenant=tenant))


@router.get("/records/tail", response_model=TailPage)
async def tail(
    request: Request, offset: Annotated[str | None, Query(max_length=200)] = None, kinds: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = 1000, tenant: Tenant = None,
    follow: Annotated[bool, Query(description="Stay connected: one page per line (NDJSON), with empty lines as keep-alive.")] = False,
) -> Response:  # fmt: skip
    """Records accepted after an offset, in the order of acceptance."""

    def look(records: AuthorizedRecords, caller: Caller, behind: str | None = offset, most: int = limit) -> TailPage:
        return records.tail(caller, behind, kinds=kinds, limit=most, tenant=tenant)

    if not follow:
        return await _answer(request, TailPage, look)
    most = min(limit, _STREAMED)
    org, first = await _in_tails_thread(request, lambda records, caller: (caller.org_id, look(records, caller, offset, most)))
    pages = _pages(request, org, first, lambda behind: lambda records, caller: look(records, caller, behind, most))
    return StreamingResponse(_begun(pages, await anext(pages)), media_type=NDJSON)


Step = Callable[[AuthorizedRecords, Caller], Any]


async def _in_tails_thread(request: Request, step: Step) -> Any:
    """Uses the few threads of the streams: however many wake up at once, other requests still get threads and connections."""

    def whole() -> Any:
        return step(record_services_of(request).records, user_of(request))

    return await anyio.to_thread.run_sync(whole, limiter=request.app.state.tails)


async def _pages(request: Request, org: UUID, page: TailPage, look: Callable[[str], Step]) -> AsyncGenerator[bytes]:
    """One line per page. Caller and permissions are checked again for each page."""
    tails, grown, loop = record_services_of(request).tails, asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(grown.set)

    with tails.open(org, wake):
        yield page.model_dump_json().encode() + b"\n"
        while not tails.closed:
            grown.clear()
            page = await _in_tails_thread(request, look(page.offset))
            if page.items:
                yield page.model_dump_json().encode() + b"\n"
                continue
            try:
                async with asyncio.timeout(_BEAT_SECONDS):
                    await grown.wait()
            except TimeoutError:
                yield b"\n"


async def _begun(pages: AsyncGenerator[bytes], first: bytes) -> AsyncGenerator[bytes]:
    """The first page is read before the response starts, so that an error gets its own status."""
    try:
        yield first
        async for page in pages:
            yield page
    finally:
        await pages.aclose()


# Kinds
@router.get("/kinds", response_model=list[Kind])
async def kinds(request: Request, tenant: Tenant = None) -> Response:
    """The newest version of each."""
    return await _answer(request, list[Kind], lambda records, caller: records.kinds(caller, tenant=tenant))


@router.get("/kinds/{name}", response_model=Kind)
async def kind(request: Request, name: str, version: Annotated[int | None, Query(ge=1)] = None, tenant: Tenant = None) -> Response:
    return await _answer(request, Kind, lambda records, caller: records.kind(caller, name, version, tenant=tenant))


@router.post("/kinds", response_model=Kind, openapi_extra=takes(Kind))
async def register_kind(
    request: Request, check_only: Annotated[bool, Query(description="Check it and register nothing.")] = False, tenant: Tenant = None
) -> Response:
    body = await request.body()

    def step(records: AuthorizedRecords, caller: Caller) -> Kind:
        return records.register(caller, Kind.model_validate_json(body), check_only=check_only, tenant=tenant)

    return await _answer(request, Kind, step)


def _window(start: str | None, end: str | None) -> Window | None:
    return None if start is None and end is None else Window.model_validate({"start": start, "end": end})
