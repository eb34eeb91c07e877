"""The worker contract over HTTP: platform components only, one list per call, each item with its own result.

These routes read and write bytes themselves: a batch is parsed once, in the model that names it.
"""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

import anyio
import anyio.to_thread
import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from tracelake import wire_json
from tracelake.control.access.callers import Caller
from tracelake.control.api.bodies import takes
from tracelake.control.api.context import Services, Serving, Worker, services_of, worker_of
from tracelake.control.api.guarded_routes import WorkerRoute
from tracelake.control.tasks.claims.long_polls import Poll
from tracelake.listening import answer_while_listening
from tracelake_sdk.tasks import (
    ClaimAnswer,
    ClaimRequest,
    CompleteAnswer,
    CompleteRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    PostAnswer,
    PostRequest,
    TaskPayload,
)

router = APIRouter(prefix="/internal", tags=["internal"], route_class=WorkerRoute)


async def _in_thread(request: Request, step: Callable[[Services, Caller], object]) -> Response:
    """Runs one step outside the event loop, in the framework's threads."""
    return await anyio.to_thread.run_sync(_answer, request, step)


async def _in_polls_thread(request: Request, poll: Poll, step: Callable[[Services, Caller], object]) -> Response:
    """Runs a step that waits in the polls' own bounded threads, and ends its wait when the caller hangs up."""
    return await answer_while_listening(request, lambda: _answer(request, step), hung_up=poll.hang_up, limiter=request.app.state.polls)


def _answer(request: Request, step: Callable[[Services, Caller], object]) -> Response:
    spelt = wire_json.encode(step(services_of(request), worker_of(request)), default=_as_json)
    return Response(spelt, media_type="application/json")


def _as_json(part: object) -> orjson.Fragment:
    """Models serialize themselves."""
    if isinstance(part, BaseModel):
        return orjson.Fragment(part.model_dump_json())
    raise TypeError(f"{type(part).__name__} cannot be sent over the wire")


def _may_wait(request: Request) -> bool:
    polls: anyio.CapacityLimiter = request.app.state.polls
    return polls.borrowed_tokens < polls.total_tokens


@router.post("/task-claim", response_model=ClaimAnswer, openapi_extra=takes(ClaimRequest))
async def task_claim(request: Request) -> Response:
    wanted = ClaimRequest.model_validate_json(await request.body())  # small, and it decides which thread does the rest
    if wanted.wait_s > 0 and _may_wait(request):
        poll = Poll()
        return await _in_polls_thread(request, poll, lambda services, worker: {"claimed": services.tasks.claims.claim(worker, wanted, poll=poll)})
    at_once = wanted.model_copy(update={"wait_s": 0})
    return await _in_thread(request, lambda services, worker: {"claimed": services.tasks.claims.claim(worker, at_once)})


@router.post("/task-complete", response_model=CompleteAnswer, openapi_extra=takes(CompleteRequest))
async def task_complete(request: Request) -> Response:
    """A claim in it never waits, so that the worker gets the results at once."""
    body = await request.body()

    def step(services: Services, worker: Caller) -> object:
        reports = CompleteRequest.model_validate_json(body)
        results = services.tasks.joining.complete(worker, reports.items)
        claimed = services.tasks.claims.claim(worker, reports.claim.model_copy(update={"wait_s": 0})) if reports.claim else []
        return {"results": results, "claimed": claimed}

    return await _in_thread(request, step)


@router.post("/events", response_model=PostAnswer, openapi_extra=takes(PostRequest))
async def events(request: Request) -> Response:
    """Finished batches of running tasks: each becomes a task that adopts it."""
    body = await request.body()
    return await _in_thread(request, lambda services, worker: {"results": services.tasks.posting.post(worker, PostRequest.model_validate_json(body).batches)})


@router.post("/heartbeat", response_model=HeartbeatAnswer, openapi_extra=takes(HeartbeatRequest))
async def heartbeat(request: Request) -> Response:
    body = await request.body()
    return await _in_thread(request, lambda services, worker: services.tasks.heartbeats.beat(worker, HeartbeatRequest.model_validate_json(body)))


@router.get("/task-fetch", response_model=TaskPayload)
def task_fetch(services: Serving, worker: Worker, task_id: Annotated[UUID, Query()]) -> Response:
    return Response(wire_json.encode(services.tasks.claims.fetch(worker, task_id)), media_type="application/json")
