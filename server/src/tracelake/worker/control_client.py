"""Control as a worker sees it: claim, complete, heartbeat, post and fetch over one kept-alive connection for each calling thread."""

import ssl
import threading
from typing import TypeVar
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

    def claim(self, request: ClaimRequest) -> ClaimAnswer:
        return self._post("task-claim", request, ClaimAnswer, waits=request.wait_s)

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
        connection: httpx2.Client | None = getattr(self._of_thread, "connection", None)
        if connection is not None:
            connection.close()
            del self._of_thread.connection

    def _post(self, name: str, request: BaseModel, answer: type[_Answer], *, waits: float = 0) -> _Answer:
        return self._call("POST", name, request.model_dump_json().encode(), answer, waits=waits)

    def _call(self, method: str, name: str, body: bytes | None, answer: type[_Answer], *, waits: float) -> _Answer:
        timeout = httpx2.Timeout(_ANSWER_SECONDS + waits, connect=_CONNECT_SECONDS)
        try:
            response = self._connection().request(method, f"{self._api_url}/internal/{name}", content=body, timeout=timeout)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise NotRunning(f"Nothing answers at {self._api_url}; is control running there?") from None
        except httpx2.TransportError as error:
            raise OutcomeUnknown(f"The connection to control broke ({type(error).__name__}); what was sent may or may not have happened.") from None
        if response.status_code != 200:
            raise _problem(response)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise TracelakeError(f"Control's answer to {name} is not understood at {place}; run workers of the same release as control.") from None

    def _connection(self) -> httpx2.Client:
        connection: httpx2.Client | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_IDLE_SECONDS)
            connection = httpx2.Client(headers=self._headers, limits=limits, verify=self._tls, follow_redirects=False, trust_env=False)
            self._of_thread.connection = connection
        return connection


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
    return TracelakeError(f"Control answered {response.status_code} without saying why; look into its log.")
