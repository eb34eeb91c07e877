"""Real sockets that answer badly: a server that speaks prepared bytes, and a relay before control that loses answers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit


def answer(status: int, body: bytes, content_type: str = "application/json", *, length: int | None = None) -> bytes:
    """An HTTP answer; with `length`, one that promises more than it holds."""
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {content_type}\r\ncontent-length: {len(body) if length is None else length}\r\n\r\n"
    return head.encode() + body


@dataclass
class Speaker:
    """Answers the n-th request with the n-th answer, and repeats the last one; `b""` closes the connection instead."""

    url: str
    answers: list[bytes]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def bodies(self) -> list[bytes]:
        return [request.partition(b"\r\n\r\n")[2] for request in self.requests]


@contextmanager
def speaking(*answers: bytes) -> Iterator[Speaker]:
    with _listening() as listener:
        speaker = Speaker(_url(listener), list(answers))

        def talk(connection: socket.socket) -> None:
            speaker.connections += 1
            while (request := _request(connection)) is not None:
                speaker.requests.append(request)
                said = speaker.answers[min(len(speaker.requests), len(speaker.answers)) - 1]
                if said:
                    connection.sendall(said)
                # Half an answer, or none, is all there will be.
                if not said or not _is_whole(said):
                    return

        _accept(listener, talk)
        yield speaker


@contextmanager
def relaying(target: str, loses: Callable[[str, int], bool]) -> Iterator[str]:
    """Passes requests on to `target` and answers back, but for those that `loses(path, number)` names: then the connection breaks."""
    host, port = urlsplit(target).hostname, urlsplit(target).port
    seen: dict[str, int] = {}

    def talk(connection: socket.socket) -> None:
        with socket.create_connection((host, port)) as control:
            while (request := _request(connection)) is not None:
                path = request.split(b" ", 2)[1].decode()
                seen[path] = seen.get(path, 0) + 1
                control.sendall(request)
                said = _message(control)
                if said is None or loses(path, seen[path]):
                    return
                connection.sendall(said)

    with _listening() as listener:
        _accept(listener, talk)
        yield _url(listener)


def _url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            yield listener
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    def serve(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):
            talk(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def _length(head: bytes) -> int:
    lines = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(lines[0].split(b":")[1]) if lines else 0


def _is_whole(message: bytes) -> bool:
    head, found, body = message.partition(b"\r\n\r\n")
    return bool(found) and len(body) >= _length(head)


def _message(connection: socket.socket) -> bytes | None:
    message = b""
    while not _is_whole(message):
        more = connection.recv(65536)
        if not more:
            return None
        message += more
    return message


_request = _message
