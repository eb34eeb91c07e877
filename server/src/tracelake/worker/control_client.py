"""Control as a worker sees it: claim, complete, heartbeat, post and fetch over one kept-alive connection for each calling thread."""

import socket
import ssl
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from uuid import UUID

import httpx2
from pydantic import BaseModel, ValidationError

from tracelake_sdk.errors import NotRunning, OutcomeUnknown, TracelakeError, Unavailable
from tracelake_sdk.tasks import (
    ClaimAnswer,
    ClaimRequest,
    CompleteAnswer,
    CompleteRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    PostAnswer,
    PostRequest,
    TaskPayload,
)

_Answer = TypeVar("_Answer", bound=BaseModel)

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 60.0   # beyond what a poll itself waits
_IDLE_SECONDS = 30.0     # an idle connection is given up before control does so
_AWAY = frozenset({429, 502, 503, 504})


class ControlClient:
    """Each call is one try. An error of control is raised as its own class, `NotRunning` means that nothing was sent,
    and `OutcomeUnknown` that it was sent and no whole answer came back."""

    def __init__(self, api_url: str, token: str) -> None:
        self._api_url: str = api_url.rstrip("/")
        self._headers: dict[str, str] = {"authorization": f"Bearer {token}", "content-type": "application/json", "accept": "application/json"}
        # Read once, not for each connection; without TLS, one that trusts nobody.
        self._tls: ssl.SSLContext = httpx2.create_ssl_context() if api_url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._of_thread: threading.local = threading.local()
        self._polling: set[_Connection] = set()
        self._hung_up: bool = False
        self._lock: threading.Lock = threading.Lock()

    def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Raises NotRunning for one that would wait after `hang_up()`."""
        if request.wait_s == 0:
            return self._post("task-claim", request, ClaimAnswer)
        with self._poll():
            return self._post("task-claim", request, ClaimAnswer, waits=request.wait_s)

    def hang_up(self) -> None:
        """Ends all polls in flight, and every later one: control sees at once that nobody waits for a task here."""
        with self._lock:
            self._hung_up = True
            polling = list(self._polling)
        for connection in polling:
            connection.break_off()

    def complete(self, request: CompleteRequest) -> CompleteAnswer:
        return self._post("task-complete", request, CompleteAnswer, waits=request.claim.wait_s if request.claim else 0)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        return self._post("heartbeat", request, HeartbeatAnswer)

    def post(self, request: PostRequest) -> PostAnswer:
        """Stores finished batches of running attempts."""
        return self._post("events", request, PostAnswer)

    def fetch(self, task_id: UUID) -> TaskPayload:
        return self._call("GET", f"task-fetch?task_id={task_id}", None, TaskPayload, waits=0)

    def close(self) -> None:
        """Closes the calling thread's connection."""
        connection: _Connection | None = getattr(self._of_thread, "connection", None)
        if connection is not None:
            connection.client.close()
            del self._of_thread.connection

    @contextmanager
    def _poll(self) -> Generator[None]:
        connection = self._connection()
        with self._lock:
            if self._hung_up:
                raise NotRunning("This worker is stopping and claims no more tasks.")
            self._polling.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._polling.discard(connection)
            connection.breaking = False

    def _post(self, name: str, request: BaseModel, answer: type[_Answer], *, waits: float = 0) -> _Answer:
        return self._call("POST", name, request.model_dump_json().encode(), answer, waits=waits)

    def _call(self, method: str, name: str, body: bytes | None, answer: type[_Answer], *, waits: float) -> _Answer:
        timeout = httpx2.Timeout(_ANSWER_SECONDS + waits, connect=_CONNECT_SECONDS)
        try:
            response = self._connection().request(method, f"{self._api_url}/internal/{name}", body, timeout)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise NotRunning(f"Nothing answers at {self._api_url}; is control running there?") from None
        except httpx2.TransportError as error:
            raise OutcomeUnknown(f"The connection to control broke ({type(error).__name__}); the request may or may not have taken effect.") from None
        if response.status_code != 200:
            raise _problem(response)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise TracelakeError(f"Control's answer to {name} is not valid at {place}; run workers of the same release as control.") from None

    def _connection(self) -> "_Connection":
        connection: _Connection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_IDLE_SECONDS)
            client = httpx2.Client(headers=self._headers, limits=limits, verify=self._tls, follow_redirects=False, trust_env=False)
            connection = self._of_thread.connection = _Connection(client)
        return connection


class _Connection:
    """One thread's connection, which another thread can break off."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client: httpx2.Client = client
        self.breaking: bool = False  # until the request in flight has ended
        self._socket: socket.socket | None = None

    def request(self, method: str, url: str, body: bytes | None, timeout: httpx2.Timeout) -> httpx2.Response:
        return self.client.request(method, url, content=body, timeout=timeout, extensions={"trace": self._trace})

    def break_off(self) -> None:
        self.breaking = True
        if self._socket is not None:
            # Closing a socket does not wake the thread that reads from it; shutting it down does. Not by a TLS socket's own method, which says goodbye first.
            with suppress(OSError):  # closed already
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _trace(self, event: str, values: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = values["return_value"].get_extra_info("socket")
            if self.breaking:
                self.break_off()


def _problem(response: httpx2.Response) -> TracelakeError:
    """The error behind an answer that is not 200, also where something between us and control wrote it."""
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            problem = response.json()
        except ValueError:
            problem = None
        if isinstance(problem, dict):
            return TracelakeError.of({str(key): value for key, value in problem.items()})
    if response.status_code in _AWAY:
        return Unavailable(f"Control answered {response.status_code}; try again shortly.")
    return TracelakeError(f"Control answered {response.status_code} without a reason; see its log.")
