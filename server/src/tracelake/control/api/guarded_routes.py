"""Routes that authenticate first: the token is checked from the headers before the body is read, within the size limit of the route."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

import anyio.to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from tracelake.control.access.callers import Caller
from tracelake.control.api.bodies import LIMITS, RIGHTS, SMALL
from tracelake.control.api.context import as_query_process, as_scraper, as_user, as_worker, caller_of, remembered_caller_of, scraper_of
from tracelake.control.api.problems import answer
from tracelake.request_bodies import BodyMemory, read_body, unread, with_body
from tracelake_sdk.errors import BodyTooSlow, Busy, TracelakeError

_WITH_BODY = {"POST", "PUT", "PATCH"}
_USERS_SHARE = 0.75  # the rest is reserved for workers and query processes: bodies of users never block a heartbeat
_DISCARDED = 2**20  # bytes of a refused request's body that the server skips; beyond it, it closes the connection


class GuardedRoute(APIRoute):
    """Refuses a caller that may not use the route before any byte of the body is read."""

    identify: ClassVar[Callable[[Request], Caller]] = staticmethod(caller_of)  # raises Unauthenticated
    admit: ClassVar[Callable[[Caller], Caller]]  # raises Forbidden
    share: ClassVar[float] = 1  # of the memory for bodies

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        most = LIMITS.get(self.path_format, SMALL)
        identify, admit, share = type(self).identify, type(self).admit, type(self).share
        right = RIGHTS.get(self.path_format) if _WITH_BODY.intersection(self.methods or ()) else None

        async def guarded(request: Request) -> Response:
            memory: BodyMemory = request.app.state.body_memory
            with memory.holding(share) as held:
                try:
                    # A cached caller needs no thread.
                    caller = admit(remembered_caller_of(request) or await anyio.to_thread.run_sync(identify, request))
                    if right is not None:
                        caller.require(right)
                    body = await read_body(request, most=most, seconds=request.app.state.body_seconds, held=held)
                except TracelakeError as error:
                    return _refusal(error, close=isinstance(error, BodyTooSlow | Busy) or unread(request) > _DISCARDED)
                except ClientDisconnect:
                    return Response(status_code=400)  # the client is gone
                return await handle(with_body(request, body))

        return guarded


class UserRoute(GuardedRoute):
    admit = staticmethod(as_user)
    share = _USERS_SHARE


class ScraperRoute(GuardedRoute):
    identify = staticmethod(scraper_of)
    admit = staticmethod(as_scraper)


class WorkerRoute(GuardedRoute):
    admit = staticmethod(as_worker)


class QueryProcessRoute(GuardedRoute):
    admit = staticmethod(as_query_process)


def _refusal(error: TracelakeError, *, close: bool) -> Response:
    response = answer(error)
    if close:
        response.headers["Connection"] = "close"
    return response
