"""A bound on request bodies, counted as they arrive, so that none is believed about its own length."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracelake.control.api.problems import answer
from tracelake_sdk.errors import TooLarge


class _TooMuch(Exception):
    """More than the bound has arrived."""


class BodyLimit:
    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app: ASGIApp = app
        self._most: int = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        arrived = 0

        async def counted() -> Message:
            nonlocal arrived
            message = await receive()
            arrived += len(message.get("body", b""))
            if arrived > self._most:
                raise _TooMuch
            return message

        try:
            await self._app(scope, counted, send)
        except _TooMuch:
            await answer(TooLarge(f"The request is larger than {self._most // 2**20} MiB; send it in smaller parts."))(scope, receive, send)
