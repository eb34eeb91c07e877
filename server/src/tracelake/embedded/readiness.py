"""Whether a process with an HTTP interface is ready, and if not, why."""

import json
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  where to listen is the setting's choice


def url_of(host: str, port: int) -> str:
    """The URL of a server that listens on this host, from the same machine."""
    called = _EVERYWHERE.get(host, host)
    return f"http://[{called}]:{port}" if ":" in called else f"http://{called}:{port}"


def is_ready(api_url: str, *, seconds: float = 5) -> bool:
    return why_not_ready(api_url, seconds=seconds) is None


def why_not_ready(api_url: str, *, seconds: float = 10) -> str | None:
    """None if `GET /readyz` answers 200; else the reasons that the process gives."""
    address = urlsplit(api_url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=seconds)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return None if answer.status == 200 else _reasons(answer.read())
    except (OSError, HTTPException):
        return "it does not answer"
    finally:
        connection.close()


def _reasons(body: bytes) -> str:
    try:
        return ", ".join(f"{reason['what']} ({reason['code']})" for reason in json.loads(body)["reasons"])
    except (ValueError, KeyError, TypeError):
        return "it answers with an error"
