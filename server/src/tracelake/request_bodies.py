"""Reads request bodies within limits on size, on time, and on the memory of all bodies together; used by every HTTP server."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.types import Message

from tracelake_sdk.errors import BodyTooSlow, Busy, Malformed, TooLarge

_KIB, _MIB = 2**10, 2**20


class BodyMemory:
    """The bytes of bodies that a process holds at a time: those that arrive, and those of requests that are being handled.

    Received bytes count, not the announced length, which costs the sender nothing. Used only on the event loop.
    """

    def __init__(self, most: int) -> None:
        self._most: int = most
        self.held: int = 0

    @contextmanager
    def holding(self, share: float = 1) -> Generator["HeldBody"]:
        """The memory of one body, until its request is handled or the client disconnects. `share` is the part of the memory that this kind of request may fill."""
        body = HeldBody(self, int(self._most * share))
        try:
            yield body
        finally:
            self.held -= body.size


class HeldBody:
    def __init__(self, memory: BodyMemory, room: int) -> None:
        self._memory: BodyMemory = memory
        self._room: int = room
        self.size: int = 0

    def grow(self, size: int) -> None:
        """Raises Busy if the memory for bodies is used up."""
        if self._memory.held + size > self._room:
            raise Busy(retry_after=1)
        self._memory.held += size
        self.size += size


async def read_body(request: Request, *, most: int, seconds: float, held: HeldBody) -> bytes:
    """All of it; raises Malformed, TooLarge, BodyTooSlow or Busy. A length beyond the limit is refused before anything is read."""
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise Malformed(f"The body is encoded as {encoding[:32]!r}; send plain JSON without Content-Encoding.")
    if (_length(request) or 0) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:  # counted as it arrives: a chunked body does not announce its length
                    raise _too_large(most)
                held.grow(len(part))
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {seconds:g} seconds; send it in smaller parts or over a faster connection.") from None
    return bytes(body)


def unread(request: Request) -> float:
    """How many bytes of body the request announces; infinite if it does not say."""
    return float("inf") if "transfer-encoding" in request.headers else _length(request) or 0


def with_body(request: Request, body: bytes) -> Request:
    """The same request for a handler that reads the body itself; after the body, the handler receives the messages of the connection."""
    handed_over = False

    async def receive() -> Message:
        nonlocal handed_over
        if handed_over:
            return await request.receive()
        handed_over = True
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


def _length(request: Request) -> int | None:
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else None


def _too_large(most: int) -> TooLarge:
    size = f"{most // _MIB} MiB" if most >= _MIB else f"{most // _KIB} KiB"
    return TooLarge(f"The request is larger than {size}, the limit; send it in smaller parts.")
