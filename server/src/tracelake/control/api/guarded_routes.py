"""Routes that know their caller first: the token is judged from the headers, and only then the body is read, within the limit of its route."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

import anyio.to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from tracelake.control.access.callers import Caller
from tracelake.control.api.bodies import LIMITS, SMALL
from tracelake.control.api.context import as_query_process, as_user, as_worker, caller_of, remembered_caller_of
from tracelake.control.api.problems import answer
from tracelake.request_bodies import read_body, unread, with_body
from tracelake_sdk.errors import BodyTooSlow, TracelakeError

_DISCARDED = 2**20  # bytes of a refused request's body that the server skips; beyond it, it closes the connection


class GuardedRoute(APIRoute):
    """Answers a caller that may not call at all before a byte of its body is read."""

    admit: ClassVar[Callable[[Caller], Caller]]  # raises Forbidden

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        most = LIMITS.get(self.path_format, SMALL)
        admit = type(self).admit

        async def guarded(request: Request) -> Response:
            try:
                # What was remembered a moment ago costs no thread.
                admit(remembered_caller_of(request) or await anyio.to_thread.run_sync(caller_of, request))
                body = await read_body(request, most=most, seconds=request.app.state.body_seconds)
            except TracelakeError as error:
                return _refusal(error, close=isinstance(error, BodyTooSlow) or unread(request) > _DISCARDED)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody hears it
            return await handle(with_body(request, body))

        return guarded


class UserRoute(GuardedRoute):
    admit = staticmethod(as_user)


class WorkerRoute(GuardedRoute):
    admit = staticmethod(as_worker)


class QueryProcessRoute(GuardedRoute):
    admit = staticmethod(as_query_process)


def _refusal(error: TracelakeError, *, close: bool) -> Response:
    response = answer(error)
    if close:
        response.headers["Connection"] = "close"
    return response
