"""A bound on request bodies, counted as they arrive, so that none is believed about its own length."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app: ASGIApp = app
        self._most: int = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = 0

        async def counted() -> Message:
            nonlocal arrived
            message = await receive()
            arrived += len(message.get("body", b""))
            if arrived > self._most:
                # The framework's own class: any other it would take for a body that cannot be parsed.
                raise HTTPException(413, f"The request is larger than {self._most // 2**20} MiB; send it in smaller parts.")
            return message

        await self._app(scope, counted, send)
