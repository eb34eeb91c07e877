"""Loopback ports that an embedded system keeps for its home."""

import random
import socket
from pathlib import Path

from tracelake.files import write_whole
from tracelake_sdk.errors import StartFailed

# Below the range that Linux hands to outgoing connections, so that no client sits on a kept port by chance.
_KEPT_RANGE = range(20_000, 32_000)
_keepers: dict[int, Path] = {}  # of this process: a port is free until its server listens, and must not be given to another until then


def is_free(port: int, *, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do it: connections of a former server that are still closing do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port nobody listens on."""
    for port in random.sample(_KEPT_RANGE, 200):
        if port not in _keepers and is_free(port):
            return port
    raise StartFailed(f"no free port was found between {_KEPT_RANGE.start} and {_KEPT_RANGE.stop} on 127.0.0.1")


def kept_port(file: Path) -> int:
    """The port that the file keeps; another one, kept from now on, when there is none or somebody else has taken it."""
    if file.exists() and (text := file.read_text().strip()).isdecimal() and is_free(int(text)) and _keepers.setdefault(int(text), file) == file:
        return int(text)
    port = free_port()
    _keepers[port] = file
    write_whole(file, f"{port}\n", mode=0o644)
    return port
