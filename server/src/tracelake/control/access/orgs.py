"""Orgs: created, listed and disabled by the installation's operators, the admins of its first org. Operators see nothing else of other orgs.

Nobody acts in another org: an operator creates the first admin of a new org, but is not a member of it.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from tracelake.control.access import store
from tracelake.control.access.administration import LOCAL_ISSUER, ensure_reserved_roles
from tracelake.control.access.callers import ADMIN, Caller, Permission
from tracelake.control.access.store import OrgRow
from tracelake.control.access.tokens import new_token, token_sha256
from tracelake.control.database.ids import new_id
from tracelake.control.database.pages import next_token
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake_sdk.access import NewOrg, Org, TokenKind
from tracelake_sdk.errors import AccessConflict, Forbidden, Invalid, NotFound
from tracelake_sdk.pages import Page

Furnish = Callable[[Transaction, UUID], None]  # creates what else every new org needs


@dataclass(frozen=True)
class Orgs:
    database: Database
    add_org_defaults: Furnish

    def create(self, caller: Caller, name: str, *, admin: str, issuer: str | None = None, subject: str | None = None, dry_run: bool = False) -> NewOrg:
        """With its first admin and, if the admin has no JWT, a token that only this answer contains."""
        if (issuer is None) != (subject is None):
            raise Invalid("Issuer and subject identify a user in a JWT together; give both or neither.")
        signed = issuer is not None
        issuer, subject = issuer or LOCAL_ISSUER, subject or f"{name}/{admin}"
        with self.database.transaction("create_org", role=DatabaseRole.DEFINE) as tx:
            _require_operator(caller)
            store.lock_first_start(tx)
            if (there := store.find_org(tx, name)) is not None:
                if ADMIN not in {role for user in store.users(tx, org=there.id, name=admin) if (user.issuer, user.subject) == (issuer, subject) for role in user.roles}:
                    raise AccessConflict(f"Org {name} already exists, with another admin.")
                return _new(there, admin, None)
            if dry_run:
                return _new(OrgRow(new_id(), name, datetime.now(UTC), None, False), admin, None)
            token = None if signed else new_token()
            self._add(tx, name, admin=admin, issuer=issuer, subject=subject, token=token, by=f"{caller.org}/{caller.name}")
            store.append_audit(tx, org=caller.org_id, actor=caller.name, action="create_org", object=name, detail={"admin": admin})
            return _new(_get(tx, name), admin, token)

    def list_orgs(self, caller: Caller, *, after: UUID | None = None, limit: int = 50) -> Page[Org]:
        with self.database.transaction("list_orgs") as tx:
            _require_operator(caller)
            rows = store.orgs(tx, after=after, limit=limit + 1)
        return Page(items=[_org(row) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.id))

    def disable(self, caller: Caller, name: str, *, dry_run: bool = False) -> Org:
        """Its users, services and workers are refused from now on. Its data does not change."""
        with self.database.transaction("disable_org", role=DatabaseRole.DEFINE) as tx:
            _require_operator(caller)
            store.lock_first_start(tx)
            org = _get(tx, name)
            if org.operates:
                raise AccessConflict(f"Org {name} operates this installation; without it nobody could enable an org again.")
            if org.disabled_at is not None or dry_run:
                return _org(replace(org, disabled_at=org.disabled_at or datetime.now(UTC)))
            store.disable_org(tx, org.id)
            _audit_both(tx, caller, org, "disable_org")
            return _org(_get(tx, name))

    def enable(self, caller: Caller, name: str, *, dry_run: bool = False) -> Org:
        with self.database.transaction("enable_org", role=DatabaseRole.DEFINE) as tx:
            _require_operator(caller)
            store.lock_first_start(tx)
            org = _get(tx, name)
            if org.disabled_at is None or dry_run:
                return _org(replace(org, disabled_at=None))
            store.enable_org(tx, org.id)
            _audit_both(tx, caller, org, "enable_org")
            return _org(_get(tx, name))

    def _add(self, tx: Transaction, name: str, *, admin: str, issuer: str, subject: str, token: str | None, by: str) -> None:
        org = store.add_org(tx, name)
        store.append_audit(tx, org=org, actor=by, action="create_org", object=name, detail={"admin": admin})
        ensure_reserved_roles(tx, org)
        self.add_org_defaults(tx, org)
        user = store.add_user(tx, org=org, name=admin, issuer=issuer, subject=subject)
        store.add_member(tx, org=org, role=ADMIN, user=user)
        if token is not None:
            store.add_token(tx, org=org, kind=TokenKind.USER, user=user, label="first admin", sha256=token_sha256(token))


def _require_operator(caller: Caller) -> None:
    caller.require(Permission.ADMINISTER)
    if not caller.operates:
        raise Forbidden("Orgs are created, listed and disabled by the operators of the installation, the admins of its first org.")


def _get(tx: Transaction, name: str) -> OrgRow:
    found = store.find_org(tx, name)
    if found is None:
        raise NotFound(f"Org {name[:64]!r} was not found; `tracelake admin org list` lists them.")
    return found


def _audit_both(tx: Transaction, caller: Caller, org: OrgRow, action: str) -> None:
    """So that the org's own admins see it too."""
    store.append_audit(tx, org=caller.org_id, actor=caller.name, action=action, object=org.name)
    store.append_audit(tx, org=org.id, actor=f"{caller.org}/{caller.name}", action=action, object=org.name)


def _org(row: OrgRow) -> Org:
    return Org.model_validate(asdict(row))


def _new(row: OrgRow, admin: str, token: str | None) -> NewOrg:
    return NewOrg.model_validate(asdict(row) | {"admin": admin, "token": token})
