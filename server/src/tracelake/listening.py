"""Long answers for as long as somebody listens: the work is done in a thread, and learns when the client has disconnected."""

import asyncio
from collections.abc import Callable

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response


async def answer_while_listening(request: Request, work: Callable[[], Response], *, hung_up: Callable[[], None], limiter: anyio.CapacityLimiter) -> Response:
    """The request's body has been read. `hung_up` returns at once; the work comes to its own end after it."""
    watching = asyncio.create_task(_watch(request, hung_up))
    try:
        return await anyio.to_thread.run_sync(work, limiter=limiter)
    finally:
        watching.cancel()


async def _watch(request: Request, hung_up: Callable[[], None]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    hung_up()
