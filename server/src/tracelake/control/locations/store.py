"""The location tables, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "locations.sql")


@dataclass(frozen=True)
class LocationRow:
    id: UUID
    name: str
    url: str
    revision: int
    actor: str
    at: datetime
    roles: list[str]  # that may use it, in addition to `admin`


def locations(tx: Transaction, org: UUID) -> dict[str, LocationRow]:
    """By name."""
    return {row.name: row for row in tx.all(LocationRow, sql["locations"], org=org)}


def name_location(tx: Transaction, *, org: UUID, name: str) -> None:
    tx.run(sql["name_location"], id=new_id(), org=org, name=name)


def revise(tx: Transaction, *, org: UUID, name: str, url: str | None, actor: str) -> None:
    """The next revision; without a url the location is removed."""
    tx.run(sql["revise"], org=org, name=name, url=url, actor=actor)


def add_role(tx: Transaction, *, org: UUID, name: str, role: UUID) -> None:
    tx.run(sql["add_role"], org=org, name=name, role=role)


def remove_roles(tx: Transaction, *, org: UUID, name: str, role: str | None = None) -> None:
    """One role, or all of them."""
    tx.run(sql["remove_roles"], org=org, name=name, role=role)
