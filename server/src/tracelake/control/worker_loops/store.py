"""The table of failing loops, one function a query."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "worker_loops.sql")

_WITHIN = timedelta(minutes=2)  # a worker repeats what it reports several times in this time
_MOST = 100


@dataclass(frozen=True)
class FailingLoopRow:
    worker: str
    loop: str
    code: str


def replace(tx: Transaction, *, org: UUID, worker: str, failing: Mapping[str, str]) -> None:
    """All that fails of one worker now: the code of each loop."""
    tx.run(sql["withdraw"], org=org, worker=worker)
    if failing:
        tx.run(sql["report"], org=org, worker=worker, loops=list(failing), codes=list(failing.values()))


def failing(tx: Transaction) -> list[FailingLoopRow]:
    """Of all workers that reported lately."""
    return tx.all(FailingLoopRow, sql["failing"], within=_WITHIN, most=_MOST)
