"""Idempotency: the key of an effect is built from what the effect is about, and one table stores the keys."""

from typing import NamedTuple
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "idempotency.sql")


class Remembered(NamedTuple):
    body_sha256: bytes
    id: UUID  # of what the effect made


def known(tx: Transaction, *, org: UUID, kind: str, keys: list[bytes]) -> dict[bytes, Remembered]:
    return {bytes(key): Remembered(bytes(body), id) for key, body, id in tx.tuples(sql["known"], org=org, kind=kind, keys=keys)}


def remember(tx: Transaction, *, org: UUID, kind: str, keys: list[bytes], bodies: list[bytes], ids: list[UUID]) -> None:
    """For keys that must be new, because their producer is locked."""
    tx.run(sql["remember"], org=org, kind=kind, keys=keys, bodies=bodies, ids=ids)


def remember_first(tx: Transaction, *, org: UUID, kind: str, key: bytes, body: bytes, id: UUID) -> bool:
    """Returns whether the key was new; a transaction that loses the race waits for the winner and gets False."""
    return tx.touched(sql["remember_first"], org=org, kind=kind, key=key, body=body, id=id) == 1
