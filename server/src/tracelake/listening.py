"""Long requests that stop when the client disconnects: the work runs in a thread and is notified of the disconnect."""

import asyncio
from collections.abc import Callable

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response


async def answer_while_listening(request: Request, work: Callable[[], Response], *, hung_up: Callable[[], None], limiter: anyio.CapacityLimiter) -> Response:
    """Call it after the request's body was read. `hung_up` must return at once; the work then ends by itself."""
    watching = asyncio.create_task(_watch(request, hung_up))
    try:
        return await anyio.to_thread.run_sync(work, limiter=limiter)
    finally:
        watching.cancel()


async def _watch(request: Request, hung_up: Callable[[], None]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    hung_up()
