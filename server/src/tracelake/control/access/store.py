"""The access tables, one function a query."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from tracelake.control.access.callers import Caller, TokenKind
from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "access.sql")


@dataclass(frozen=True)
class CallerRow:
    org_id: UUID
    org: str
    kind: str
    name: str
    scopes: list[str]
    pools: list[str] | None
    roles: list[str]

    def caller(self) -> Caller:
        pools = frozenset(self.pools) if self.pools is not None else None
        return Caller(self.org_id, self.org, TokenKind(self.kind), self.name, frozenset(self.roles), frozenset(self.scopes), pools)


def caller_of_token(tx: Transaction, sha256: bytes) -> CallerRow | None:
    return tx.find(CallerRow, sql["caller_of_token"], sha256=sha256)


def caller_of_subject(tx: Transaction, *, issuer: str, subject: str) -> CallerRow | None:
    return tx.find(CallerRow, sql["caller_of_subject"], issuer=issuer, subject=subject)


def lock_first_start(tx: Transaction) -> None:
    tx.run(sql["lock_first_start"])


def has_org(tx: Transaction) -> bool:
    return tx.value(sql["has_org"])


def add_org(tx: Transaction, name: str) -> UUID:
    id = new_id()
    tx.run(sql["add_org"], id=id, name=name)
    return id


def add_user(tx: Transaction, *, org: UUID, name: str, issuer: str, subject: str) -> UUID:
    id = new_id()
    tx.run(sql["add_user"], id=id, org=org, name=name, issuer=issuer, subject=subject)
    return id


def add_role(tx: Transaction, *, org: UUID, name: str) -> None:
    tx.run(sql["add_role"], id=new_id(), org=org, name=name)


def add_member(tx: Transaction, *, org: UUID, role: str, user: UUID) -> None:
    tx.run(sql["add_member"], org=org, role=role, user=user)


def add_token(
    tx: Transaction,
    *,
    org: UUID,
    kind: TokenKind,
    label: str,
    sha256: bytes,
    user: UUID | None = None,
    scopes: list[str] | None = None,
    pools: list[str] | None = None,
) -> None:
    tx.run(sql["add_token"], id=new_id(), org=org, kind=kind.value, user=user, label=label, sha256=sha256, scopes=scopes or [], pools=pools)


def append_audit(tx: Transaction, *, org: UUID, actor: str, action: str, object: str, detail: dict[str, Any] | None = None) -> None:
    tx.run(sql["append_audit"], id=new_id(), org=org, actor=actor, action=action, object=object, detail=orjson.dumps(detail or {}).decode())
