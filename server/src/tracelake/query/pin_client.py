"""The calls of a query process to control: pins, and the log of finished queries."""

from typing import TypeVar
from uuid import UUID

from pydantic import BaseModel

from tracelake.control_client import ControlClient
from tracelake_sdk.errors import NotRunning, OutcomeUnknown, Unavailable
from tracelake_sdk.queries import AdmitRequest, Admitted, Pinned, PinRequest, Released, ReleaseRequest, Renewed, RenewRequest

_Answer = TypeVar("_Answer", bound=BaseModel)

_ANSWER_SECONDS = 30.0


class PinClient:
    """An error of control is raised as its own class; no answer is raised as Unavailable, which the client of the query may see."""

    def __init__(self, control: ControlClient) -> None:
        self._control: ControlClient = control

    def admit(self, caller: str) -> None:
        """Raises Unauthenticated or Forbidden for a token that may not run queries."""
        self._post("/admit", AdmitRequest(caller=caller), Admitted)

    def take(self, request: PinRequest) -> Pinned:
        return self._post("", request, Pinned)

    def renew(self, pins: list[UUID]) -> Renewed:
        return self._post("/renew", RenewRequest(pins=pins), Renewed)

    def release(self, request: ReleaseRequest) -> Released:
        """Sent again if the answer was lost; a second release of a pin changes nothing."""
        return self._post("/release", request, Released)

    def close(self) -> None:
        self._control.close()

    def _post(self, path: str, request: BaseModel, answer: type[_Answer]) -> _Answer:
        try:
            return self._control.post(f"/pins{path}", request, answer, seconds=_ANSWER_SECONDS, repeat=True)
        except (NotRunning, OutcomeUnknown):
            raise Unavailable("Control does not answer the query process; try again shortly.", retry_after=1) from None
