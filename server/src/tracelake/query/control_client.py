"""Control as a query process sees it: pins, and the lines of queries that have ended."""

import ssl
from typing import TypeVar
from uuid import UUID

import httpx2
from pydantic import BaseModel, ValidationError

from tracelake_sdk.errors import TracelakeError, Unavailable
from tracelake_sdk.queries import Pinned, PinRequest, Released, ReleaseRequest, Renewed, RenewRequest

_Answer = TypeVar("_Answer", bound=BaseModel)

_TIMEOUT = httpx2.Timeout(30, connect=5)


class ControlClient:
    """An error of control is raised as its own class; one that does not answer as Unavailable."""

    def __init__(self, api_url: str, token: str) -> None:
        self._url: str = api_url.rstrip("/") + "/internal/pins"
        tls = httpx2.create_ssl_context() if api_url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30)
        self._client: httpx2.Client = httpx2.Client(headers=headers, limits=limits, timeout=_TIMEOUT, verify=tls, trust_env=False)

    def take(self, request: PinRequest) -> Pinned:
        return self._post("", request, Pinned)

    def renew(self, pins: list[UUID]) -> Renewed:
        return self._post("/renew", RenewRequest(pins=pins), Renewed)

    def release(self, request: ReleaseRequest) -> Released:
        """Sent again where the answer was lost: the same again changes nothing."""
        try:
            return self._post("/release", request, Released)
        except Unavailable:
            if request.pin is None:
                raise
            return self._post("/release", request, Released)

    def close(self) -> None:
        self._client.close()

    def _post(self, path: str, request: BaseModel, answer: type[_Answer]) -> _Answer:
        try:
            response = self._client.post(self._url + path, content=request.model_dump_json().encode())
        except httpx2.TransportError as error:
            raise Unavailable(f"Control does not answer the query process ({type(error).__name__}); try again shortly.", retry_after=1) from None
        if response.status_code != 200:
            raise _problem(response)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError:
            raise TracelakeError("Control's answer is not understood; run query processes of the same release as control.") from None


def _problem(response: httpx2.Response) -> TracelakeError:
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            problem = response.json()
        except ValueError:
            problem = None
        if isinstance(problem, dict):
            return TracelakeError.of({str(key): value for key, value in problem.items()})
    return Unavailable(f"Control answered the query process with {response.status_code}; try again shortly.", retry_after=1)
