"""A proxy in front of an S3 server that refuses, loses, delays and falsifies answers."""

import http.client
import socket
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.processes import LONGEST
from support.s3_servers import S3Server


class Fault(Enum):
    """What happens to one PUT."""

    NONE = "it is answered"
    LOST_BEFORE = "the connection ends before it reached the store"
    LOST_AFTER = "it landed, and the connection ends without an answer"
    ERROR_BEFORE = "500, and it did not land"
    ERROR_AFTER = "500, although it landed"
    BUSY_AFTER = "503, although it landed"
    SLOW = "it landed, and the answer comes when nobody waits any more"
    LATE = "it lands when nobody waits any more"


@dataclass
class FaultyS3:
    """A proxy; each PUT to a path that contains `about` gets the next fault, until there are no more."""

    endpoint: str
    about: str = "_delta_log"
    refuses: str | None = None  # every request to a path that contains it is answered with 503 and goes no further; all where it is empty
    read_only: bool = False     # every request that writes is answered with 403 and goes no further
    refused_writes: int = 0
    faults: deque[Fault] = field(default_factory=deque)
    met: list[Fault] = field(default_factory=list)
    landed: list[int] = field(default_factory=list)  # the store's own answers to those PUTs
    patience: threading.Event = field(default_factory=threading.Event)  # set it when no request waits

    def next_fault(self) -> Fault:
        fault = self.faults.popleft() if self.faults else Fault.NONE
        self.met.append(fault)
        return fault


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.upstream = upstream.removeprefix("http://")
        self.faulty = FaultyS3(f"http://127.0.0.1:{self.server_port}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what this is for."""


class _ProxyHandler(BaseHTTPRequestHandler):
    server: _Proxy  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=LONGEST)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # with its Host, which is signed
                upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = {name.lower(): value for name, value in headers}.get("content-length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _body(self) -> bytes:
        """As it came: in chunks, where the sender did not know its length."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while line := self.rfile.readline():
            body += line
            length = int(line.partition(b";")[0], 16)
            if length == 0:
                break
            body += self.rfile.read(length + 2)
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            body += line
        return body + b"\r\n"

    def _handle(self) -> None:
        body = self._body()
        faulty = self.server.faulty
        if faulty.refuses is not None and faulty.refuses in self.path:
            self._answer(503, [], b"")
            return
        if faulty.read_only and self.command not in ("GET", "HEAD"):
            faulty.refused_writes += 1
            self._answer(403, [], b"<Error><Code>AccessDenied</Code></Error>")
            return
        if self.command != "PUT" or faulty.about not in self.path:
            self._answer(*self._forward(body))
            return
        match faulty.next_fault():
            case Fault.NONE:
                answer = self._forward(body)
                faulty.landed.append(answer[0])
                self._answer(*answer)
            case Fault.LOST_BEFORE:
                self._hang_up()
            case Fault.ERROR_BEFORE:
                self._answer(500, [], b"")
            case Fault.LATE:
                faulty.patience.wait(LONGEST)
                faulty.landed.append(self._forward(body)[0])
                self._hang_up()
            case after:
                faulty.landed.append(self._forward(body)[0])
                match after:
                    case Fault.ERROR_AFTER:
                        self._answer(500, [], b"")
                    case Fault.BUSY_AFTER:
                        self._answer(503, [], b"")
                    case Fault.SLOW:
                        faulty.patience.wait(LONGEST)
                        self._hang_up()
                    case _:
                        self._hang_up()

    def __getattr__(self, name: str) -> Any:
        """Every method is handled alike."""
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        """Not to stderr."""


@contextmanager
def faulty_s3(server: S3Server) -> Generator[FaultyS3]:
    with _Proxy(server.endpoint) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy.faulty
        finally:
            proxy.faulty.patience.set()
            proxy.shutdown()
            thread.join(timeout=10)
