"""Reading the body of a request within a size and a time, in every process that listens."""

import asyncio

from starlette.requests import Request
from starlette.types import Message

from tracelake_sdk.errors import BodyTooSlow, Malformed, TooLarge

_KIB, _MIB = 2**10, 2**20


async def read_body(request: Request, *, most: int, seconds: float) -> bytes:
    """All of it; raises Malformed, TooLarge or BodyTooSlow. A length beyond the limit is refused before anything is read."""
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise Malformed(f"The body is encoded as {encoding[:32]!r}; send plain JSON without Content-Encoding.")
    if (_length(request) or 0) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:  # counted as it arrives: a chunked body has not said how long it is
                    raise _too_large(most)
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {seconds:g} seconds; send it in smaller parts or over a faster connection.") from None
    return bytes(body)


def unread(request: Request) -> float:
    """How many bytes of body the request announces; infinite where it does not say."""
    return float("inf") if "transfer-encoding" in request.headers else _length(request) or 0


def with_body(request: Request, body: bytes) -> Request:
    """The same request for a handler that reads the body itself; after it, the handler hears what the caller does next."""
    handed_over = False

    async def receive() -> Message:
        nonlocal handed_over
        if handed_over:
            return await request.receive()
        handed_over = True
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


def _length(request: Request) -> int | None:
    told = request.headers.get("content-length", "")
    return int(told) if told.isascii() and told.isdecimal() else None


def _too_large(most: int) -> TooLarge:
    size = f"{most // _MIB} MiB" if most >= _MIB else f"{most // _KIB} KiB"
    return TooLarge(f"The request is larger than {size}, the most that is accepted here; send it in smaller parts.")
