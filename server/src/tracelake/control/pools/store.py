"""The pool table, one function per query."""

from uuid import UUID

from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "pools.sql")


def ensure(tx: Transaction, *, org: UUID, runtime: str, name: str) -> None:
    tx.run(sql["ensure"], id=new_id(), org=org, runtime=runtime, name=name)


def find(tx: Transaction, *, org: UUID, runtime: str, name: str) -> UUID | None:
    return tx.value(sql["find"], org=org, runtime=runtime, name=name)


def orgs(tx: Transaction) -> list[UUID]:
    """Every org: each has its own pools."""
    return tx.values(sql["orgs"])


def names(tx: Transaction, *, org: UUID) -> list[str]:
    """Over all runtimes."""
    return tx.values(sql["names"], org=org)
