"""Queries over HTTP: forwarded to a query process; receipts, replay, and saved queries."""

from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

import anyio
from fastapi import APIRouter, Path, Request, Response

from tracelake.control.access.callers import Caller
from tracelake.control.api.bodies import parsed, takes
from tracelake.control.api.context import Services, Serving, User, services_of, user_of
from tracelake.control.api.guarded_routes import UserRoute
from tracelake.control.api.paging import Limit, Token, id_of
from tracelake.kept_connections import Call
from tracelake.listening import answer_while_listening
from tracelake_sdk.errors import TooManyQueries
from tracelake_sdk.pages import Page
from tracelake_sdk.queries import MORE_HEADER, RECEIPT_HEADER, QueryAnswer, QueryRequest, QueryRun, ReplayRequest, SavedQuery, SaveQuery

router = APIRouter(prefix="/v1", tags=["queries"], route_class=UserRoute)

_KEPT = ("content-type", RECEIPT_HEADER.lower(), MORE_HEADER.lower(), "retry-after")
Name = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_]{0,127}$")]


async def _forward(request: Request, body_of: Callable[[Services, Caller], dict[str, Any]]) -> Response:
    """Uses a bounded set of threads; beyond the bound it refuses at once. A client that disconnects ends the query."""
    limiter: anyio.CapacityLimiter = request.app.state.queries
    if limiter.borrowed_tokens >= limiter.total_tokens:
        raise TooManyQueries(retry_after=1)

    call = Call()

    def forward() -> Response:
        services = services_of(request)
        answered = services.forwarding.forward(request.headers["authorization"], body_of(services, user_of(request)), call)
        return Response(answered.body, status_code=answered.status, headers={name: answered.headers[name] for name in _KEPT if name in answered.headers})

    return await answer_while_listening(request, forward, hung_up=call.break_off, limiter=limiter)


@router.post("/query", response_model=QueryAnswer, openapi_extra=takes(QueryRequest))
async def query(request: Request) -> Response:
    """One SELECT over published datasets that the caller may read; the receipt contains the versions it read and the hash of the rows."""
    body = await request.body()
    return await _forward(request, lambda services, user: QueryRequest.model_validate_json(body).model_dump(mode="json"))


@router.post("/queries/{id}/replay", response_model=QueryAnswer, openapi_extra=takes(ReplayRequest))
async def replay(request: Request, id: UUID) -> Response:
    """The same statement on the same versions; the answer says whether the rows are the same."""
    body = await request.body()

    def body_of(services: Services, user: Caller) -> dict[str, Any]:
        wanted = ReplayRequest.model_validate_json(body or b"{}")
        return {"sql": services.receipts.to_replay(user, id, wanted.sql), "format": wanted.format, "replay_of": str(id)}

    return await _forward(request, body_of)


@router.get("/queries")
def queries(services: Serving, user: User, limit: Limit = 50, token: Token = None) -> Page[QueryRun]:
    """The caller's own queries, newest first; admins and auditors see all queries, without the statements."""
    return services.receipts.list_runs(user, before=id_of(token), limit=limit)


@router.get("/queries/{id}")
def query_run(services: Serving, user: User, id: UUID) -> QueryRun:
    return services.receipts.get(user, id)


@router.get("/saved-queries")
def saved_queries(services: Serving, user: User) -> list[SavedQuery]:
    return services.saved_queries.list_saved(user)


@router.get("/saved-queries/{name}")
def saved_query(services: Serving, user: User, name: Name) -> SavedQuery:
    return services.saved_queries.get(user, name)


@router.put("/saved-queries/{name}", openapi_extra=takes(SaveQuery))
def save_query(services: Serving, user: User, name: Name, body: Annotated[SaveQuery, parsed(SaveQuery)]) -> SavedQuery:
    return services.saved_queries.save(user, name, body.sql, body.description)


@router.delete("/saved-queries/{name}", status_code=204)
def forget_query(services: Serving, user: User, name: Name) -> None:
    services.saved_queries.forget(user, name)
