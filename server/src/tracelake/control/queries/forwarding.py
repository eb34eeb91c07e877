"""Forwarding: queries come to control's address and are answered by a query process, which is asked with the caller's own token."""

import ssl
from dataclasses import dataclass
from typing import Any

import httpx2

from tracelake_sdk.errors import Unavailable

_CONNECT_SECONDS = 5.0
_BESIDE_SECONDS = 30.0  # starting an engine, pinning, and the way there and back
_TAKEN = ("content-type", "tracelake-receipt", "tracelake-more", "retry-after")


@dataclass(frozen=True)
class Forwarded:
    status: int
    headers: dict[str, str]
    body: bytes


class Forwarding:
    def __init__(self, url: str | None, *, longest: float) -> None:
        self._url: str | None = url.rstrip("/") if url else None
        # Without TLS, one that trusts nobody: reading certificates takes its time.
        tls = httpx2.create_ssl_context() if url and url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30)
        timeout = httpx2.Timeout(longest + _BESIDE_SECONDS, connect=_CONNECT_SECONDS)
        self._client: httpx2.Client = httpx2.Client(limits=limits, verify=tls, timeout=timeout, trust_env=False)

    def ask(self, authorization: str, question: dict[str, Any]) -> Forwarded:
        """Raises Unavailable where no query process answers."""
        if self._url is None:
            raise Unavailable("No query process belongs to this system; start one with `tracelaked query` and set TRACELAKE__QUERY__URL to its address.")
        try:
            answer = self._client.post(f"{self._url}/query", json=question, headers={"authorization": authorization})
        except httpx2.TransportError as error:
            raise Unavailable(f"The query process does not answer ({type(error).__name__}); try again shortly.", retry_after=1) from None
        return Forwarded(answer.status_code, {name: answer.headers[name] for name in _TAKEN if name in answer.headers}, answer.content)

    def close(self) -> None:
        self._client.close()
