"""The HTTP client of control for worker and query process: one try per call, pydantic models both ways, errors raised as their own classes."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr, ValidationError

from tracelake import wire_json
from tracelake.kept_connections import Answered, Call, KeptConnections, NoAnswer, NotSent
from tracelake_sdk.errors import NotRunning, OutcomeUnknown, SettingInvalid, TracelakeError, Unavailable
from tracelake_sdk.home import HomeFiles

_Answer = TypeVar("_Answer", bound=BaseModel)

_AWAY = frozenset({429, 502, 503, 504})


class ControlClient:
    """An error of control is raised as its own class, `NotRunning` means that nothing was sent, and `OutcomeUnknown` that it was sent and no whole
    answer came back. Every call of the internal contracts may be repeated as it is."""

    def __init__(self, api_url: str, token: str) -> None:
        self._api_url: str = api_url.rstrip("/")
        self._connections: KeptConnections = KeptConnections(f"{self._api_url}/internal")
        self._headers: Mapping[str, str] = {"authorization": f"Bearer {token}", "content-type": "application/json", "accept": "application/json"}

    def post(self, path: str, request: BaseModel, answer: type[_Answer], *, seconds: float, call: Call | None = None, repeat: bool = False) -> _Answer:
        return self._call("POST", path, request.model_dump_json().encode(), answer, seconds=seconds, call=call, repeat=repeat)

    def get(self, path: str, answer: type[_Answer], *, seconds: float) -> _Answer:
        return self._call("GET", path, None, answer, seconds=seconds, call=None, repeat=False)

    def close(self) -> None:
        """Closes idle connections and keeps none from now on."""
        self._connections.close()

    def _call(self, method: str, path: str, body: bytes | None, answer: type[_Answer], *, seconds: float, call: Call | None, repeat: bool) -> _Answer:
        try:
            answered = self._connections.request(method, path, body, self._headers, seconds=seconds, call=call, repeat=repeat)
        except NotSent:
            raise NotRunning(f"Cannot connect to control at {self._api_url}; check that it is running there.") from None
        except NoAnswer as error:
            raise OutcomeUnknown(f"The connection to control broke ({error}); the request may or may not have taken effect.") from None
        if answered.status != 200:
            raise _problem(answered)
        try:
            return answer.model_validate_json(answered.body)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise TracelakeError(f"Control's answer to {path} is not valid at {place}; run all processes with the same release as control.") from None


def connect_to_control(
    files: HomeFiles, *, section: str, api_url: str | None, token: SecretStr | None, token_of_home: str | None, wanted: str
) -> ControlClient:
    """Uses this section of the settings, else the files of the home; raises NotRunning or SettingInvalid, which say what to set."""
    address = api_url or files.api_url()
    variable = f"TRACELAKE__{section.upper()}"
    if address is None:
        raise NotRunning(f"No Tracelake system runs in {files.home}; start one with `tracelake up`, or set {variable}__API_URL to control's address.")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise SettingInvalid(f"{variable}__API_URL: write control's address as http://host:port")
    secret = token.get_secret_value() if token else token_of_home
    if not secret:
        raise SettingInvalid(f"{variable}__TOKEN: set it to {wanted}; {files.credentials} does not contain one")
    return ControlClient(address, secret)


def _problem(answered: Answered) -> TracelakeError:
    """The error of a response that is not 200, even if a proxy wrote it."""
    if answered.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            problem = wire_json.decode(answered.body)
        except wire_json.JSONDecodeError:
            problem = None
        if isinstance(problem, dict):
            return TracelakeError.of({str(key): value for key, value in problem.items()})
    if answered.status in _AWAY:
        return Unavailable(f"Control answered {answered.status}; try again shortly.", retry_after=1)
    return TracelakeError(f"Control answered {answered.status} without an error message; see its log.")
