"""What query processes call: pins, and the line of a query that has ended. They read and write bytes themselves, as the worker's routes do."""

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from tracelake.control.access.callers import Caller
from tracelake.control.api.context import QueryProcess, Serving, services_of
from tracelake_sdk.access import TokenKind
from tracelake_sdk.errors import Forbidden
from tracelake_sdk.queries import Pinned, PinRequest, Released, ReleaseRequest, Renewed, RenewRequest

router = APIRouter(prefix="/internal/pins", tags=["internal"])


@router.post("", response_model=Pinned)
def take(request: Request, services: Serving, process: QueryProcess, body: PinRequest) -> Response:
    """With the token of whoever asks: what that may not read is not pinned."""
    taken = services.pins.take(_asking(request, body.caller), body.names, replay_of=body.replay_of)
    return Response(orjson.dumps(taken), media_type="application/json")


@router.post("/renew")
def renew(services: Serving, process: QueryProcess, body: RenewRequest) -> Renewed:
    return services.pins.renew(body.pins)


@router.post("/release")
def release(request: Request, services: Serving, process: QueryProcess, body: ReleaseRequest) -> Released:
    """The query has ended: its line is written, and its pin is given back."""
    return services.pins.release(body, _asking(request, body.caller) if body.caller is not None else None)


def _asking(request: Request, token: str) -> Caller:
    caller = services_of(request).access.authenticate(token)
    if caller.kind is TokenKind.WORKER:
        raise Forbidden("A worker token only claims and completes tasks; use a user's or a service's token here.")
    return caller


def takes(model: type[BaseModel]) -> dict[str, object]:
    """What the page of the API says of a body that a route parses itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
