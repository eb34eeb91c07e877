"""Epochs: a position in a log is valid only in the cluster that assigned it, and every cluster that hosted the database is one epoch.

Postgres orders writes by transaction numbers, which a dump restored into another cluster, or a promoted standby,
may use again. So a position combines epoch and number (`in_epoch` in SQL), and an offset also names its cluster.
"""

from collections.abc import Sequence

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.errors.records import OffsetOfAnotherEpoch, OffsetUnknown

EpochPosition = tuple[str, int]  # epoch and transaction in one number, as text; and the row

BEGINNING: EpochPosition = ("0", 0)
_NUMBER_BITS = 48  # low bits: the transaction; high bits: the epoch
_LARGEST = 2**62

sql = load(__name__, "epochs.sql")


def clusters(tx: Transaction) -> list[str]:
    """Ordered by epoch."""
    return tx.values(sql["clusters"])


def offset_of(place: EpochPosition, clusters: Sequence[str]) -> str:
    return f"{place[0]}.{place[1]}.{clusters[int(place[0]) >> _NUMBER_BITS]}"


def position_of(offset: str | None, clusters: Sequence[str]) -> EpochPosition:
    """Raises OffsetUnknown, and OffsetOfAnotherEpoch for an offset of another copy of the database."""
    if offset is None:
        return BEGINNING
    xid, seq, cluster = (*offset.split(".", 2), "", "")[:3]
    if not all(part.isascii() and part.isdigit() and len(part) < 20 and int(part) < _LARGEST for part in (xid, seq)):
        raise OffsetUnknown
    epoch = int(xid) >> _NUMBER_BITS
    # An offset of a release without epochs names no cluster; it belongs to the first.
    if cluster and (epoch >= len(clusters) or clusters[epoch] != cluster):
        raise OffsetOfAnotherEpoch
    return str(int(xid)), int(seq)
