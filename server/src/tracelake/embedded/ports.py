"""Loopback ports that an embedded system keeps for its home."""

import random
import socket
from pathlib import Path

from tracelake.files import write_whole
from tracelake_sdk.errors import StartFailed

# Below the range that Linux uses for outgoing connections, so that no client takes a kept port by chance.
_KEPT_RANGE = range(20_000, 32_000)
_keepers: dict[int, Path] = {}  # in this process: a port looks free until its server listens, and must not be given out twice


def is_free(port: int, *, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: connections of a former server that are still closing do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port on which nothing listens."""
    for port in random.sample(_KEPT_RANGE, 200):
        if port not in _keepers and is_free(port):
            return port
    raise StartFailed(f"no free port was found between {_KEPT_RANGE.start} and {_KEPT_RANGE.stop} on 127.0.0.1")


def kept_port(file: Path) -> int:
    """The port in the file; if there is none or another process uses it, a new one, which is written to the file."""
    if file.exists() and (text := file.read_text().strip()).isdecimal() and is_free(int(text)) and _keepers.setdefault(int(text), file) == file:
        return int(text)
    port = free_port()
    _keepers[port] = file
    write_whole(file, f"{port}\n", mode=0o644)
    return port
