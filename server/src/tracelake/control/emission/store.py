"""The tables of emission, one function per query."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake.control.emission.facts import DecisionFact, ResultFact, RunFact

sql = load(__name__, "emission.sql")

RUNS = "run_history"
DECISIONS = "promotion_status"


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in a stream: everything up to and including this row is emitted."""

    xid: str
    seq: int


START = Offset("0", 0)


def waiting(tx: Transaction) -> list[str]:
    """The streams with new facts."""
    return tx.values(sql["waiting"])


def take(tx: Transaction, stream: str, *, holder: UUID, lease: timedelta) -> Offset | None:
    """The offset to continue from; None while another process emits this stream."""
    return tx.find(Offset, sql["take"], stream=stream, holder=holder, lease=lease)


def move_on(tx: Transaction, stream: str, *, holder: UUID, to: Offset) -> bool:
    """Whether the lease of the stream was still held."""
    return tx.touched(sql["move_on"], stream=stream, holder=holder, xid=to.xid, seq=to.seq) == 1


def runs(tx: Transaction, *, after: Offset, limit: int) -> list[RunFact]:
    return tx.all(RunFact, sql["runs"], xid=after.xid, seq=after.seq, limit=limit)


def decisions(tx: Transaction, *, after: Offset, limit: int) -> list[DecisionFact]:
    return tx.all(DecisionFact, sql["decisions"], xid=after.xid, seq=after.seq, limit=limit)


def results(tx: Transaction, promotions: list[UUID]) -> list[ResultFact]:
    return tx.all(ResultFact, sql["results"], promotions=promotions)


def refuse(tx: Transaction, refused: list[tuple[str, str, str]]) -> None:
    """Stores (kind, fact, code) of each refused record."""
    kinds, facts, codes = ([one[part] for one in refused] for part in range(3))
    tx.run(sql["refuse"], kinds=kinds, facts=facts, codes=codes)


def refusals(tx: Transaction) -> int:
    return tx.value(sql["refusals"])


def behind(tx: Transaction, *, most: int) -> int:
    return tx.value(sql["behind"], most=most)


def emitted(tx: Transaction, stream: str) -> Offset:
    """The offset of a stream, without a lock."""
    return tx.get(Offset, sql["emitted"], f"Stream {stream} was not found.", stream=stream)


def run_before(tx: Transaction, until: Offset, *, places: int) -> Offset:
    """The offset so many runs earlier, or the start."""
    return tx.find(Offset, sql["run_before"], xid=until.xid, seq=until.seq, places=places) or START


def decision_before(tx: Transaction, until: Offset, *, places: int) -> Offset:
    return tx.find(Offset, sql["decision_before"], xid=until.xid, seq=until.seq, places=places) or START


def waiting_since(tx: Transaction) -> datetime | None:
    return tx.value(sql["waiting_since"])
