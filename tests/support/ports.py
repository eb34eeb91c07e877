"""Loopback ports for servers of tests, no two of one run the same, and addresses that stay without a server."""

import itertools
import os
import random
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager

from tracelake.embedded.ports import is_free

# Below what `tracelake up` chooses from and below what Linux hands to outgoing connections: neither takes one that is not yet bound.
_RANGE = range(10_000, 20_000)
_SHARES = 8  # of the workers of one run, so that no two of them choose the same port between the look and the bind


def _share() -> range:
    number = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    return _RANGE[int(number[0]) % _SHARES if number else 0 :: _SHARES]


_mine = _share()
_numbers = itertools.count(random.randrange(len(_mine)))  # anywhere: another run may be under way


def free_port() -> int:
    """A port on which nothing listens and which this process has not used yet."""
    return next(port for port in (_mine[next(_numbers) % len(_mine)] for _ in _mine) if is_free(port))


@contextmanager
def refusing() -> Generator[str]:
    """The address of a port that refuses every connection: it is bound, so that no other process can listen there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
