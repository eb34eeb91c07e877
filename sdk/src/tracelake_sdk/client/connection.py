"""The connection that all parts of the client share: requests, responses as models, errors as the classes that the service raised."""

from __future__ import annotations  # return types are resolved on demand, not at import

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, cast
from urllib.parse import quote
from uuid import UUID

import httpx2
from pydantic import TypeAdapter, ValidationError

from tracelake_sdk.client.wire import Unanswered, Unreached, connect, error_in, send
from tracelake_sdk.errors import Invalid, NotRunning, OutcomeUnknown, TracelakeError, Unavailable
from tracelake_sdk.pages import Page

Answer = TypeVar("Answer")
Item = TypeVar("Item")

WHOLE_PAGE = 500


class Connection:
    """Every request is idempotent and is sent again after a broken connection."""

    def __init__(self, api_url: str, token: str, *, timeout: float) -> None:
        self.api_url: str = api_url
        self._http: httpx2.Client = connect(api_url, token, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def get(self, kind: type[Answer], path: str, query: Mapping[str, Any] | None = None) -> Answer:
        params = {name: str(value) for name, value in (query or {}).items() if value is not None}
        return self.read(kind, self.send("GET", path, params=params))

    def post(self, kind: type[Answer], path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        return self.read(kind, self.send("POST", path, json=body, headers=headers))

    def define(self, kind: type[Answer], path: str, body: Mapping[str, Any], idempotency_key: str | None) -> Answer:
        """A change that takes effect once per idempotency key; without a key, one is generated."""
        return self.post(kind, path, body, {"Idempotency-Key": idempotency_key or str(uuid.uuid4())})

    def read(self, kind: type[Answer], response: httpx2.Response) -> Answer:
        try:
            return _adapter(kind).validate_json(self.accepted(response).content)
        except ValidationError as error:
            raise NotRunning(f"The server at {self.api_url} is not a Tracelake of this release; check TRACELAKE_API_URL.") from error

    def accepted(self, response: httpx2.Response) -> httpx2.Response:
        """The response; raises the error that it contains."""
        if not response.is_success:
            raise self._error(response)
        return response

    def send(self, method: str, path: str, **parts: Any) -> httpx2.Response:
        """Raises OutcomeUnknown if it is unknown whether the request took effect."""
        try:
            return send(self._http, method, path, **parts)
        except ValueError as error:  # nothing was sent yet
            raise Invalid("The request cannot be encoded as JSON: a number is not finite, or a text contains half of a surrogate pair; remove it.") from error
        except Unreached as error:
            raise NotRunning(f"Nothing answers at {self.api_url}; start a system with `tracelake up`, or set TRACELAKE_API_URL.") from error
        except Unanswered as error:
            raise self._unanswered(method, cast("Mapping[str, str]", parts.get("headers") or {}).get("Idempotency-Key")) from error

    def _unanswered(self, method: str, key: str | None) -> TracelakeError:
        if method == "GET":
            return Unavailable(f"{self.api_url} accepted the request and did not answer; try again shortly.")
        again = f"repeat it with the idempotency key {key}" if key else "repeat it, which is safe"
        return OutcomeUnknown(f"The connection to {self.api_url} broke after the request was sent: it may or may not have taken effect; {again}.")

    def _error(self, response: httpx2.Response) -> TracelakeError:
        if (found := error_in(response)) is not None:
            return found
        if response.status_code >= 500:
            return Unavailable(f"{self.api_url} answered {response.status_code} without a reason; try again shortly.")
        return NotRunning(f"The server at {self.api_url} is not a Tracelake (HTTP {response.status_code}); check TRACELAKE_API_URL.")


def quoted(name: UUID | str) -> str:
    """A value as one URL-encoded segment of a path."""
    return quote(str(name), safe="")


def iterate(page: Callable[[str | None], Page[Item]]) -> Iterator[Item]:
    """All items of all pages."""
    token: str | None = None
    while True:
        found = page(token)
        yield from found.items
        token = found.next
        if token is None:
            return


def follow(look: Callable[[], Answer], over: Callable[[Answer], bool], every: float, patience: float) -> Iterator[Answer]:
    """The state now and at every later poll, until it is final; a system that restarts has `patience` seconds to answer."""
    answered = time.monotonic()
    while True:
        began = time.monotonic()
        try:
            seen = look()
        except (NotRunning, Unavailable):
            if time.monotonic() - answered > patience:
                raise
            time.sleep(every)
            continue
        answered = time.monotonic()
        yield seen
        if over(seen):
            return
        # A slow poll, of a large cascade, is repeated less often.
        time.sleep(max(every, 4 * (answered - began)))


@cache
def _adapter(kind: type[Answer]) -> TypeAdapter[Answer]:
    return TypeAdapter(kind)
