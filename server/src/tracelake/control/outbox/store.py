"""The outbox table, one function per query."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "outbox.sql")


@dataclass(frozen=True)
class Errand:
    """One side effect to perform."""

    id: UUID
    org_id: UUID
    kind: str
    body: dict[str, Any]
    tries: int
    created_at: datetime


def write(tx: Transaction, errands: list[tuple[UUID, str, dict[str, Any]]]) -> None:
    """Appends (org, kind, body) entries in the transaction of the change that causes them."""
    if errands:
        tx.run(
            sql["write"],
            ids=[new_id() for _ in errands],
            orgs=[org for org, _, _ in errands],
            kinds=[kind for _, kind, _ in errands],
            bodies=[wire_json.text(body) for _, _, body in errands],
        )


def take(tx: Transaction, *, room: int, lease: timedelta, now: datetime | None = None) -> list[Errand]:
    return tx.all(Errand, sql["take"], room=room, lease=lease, now=now)


def mark_sent(tx: Transaction, id: UUID) -> None:
    tx.run(sql["mark_sent"], id=id)


def mark_failed(tx: Transaction, id: UUID, *, error: str, delay: timedelta, give_up: bool) -> None:
    tx.run(sql["mark_failed"], id=id, error=error, delay=delay, give_up=give_up)


def backlog(tx: Transaction) -> int:
    return tx.value(sql["backlog"])
