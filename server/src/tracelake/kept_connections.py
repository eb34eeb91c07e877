"""HTTP between the processes of one system over connections that are kept open: one request and one whole answer at a time.

`http.client` and not httpx2: a call takes a quarter of the CPU time, and its socket is accessible, so that another thread can abort the call.
"""

import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 30.0  # an idle connection is closed before the other side closes it
_MOST_KEPT = 32


class NoAnswer(Exception):
    """There was no complete answer; the request may have arrived."""


class NotSent(NoAnswer):
    """No connection could be made; the request did not arrive."""


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]  # names in lowercase
    body: bytes


class Call:
    """One call, which another thread may abort; the caller then gets NoAnswer."""

    def __init__(self) -> None:
        self._lock: threading.Lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_broken_off: bool = False

    def break_off(self) -> None:
        with self._lock:
            self._is_broken_off = True
            if self._socket is not None:
                # Closing a socket does not wake the thread that reads from it; shutting it down does. Not by a TLS socket's own method, which sends a close message first.
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def begins_on(self, connection: HTTPConnection) -> None:
        """Raises NoAnswer if the call was already aborted."""
        with self._lock:
            if self._is_broken_off:
                raise NoAnswer("the call was aborted")
            self._socket = connection.sock

    def has_ended(self) -> None:
        """The call no longer uses the connection."""
        with self._lock:
            self._socket = None


class KeptConnections:
    """Connections to one address, for any number of threads. A call is one try, unless it may be repeated."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host: str = parts.hostname or ""
        self._port: int | None = parts.port
        self._path: str = parts.path.rstrip("/")
        self._tls: ssl.SSLContext | None = ssl.create_default_context() if parts.scheme == "https" else None
        self._lock: threading.Lock = threading.Lock()
        self._kept: list[tuple[HTTPConnection, float]] = []  # with the time since which each is idle
        self._closed: bool = False

    def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], *, seconds: float, call: Call | None = None, repeat: bool = False
    ) -> Answered:
        """Raises NotSent or NoAnswer.

        With `repeat`, a call that fails on a kept connection is tried once more on a new one: only the try shows that the other side has closed the connection.
        """

        def ask(connection: HTTPConnection) -> Answered:
            return self._ask(connection, method, path, body, headers, seconds, call or Call())

        kept = self._idle()
        try:
            return ask(kept or self._new())
        except NoAnswer:
            if kept is None or not repeat:
                raise
        try:
            return ask(self._new())
        except NotSent as error:
            raise NoAnswer(str(error)) from None  # the first try may have arrived

    def close(self) -> None:
        """Closes idle connections and keeps none from now on; calls in flight are finished."""
        with self._lock:
            self._closed = True
            closed, self._kept = self._kept, []
        for connection, _ in closed:
            connection.close()

    def _idle(self) -> HTTPConnection | None:
        """The most recently used one; connections that are too old or closed by the other side are closed."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                connection, since = self._kept.pop()
            if time.monotonic() - since < _IDLE_SECONDS and _is_silent(connection):
                return connection
            connection.close()

    def _new(self) -> HTTPConnection:
        if self._tls is not None:
            return HTTPSConnection(self._host, self._port, timeout=_CONNECT_SECONDS, context=self._tls)
        return HTTPConnection(self._host, self._port, timeout=_CONNECT_SECONDS)

    def _ask(
        self, connection: HTTPConnection, method: str, path: str, body: bytes | None, headers: Mapping[str, str], seconds: float, call: Call
    ) -> Answered:
        try:
            _open(connection, seconds)
            call.begins_on(connection)
            connection.request(method, self._path + path, body, dict(headers))
            answered = _read(connection.getresponse())
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoAnswer(type(error).__name__) from None
        except NoAnswer:
            connection.close()
            raise
        finally:
            call.has_ended()
        self._keep(connection)
        return answered

    def _keep(self, connection: HTTPConnection) -> None:
        """A connection that the answer closed no longer has a socket."""
        with self._lock:
            if connection.sock is not None and not self._closed and len(self._kept) < _MOST_KEPT:
                self._kept.append((connection, time.monotonic()))
                return
        connection.close()


def _open(connection: HTTPConnection, seconds: float) -> None:
    try:
        opened = connection.sock or _connected(connection)
    except OSError as error:
        connection.close()
        raise NotSent(type(error).__name__) from None
    opened.settimeout(seconds)


def _connected(connection: HTTPConnection) -> socket.socket:
    connection.connect()
    return connection.sock


def _read(response: HTTPResponse) -> Answered:
    """Raises NoAnswer if the answer may be incomplete: `http.client` accepts half a head as a head without a length."""
    if response.length is None and not response.chunked:
        raise NoAnswer("an answer without a length")
    return Answered(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def _is_silent(connection: HTTPConnection) -> bool:
    """Whether nothing can be read: the server never sends first, so a readable idle connection has been closed."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)
