"""Control as a query process sees it: pins, and the lines of queries that have ended."""

from typing import TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from tracelake import wire_json
from tracelake.kept_connections import Answered, KeptConnections, NoAnswer
from tracelake_sdk.errors import TracelakeError, Unavailable
from tracelake_sdk.queries import AdmitRequest, Admitted, Pinned, PinRequest, Released, ReleaseRequest, Renewed, RenewRequest

_Answer = TypeVar("_Answer", bound=BaseModel)

_ANSWER_SECONDS = 30.0


class ControlClient:
    """An error of control is raised as its own class; one that does not answer as Unavailable."""

    def __init__(self, api_url: str, token: str) -> None:
        self._connections: KeptConnections = KeptConnections(api_url.rstrip("/") + "/internal/pins", seconds=_ANSWER_SECONDS)
        self._headers: dict[str, str] = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def admit(self, caller: str) -> None:
        """Raises Unauthenticated or Forbidden for a token that may ask no query."""
        self._post("/admit", AdmitRequest(caller=caller), Admitted)

    def take(self, request: PinRequest) -> Pinned:
        return self._post("", request, Pinned)

    def renew(self, pins: list[UUID]) -> Renewed:
        return self._post("/renew", RenewRequest(pins=pins), Renewed)

    def release(self, request: ReleaseRequest) -> Released:
        """Sent again where the answer was lost: of a pin it changes nothing the second time."""
        return self._post("/release", request, Released)

    def close(self) -> None:
        self._connections.close()

    def _post(self, path: str, request: BaseModel, answer: type[_Answer]) -> _Answer:
        try:
            answered = self._connections.post(path, request.model_dump_json().encode(), self._headers)
        except NoAnswer as error:
            raise Unavailable(f"Control does not answer the query process ({error}); try again shortly.", retry_after=1) from None
        if answered.status != 200:
            raise _problem(answered)
        try:
            return answer.model_validate_json(answered.body)
        except ValidationError:
            raise TracelakeError("Control's answer is not valid; run query processes of the same release as control.") from None


def _problem(answered: Answered) -> TracelakeError:
    if answered.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            problem = wire_json.decode(answered.body)
        except wire_json.JSONDecodeError:
            problem = None
        if isinstance(problem, dict):
            return TracelakeError.of({str(key): value for key, value in problem.items()})
    return Unavailable(f"Control answered the query process with {answered.status}; try again shortly.", retry_after=1)
