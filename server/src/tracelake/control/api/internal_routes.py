"""The worker contract over HTTP: platform components only, one list a call, each item with its own result.

These routes read and write bytes themselves: a batch is parsed once, in the model that names it.
"""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from tracelake.control.access.callers import Caller
from tracelake.control.api.context import Services, Serving, Worker, services_of, worker_of
from tracelake_sdk.tasks import ClaimAnswer, ClaimRequest, CompleteAnswer, CompleteRequest, HeartbeatAnswer, HeartbeatRequest, TaskPayload

router = APIRouter(prefix="/internal", tags=["internal"])


def _takes(model: type[BaseModel]) -> dict[str, object]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}


async def _in_thread(request: Request, step: Callable[[Services, Caller], BaseModel], *, waits: bool = False) -> Response:
    """Runs one step beside the event loop; a poll that waits does so in the polls' own bounded threads."""
    services = services_of(request)

    def whole() -> bytes:
        return step(services, worker_of(request)).model_dump_json().encode()

    limiter = request.app.state.polls if waits else None
    return Response(await anyio.to_thread.run_sync(whole, limiter=limiter), media_type="application/json")


def _may_wait(request: Request) -> bool:
    polls: anyio.CapacityLimiter = request.app.state.polls
    return polls.borrowed_tokens < polls.total_tokens


@router.post("/task-claim", response_model=ClaimAnswer, openapi_extra=_takes(ClaimRequest))
async def task_claim(request: Request) -> Response:
    wanted = ClaimRequest.model_validate_json(await request.body())
    waits = wanted.wait_s > 0 and _may_wait(request)
    if not waits:
        wanted = wanted.model_copy(update={"wait_s": 0})
    return await _in_thread(request, lambda services, worker: services.claims.claim(worker, wanted), waits=waits)


@router.post("/task-complete", response_model=CompleteAnswer, openapi_extra=_takes(CompleteRequest))
async def task_complete(request: Request) -> Response:
    reports = CompleteRequest.model_validate_json(await request.body())
    waits = reports.claim is not None and reports.claim.wait_s > 0 and _may_wait(request)

    def step(services: Services, worker: Caller) -> CompleteAnswer:
        results = services.completions.complete(worker, reports.items)
        if reports.claim is None:
            return CompleteAnswer.model_construct(results=results, claimed=[])
        wanted = reports.claim if waits else reports.claim.model_copy(update={"wait_s": 0})
        return CompleteAnswer.model_construct(results=results, claimed=services.claims.claim(worker, wanted).claimed)

    return await _in_thread(request, step, waits=waits)


@router.post("/heartbeat", response_model=HeartbeatAnswer, openapi_extra=_takes(HeartbeatRequest))
async def heartbeat(request: Request) -> Response:
    alive = HeartbeatRequest.model_validate_json(await request.body())
    return await _in_thread(request, lambda services, worker: services.heartbeats.beat(worker, alive))


@router.get("/task-fetch")
def task_fetch(services: Serving, worker: Worker, task_id: Annotated[UUID, Query()]) -> TaskPayload:
    return services.claims.fetch(worker, task_id)
