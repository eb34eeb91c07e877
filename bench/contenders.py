"""Who is measured in a row: ours, the limit, the peers, each as a name and a way to run it once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench.figures import Measured
from bench.peer_environments import Peer
from bench.system import Postgres

OURS = "tracelake"


@dataclass(frozen=True)
class Contender:
    name: str
    version: str
    run: Callable[[int], Measured]  # n, of what the row counts
    database: str | None = None     # what is settled before each of its runs
    is_limit: bool = False          # the one limit that the goal goes by


@dataclass(frozen=True)
class Stage:
    """What every row gets: the shared Postgres server, its own folder, and the contenders beside ours."""

    postgres: Postgres
    folder: Path
    peers: tuple[Peer, ...] = ()
    limits: bool = True
    _named: set[str] = field(default_factory=set)

    def peers_of(self, row: str) -> list[Peer]:
        return [peer for peer in self.peers if row in peer.rows]

    def database(self, name: str) -> str:
        """A name that no row of this run has had."""
        found = next(f"bench_{name}{number or ''}" for number in range(len(self._named) + 1) if f"bench_{name}{number or ''}" not in self._named)
        self._named.add(found)
        return found


def our_version() -> str:
    return version("tracelake")
