"""Whether a control process answers."""

from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  where to listen is the setting's choice


def url_of(host: str, port: int) -> str:
    """How a server that listens on this host is reached from the same machine."""
    called = _EVERYWHERE.get(host, host)
    return f"http://[{called}]:{port}" if ":" in called else f"http://{called}:{port}"


def is_ready(api_url: str, *, seconds: float = 5) -> bool:
    """Whether `GET /readyz` answers 200."""
    address = urlsplit(api_url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=seconds)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
