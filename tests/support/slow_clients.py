"""A client over a bare socket, for requests whose body comes late, in parts, or never."""

import json
import socket
from contextlib import suppress

HUGE = 24 * 2**20  # of a body, in bytes


class Connection:
    """A client that sends what it wants, when it wants."""

    def __init__(self, api_url: str) -> None:
        host, port = api_url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def head(self, method: str, path: str, *headers: str) -> None:
        self.socket.sendall("\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *headers, "", ""]).encode())

    def answer(self) -> tuple[int, dict[str, str], dict[str, object]]:
        """Status, headers and problem of the next answer."""
        read = self.socket.makefile("rb")
        status = int(read.readline().split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.decode().partition(":") for line in iter(read.readline, b"\r\n"))}
        return status, headers, json.loads(read.read(int(headers["content-length"])))

    def sends_until_it_is_closed(self) -> int:
        """How much of a huge body the other side let in."""
        sent = 0
        with suppress(OSError):
            while sent < HUGE:
                sent += self.socket.send(b"[" * 65_536)
        return sent
