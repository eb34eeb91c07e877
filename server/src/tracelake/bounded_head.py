"""The HTTP protocol of every process that listens, with a bound on what comes before a body: the parser by itself collects a head without end."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES = 2**18  # of the request line and all headers


class BoundedHead(HttpToolsProtocol):
    _reading_head: bool = False
    _head: int = 0

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reading_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        self._reading_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._reading_head:  # a head that ended within this part was as short as one read
            self._head += len(data)
            if self._head > _MOST_BYTES and not self.transport.is_closing():
                self.send_400_response("The request line and headers are too long.")
