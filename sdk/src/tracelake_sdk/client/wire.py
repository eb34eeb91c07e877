"""Requests to a Tracelake service: connection, retries, and the error that a response contains.

Every call is idempotent, so it is sent again here if the connection broke. The caller words the error if nothing answers, or if an
answer never came.
"""

import time
from typing import Any, cast

import httpx2

from tracelake_sdk.backoff import Backoff
from tracelake_sdk.client.addresses import is_this_machine
from tracelake_sdk.errors import TracelakeError

CONNECT_SECONDS = 5.0

_TRIES = 3
_BACKOFF = Backoff(first=0.1, longest=1.0, shortened=0)


class Unreached(Exception):
    """Nothing answers at the address, and nothing was sent; private to the SDK."""


class Unanswered(Exception):
    """The request was sent and no answer came: it may or may not have taken effect; private to the SDK."""


def connect(api_url: str, token: str, *, timeout: float) -> httpx2.Client:
    """Opens no connection yet."""
    return httpx2.Client(
        base_url=api_url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        trust_env=not is_this_machine(api_url),  # proxies are only for other machines
        verify=httpx2.URL(api_url).scheme != "http",  # http has no certificates to verify, and loading them is slow
    )


def send(http: httpx2.Client, method: str, path: str, **parts: Any) -> httpx2.Response:
    """The response, whatever its status; raises Unreached or Unanswered, with the connection error as their cause."""
    broken: httpx2.TransportError | None = None
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_BACKOFF.after(attempt))
        try:
            return http.request(method, path, **parts)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if broken is None:
                raise Unreached from error
        except httpx2.TransportError as error:
            broken = error
            if isinstance(error, httpx2.TimeoutException):
                break  # after a full timeout, another try would time out as well
    raise Unanswered from broken


def error_in(response: httpx2.Response) -> TracelakeError | None:
    """The error of a service, as the class that it raised; None if another program answered, or the answer is incomplete."""
    if not response.headers.get("content-type", "").startswith("application/problem+json"):
        return None
    try:
        problem = response.json()
    except ValueError:
        return None
    return TracelakeError.of(cast("dict[str, Any]", problem)) if isinstance(problem, dict) else None
