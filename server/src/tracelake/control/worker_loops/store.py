"""The table of failing loops, one function per query."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "worker_loops.sql")

_WITHIN = timedelta(minutes=2)  # workers report several times within this time
_MOST = 100


@dataclass(frozen=True)
class FailingLoopRow:
    worker: str
    loop: str
    code: str


def replace(tx: Transaction, *, org: UUID, worker: str, failing: Mapping[str, str]) -> None:
    """Replaces the failing loops of one worker, with the error code of each."""
    tx.run(sql["withdraw"], org=org, worker=worker)
    if failing:
        tx.run(sql["report"], org=org, worker=worker, loops=list(failing), codes=list(failing.values()))


def failing(tx: Transaction) -> list[FailingLoopRow]:
    """Failing loops of all workers that reported recently."""
    return tx.all(FailingLoopRow, sql["failing"], within=_WITHIN, most=_MOST)
