"""HTTP between the processes of one system over connections that are kept open: one question and one whole answer at a time."""

import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

_MOST_KEPT = 32


class NoAnswer(Exception):
    """Nobody answered, or not wholly; the question may have arrived."""


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]  # names in lowercase letters
    body: bytes


class Question:
    """One question, which another thread may break off; whoever asks it then gets NoAnswer."""

    def __init__(self) -> None:
        self._lock: threading.Lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_broken_off: bool = False

    def break_off(self) -> None:
        with self._lock:
            self._is_broken_off = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def asked_on(self, connection: HTTPConnection) -> None:
        """Raises NoAnswer where it was broken off before."""
        if connection.sock is None:
            connection.connect()
        with self._lock:
            if self._is_broken_off:
                raise NoAnswer("broken off")
            self._socket = connection.sock

    def is_answered(self) -> None:
        """The connection is no longer this question's."""
        with self._lock:
            self._socket = None


class KeptConnections:
    """To one address. What is asked must bear being asked twice: a connection that was closed meanwhile is noticed only by asking."""

    def __init__(self, url: str, *, seconds: float) -> None:
        parts = urlsplit(url)
        self._host: str = parts.hostname or ""
        self._port: int | None = parts.port
        self._path: str = parts.path.rstrip("/")
        self._seconds: float = seconds
        self._tls: ssl.SSLContext | None = ssl.create_default_context() if parts.scheme == "https" else None
        self._lock: threading.Lock = threading.Lock()
        self._kept: list[HTTPConnection] = []

    def post(self, path: str, body: bytes, headers: dict[str, str], question: Question | None = None) -> Answered:
        """Raises NoAnswer."""
        question = question or Question()
        with self._lock:
            connection = self._kept.pop() if self._kept else None
        if connection is not None:
            with suppress(NoAnswer):
                return self._ask(connection, path, body, headers, question)
        return self._ask(self._new(), path, body, headers, question)

    def close(self) -> None:
        with self._lock:
            closed, self._kept = self._kept, []
        for connection in closed:
            connection.close()

    def _new(self) -> HTTPConnection:
        if self._tls is not None:
            return HTTPSConnection(self._host, self._port, timeout=self._seconds, context=self._tls)
        return HTTPConnection(self._host, self._port, timeout=self._seconds)

    def _ask(self, connection: HTTPConnection, path: str, body: bytes, headers: dict[str, str], question: Question) -> Answered:
        try:
            question.asked_on(connection)
            connection.request("POST", self._path + path, body, headers)
            response = connection.getresponse()
            answered = Answered(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoAnswer(type(error).__name__) from None
        finally:
            question.is_answered()
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return answered

    def _keep(self, connection: HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < _MOST_KEPT:
                self._kept.append(connection)
                return
        connection.close()
