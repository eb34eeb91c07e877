"""Epochs: a place in a log means something in the cluster that gave it, and every cluster that the database has lived in is one epoch.

Postgres orders what transactions wrote by their numbers, which a dump restored into another cluster, or a standby that takes over,
may count again. So a place is an epoch and a number in one (`in_epoch` in SQL), and an offset outside names its cluster too.
"""

from collections.abc import Sequence

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.errors.records import OffsetOfAnotherEpoch, OffsetUnknown

Place = tuple[str, int]  # epoch and transaction in one number, as text; and the row

BEGINNING: Place = ("0", 0)
_NUMBER_BITS = 48  # of a place, for the transaction; those above are the epoch's
_LARGEST = 2**62

sql = load(__name__, "epochs.sql")


def clusters(tx: Transaction) -> list[str]:
    """By the number of their epoch."""
    return tx.values(sql["clusters"])


def offset_of(place: Place, clusters: Sequence[str]) -> str:
    return f"{place[0]}.{place[1]}.{clusters[int(place[0]) >> _NUMBER_BITS]}"


def place_of(offset: str | None, clusters: Sequence[str]) -> Place:
    """Raises OffsetUnknown, and OffsetOfAnotherEpoch for one that another copy of the database gave."""
    if offset is None:
        return BEGINNING
    xid, seq, cluster = (*offset.split(".", 2), "", "")[:3]
    if not all(part.isascii() and part.isdigit() and len(part) < 20 and int(part) < _LARGEST for part in (xid, seq)):
        raise OffsetUnknown
    epoch = int(xid) >> _NUMBER_BITS
    # An offset from before there were epochs names no cluster; it is of the first.
    if cluster and (epoch >= len(clusters) or clusters[epoch] != cluster):
        raise OffsetOfAnotherEpoch
    return str(int(xid)), int(seq)
