"""A TCP relay to a server: it forwards bytes until a test closes all connections or refuses new ones."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from urllib.parse import urlsplit


class Relay:
    def __init__(self, to_url: str) -> None:
        there = urlsplit(to_url)
        self._there: tuple[str, int] = (there.hostname or "", there.port or 80)
        self._listening: socket.socket = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock: threading.Lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.passes: bool = True
        self.came: int = 0  # connections, those too that were turned away
        self.url: str = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._begin(self._accept)

    def cut(self) -> None:
        """Ends all that is open; who comes again is let through or not."""
        with self._lock:
            for connection in self._open:
                _end(connection)

    def close(self) -> None:
        self.passes = False
        _end(self._listening)
        self.cut()
        for thread in self._threads:
            thread.join(timeout=20)
        self._listening.close()

    def _begin(self, does: Callable[[], None]) -> None:
        thread = threading.Thread(target=does, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return  # closed
            self.came += 1
            if not self.passes:
                here.close()
                continue
            there = socket.create_connection(self._there)
            with self._lock:
                self._open |= {here, there}
            self._begin(partial(self._carry, here, there))

    def _carry(self, here: socket.socket, there: socket.socket) -> None:
        back = threading.Thread(target=_pump, args=(there, here), daemon=True)
        back.start()
        _pump(here, there)
        back.join()
        with self._lock:
            self._open -= {here, there}
        here.close()
        there.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _end(sink)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(to_url: str) -> Iterator[Relay]:
    relay = Relay(to_url)
    try:
        yield relay
    finally:
        relay.close()
