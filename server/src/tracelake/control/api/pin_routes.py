"""Routes of query processes: pins, and the log entry of a finished query. They parse and write bytes themselves, in one step, like the worker's routes."""

from collections.abc import Callable
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from tracelake import wire_json
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.api.bodies import takes
from tracelake.control.api.context import Services, as_user, query_process_of, services_of
from tracelake.control.api.guarded_routes import QueryProcessRoute
from tracelake_sdk.queries import AdmitRequest, Admitted, Pinned, PinRequest, Released, ReleaseRequest, Renewed, RenewRequest

router = APIRouter(prefix="/internal/pins", tags=["internal"], route_class=QueryProcessRoute)


async def _answer(request: Request, step: Callable[[Services, bytes], Any]) -> Response:
    body = await request.body()

    def whole() -> bytes:
        query_process_of(request)
        answered = step(services_of(request), body)
        return answered.model_dump_json().encode() if isinstance(answered, BaseModel) else wire_json.encode(answered)

    return Response(await anyio.to_thread.run_sync(whole), media_type="application/json")


@router.post("/admit", response_model=Admitted, openapi_extra=takes(AdmitRequest))
async def admit(request: Request) -> Response:
    """Whether the caller may run queries at all: a query process refuses anyone else before it reads the query."""

    def step(services: Services, body: bytes) -> Admitted:
        _asking(services, AdmitRequest.model_validate_json(body).caller).require(Permission.READ)
        return Admitted()

    return await _answer(request, step)


@router.post("", response_model=Pinned, openapi_extra=takes(PinRequest))
async def take(request: Request) -> Response:
    """With the caller's token: datasets that the caller may not read are not pinned."""

    def step(services: Services, body: bytes) -> dict[str, Any]:
        wanted = PinRequest.model_validate_json(body)
        return services.pins.take(_asking(services, wanted.caller), wanted.names, replay_of=wanted.replay_of)

    return await _answer(request, step)


@router.post("/renew", response_model=Renewed, openapi_extra=takes(RenewRequest))
async def renew(request: Request) -> Response:
    return await _answer(request, lambda services, body: services.pins.renew(RenewRequest.model_validate_json(body).pins))


@router.post("/release", response_model=Released, openapi_extra=takes(ReleaseRequest))
async def release(request: Request) -> Response:
    """The query has ended: writes its log entry and releases its pin."""

    def step(services: Services, body: bytes) -> Released:
        ended = ReleaseRequest.model_validate_json(body)
        return services.pins.release(ended, _asking(services, ended.caller) if ended.caller is not None else None)

    return await _answer(request, step)


def _asking(services: Services, token: str) -> Caller:
    return as_user(services.access.authenticate(token))
