"""Forwarding: control receives queries and forwards them to a query process with the caller's own token."""

from typing import Any

from tracelake import wire_json
from tracelake.kept_connections import Answered, Call, KeptConnections, NoAnswer
from tracelake_sdk.errors import Unavailable

_BESIDE_SECONDS = 60.0  # time to start an engine, to pin, and for the network


class Forwarding:
    def __init__(self, url: str | None, *, longest: float) -> None:
        self._connections: KeptConnections | None = KeptConnections(url) if url else None
        self._seconds: float = longest + _BESIDE_SECONDS

    def forward(self, authorization: str, body: dict[str, Any], call: Call) -> Answered:
        """Raises Unavailable if no query process answers."""
        if self._connections is None:
            raise Unavailable("This system has no query process; start one with `tracelaked query` and set TRACELAKE__QUERY__URL to its address.")
        headers = {"authorization": authorization, "content-type": "application/json"}
        try:
            return self._connections.request("POST", "/query", wire_json.encode(body), headers, seconds=self._seconds, call=call, repeat=True)
        except NoAnswer as error:
            raise Unavailable(f"The query process does not answer ({error}); try again shortly.", retry_after=1) from None

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()
