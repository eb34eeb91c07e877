"""The access tables, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.access.callers import Caller
from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.access import TokenKind

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
    user_id: UUID | None
    token_id: UUID | None
    operates: bool

    def caller(self) -> Caller:
        pools = frozenset(self.pools) if self.pools is not None else None
        return Caller(
            self.org_id, self.org, TokenKind(self.kind), self.name, frozenset(self.roles), frozenset(self.scopes), pools, self.user_id, self.token_id,
            self.operates,
        )


@dataclass(frozen=True)
class OrgRow:
    id: UUID
    name: str
    created_at: datetime
    disabled_at: datetime | None
    operates: bool


@dataclass(frozen=True)
class UserRow:
    id: UUID
    name: str
    issuer: str
    subject: str
    created_at: datetime
    disabled_at: datetime | None
    roles: list[str]


@dataclass(frozen=True)
class RoleRow:
    name: str
    members: list[str]


@dataclass(frozen=True)
class TokenRow:
    id: UUID
    kind: str
    label: str
    user: str | None
    scopes: list[str]
    pools: list[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    roles: list[str]


@dataclass(frozen=True)
class AuditRow:
    id: UUID
    at: datetime
    actor: str
    action: str
    object: str
    detail: dict[str, Any]


# Callers: None if the token is revoked or expired, or the user or org is disabled
def caller_of_token(tx: Transaction, sha256: bytes) -> CallerRow | None:
    return tx.find(CallerRow, sql["caller_of_token"], sha256=sha256, id=None)


def caller_of_service(tx: Transaction, token: UUID) -> CallerRow | None:
    return tx.find(CallerRow, sql["caller_of_token"], sha256=None, id=token)


def caller_of_subject(tx: Transaction, *, org: str | None, issuer: str, subject: str) -> CallerRow | None:
    """A user of the org of this name; None: of the org that operates."""
    return tx.find(CallerRow, sql["caller_of_user"], org=org, issuer=issuer, subject=subject, id=None)


def caller_of_user(tx: Transaction, user: UUID) -> CallerRow | None:
    return tx.find(CallerRow, sql["caller_of_user"], org=None, issuer=None, subject=None, id=user)


def lock_first_start(tx: Transaction) -> None:
    tx.run(sql["lock_first_start"])


def has_org(tx: Transaction) -> bool:
    return tx.value(sql["has_org"])


def add_org(tx: Transaction, name: str) -> UUID:
    id = new_id()
    tx.run(sql["add_org"], id=id, name=name)
    return id


def orgs(tx: Transaction, *, after: UUID | None, limit: int) -> list[OrgRow]:
    return tx.all(OrgRow, sql["orgs"], after=after, limit=limit)


def find_org(tx: Transaction, name: str) -> OrgRow | None:
    return tx.find(OrgRow, sql["find_org"], name=name)


def disable_org(tx: Transaction, org: UUID) -> None:
    tx.run(sql["disable_org"], org=org)


def enable_org(tx: Transaction, org: UUID) -> None:
    tx.run(sql["enable_org"], org=org)


def add_user(tx: Transaction, *, org: UUID, name: str, issuer: str, subject: str) -> UUID:
    id = new_id()
    tx.run(sql["add_user"], id=id, org=org, name=name, issuer=issuer, subject=subject)
    return id


def add_role(tx: Transaction, *, org: UUID, name: str) -> bool:
    """Whether the role is new."""
    return tx.touched(sql["add_role"], id=new_id(), org=org, name=name) == 1


def add_member(tx: Transaction, *, org: UUID, role: str, user: UUID) -> None:
    tx.run(sql["add_member"], org=org, role=role, user=user)


def remove_member(tx: Transaction, *, org: UUID, role: str, user: UUID) -> None:
    tx.run(sql["remove_member"], org=org, role=role, user=user)


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
    roles: list[str] | None = None,
    expires_at: datetime | None = None,
    id: UUID | None = None,
) -> None:
    tx.run(
        sql["add_token"],
        id=id or new_id(),
        org=org,
        kind=kind.value,
        user=user,
        label=label,
        sha256=sha256,
        scopes=scopes or [],
        pools=pools,
        roles=roles or [],
        expires_at=expires_at,
    )


def append_audit(tx: Transaction, *, org: UUID, actor: str, action: str, object: str, detail: dict[str, Any] | None = None) -> None:
    tx.run(sql["append_audit"], id=new_id(), org=org, actor=actor, action=action, object=object, detail=wire_json.text(detail or {}))


def lock_access(tx: Transaction, org: UUID) -> None:
    tx.run(sql["lock_access"], org=org)


def users(tx: Transaction, *, org: UUID, name: str | None = None, after: UUID | None = None, limit: int = 1) -> list[UserRow]:
    return tx.all(UserRow, sql["users"], org=org, name=name, after=after, limit=limit)


def identity_taken(tx: Transaction, *, org: UUID, issuer: str, subject: str) -> bool:
    return tx.value(sql["identity_taken"], org=org, issuer=issuer, subject=subject)


def disable_user(tx: Transaction, user: UUID) -> None:
    tx.run(sql["disable_user"], user=user)


def enable_user(tx: Transaction, user: UUID) -> None:
    tx.run(sql["enable_user"], user=user)


def roles(tx: Transaction, *, org: UUID) -> list[RoleRow]:
    return tx.all(RoleRow, sql["roles"], org=org)


def role_ids(tx: Transaction, *, org: UUID, names: list[str]) -> dict[str, UUID]:
    """By name; unknown names are omitted."""
    return dict(tx.tuples(sql["role_ids"], org=org, names=names))


def other_admins(tx: Transaction, *, org: UUID, user: UUID) -> int:
    return tx.value(sql["other_admins"], org=org, user=user)


def tokens(
    tx: Transaction, *, org: UUID, id: UUID | None = None, revoked: bool = True, after: UUID | None = None, limit: int = 1
) -> list[TokenRow]:
    return tx.all(TokenRow, sql["tokens"], org=org, id=id, revoked=revoked, after=after, limit=limit)


def revoke_token(tx: Transaction, token: UUID) -> None:
    tx.run(sql["revoke_token"], token=token)


def audit(tx: Transaction, *, org: UUID, before: UUID | None, limit: int) -> list[AuditRow]:
    return tx.all(AuditRow, sql["audit"], org=org, before=before, limit=limit)
