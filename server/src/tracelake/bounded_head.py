"""The HTTP protocol of every process that listens, with limits on size and time of the request head: the parser by itself accepts a head of any length, and waits for one
forever."""

from asyncio import TimerHandle, Transport
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES = 2**18  # of the request line and all headers


class BoundedHead(HttpToolsProtocol):
    head_seconds: ClassVar[float] = 30  # in which a head must arrive, counted from its first byte or from the start of the connection
    _reading_head: bool = False
    _head: int = 0
    _deadline: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] as uvicorn's own
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reading_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        self._reading_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Between two requests uvicorn's keep-alive is the deadline, until the first byte arrives, even if that byte does not start a head (an empty line).
        if self._deadline is None and (not self.cycle or self.cycle.response_complete):
            self._await_head()
        if self._reading_head:  # a head that ended within this part was as short as one read
            self._head += len(data)
            if self._head > _MOST_BYTES and not self.transport.is_closing():
                self.send_400_response("The request line and headers are too long.")

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def bounded_head(seconds: float) -> type[BoundedHead]:
    """The protocol with another deadline; uvicorn takes a class."""
    return type("BoundedHead", (BoundedHead,), {"head_seconds": seconds})
