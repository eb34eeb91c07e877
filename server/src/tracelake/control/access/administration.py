"""Administration: users, roles, memberships and tokens of an org. Only admins may do this; every change is audited.

Creating something that already exists with the same facts changes nothing and returns it.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tracelake import wire_json
from tracelake.control.access import store
from tracelake.control.access.callers import ADMIN, OF_THE_INSTALLATION, RESERVED_ROLES, SCOPES, Caller, Permission
from tracelake.control.access.store import TokenRow, UserRow
from tracelake.control.access.tokens import new_token, token_sha256
from tracelake.control.database import idempotency
from tracelake.control.database.ids import new_id
from tracelake.control.database.pages import next_token
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake_sdk import access as words
from tracelake_sdk.access import AuditEntry, NewToken, Token, TokenKind, User
from tracelake_sdk.errors import AccessConflict, Forbidden, IdempotencyConflict, Invalid, LastAdmin, NotFound, TokenShownOnce
from tracelake_sdk.pages import Page
from tracelake_sdk.suggestions import did_you_mean

LOCAL_ISSUER = "tracelake"  # of users who have tokens of this org and no JWT
_COMPARED = 1000           # how many user names a mistyped one is compared with
_MADE = "token"             # the idempotency kind


@dataclass(frozen=True)
class NewTokenRequest:
    """The request for a new token; fields that its kind does not have are refused."""

    kind: TokenKind
    label: str
    user: str | None = None
    roles: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()  # none: every pool of the org
    expires_in_days: int | None = None

    def check(self) -> None:
        """Raises Invalid."""
        match self.kind:
            case TokenKind.USER if self.user is None or self.roles or self.scopes or self.pools:
                raise Invalid("A user's token names its user and nothing else: its permissions are those of the user's roles.")
            case TokenKind.SERVICE if self.user is not None or self.pools or not self.scopes:
                raise Invalid(f"A service's token has one or more scopes ({', '.join(SCOPES)}) and the roles it reads with, and neither user nor pools.")
            case TokenKind.WORKER if self.user is not None or self.roles or self.scopes:
                raise Invalid("A worker's token has pools, or none for every pool, and neither user, roles nor scopes.")
            case _:
                pass
        for scope in self.scopes:
            if scope not in SCOPES:
                raise Invalid(f"{scope[:64]!r} is not a valid scope; a service's token has some of {', '.join(SCOPES)}.")

    def row(self, id: UUID, at: datetime) -> TokenRow:
        expires_at = at + timedelta(days=self.expires_in_days) if self.expires_in_days else None
        pools = sorted(set(self.pools)) if self.pools else None
        return TokenRow(id, self.kind.value, self.label, self.user, sorted(set(self.scopes)), pools, at, expires_at, None, sorted(set(self.roles)))


@dataclass(frozen=True)
class AccessAdministration:
    database: Database

    # Users
    def create_user(
        self, caller: Caller, name: str, *, issuer: str | None = None, subject: str | None = None, roles: Collection[str] = (), dry_run: bool = False
    ) -> User:
        """`issuer` and `subject` identify the user in a JWT; without them the user has only tokens of this org."""
        caller.require(Permission.ADMINISTER)
        if (issuer is None) != (subject is None):
            raise Invalid("Issuer and subject identify a user in a JWT together; give both or neither.")
        issuer, subject = issuer or LOCAL_ISSUER, subject or f"{caller.org}/{name}"
        with self.database.transaction("create_user", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            role_ids(tx, caller, roles)
            new = UserRow(new_id(), name, issuer, subject, datetime.now(UTC), None, sorted(set(roles)))
            if there := store.users(tx, org=caller.org_id, name=name):
                if (there[0].issuer, there[0].subject) != (issuer, subject) or not set(roles) <= set(there[0].roles):
                    raise AccessConflict(f"User {name} already exists, with another identity or without one of these roles; change that user.")
                return _user(there[0])
            if store.identity_taken(tx, org=caller.org_id, issuer=issuer, subject=subject):
                raise AccessConflict("A user with this issuer and subject already exists under another name.")
            if dry_run:
                return _user(new)
            id = store.add_user(tx, org=caller.org_id, name=name, issuer=issuer, subject=subject)
            for role in new.roles:
                store.add_member(tx, org=caller.org_id, role=role, user=id)
            _audit(tx, caller, "create_user", name, {"issuer": issuer, "subject": subject, "roles": new.roles})
            return _user(_get_user(tx, caller, name))

    def list_users(self, caller: Caller, *, after: UUID | None = None, limit: int = 50) -> Page[User]:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("list_users") as tx:
            rows = store.users(tx, org=caller.org_id, after=after, limit=limit + 1)
        return Page(items=[_user(row) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.id))

    def disable_user(self, caller: Caller, name: str, *, dry_run: bool = False) -> User:
        """The user's tokens and JWTs are refused from now on, and DAGs that the user activated can no longer read other DAGs' datasets with the user's roles."""
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("disable_user", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            user = _get_user(tx, caller, name)
            if user.disabled_at is not None:
                return _user(user)
            _not_the_last_admin(tx, caller, user)
            if dry_run:
                return _user(replace(user, disabled_at=datetime.now(UTC)))
            store.disable_user(tx, user.id)
            _audit(tx, caller, "disable_user", name)
            return _user(_get_user(tx, caller, name))

    def enable_user(self, caller: Caller, name: str, *, dry_run: bool = False) -> User:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("enable_user", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            user = _get_user(tx, caller, name)
            if user.disabled_at is None or dry_run:
                return _user(replace(user, disabled_at=None))
            store.enable_user(tx, user.id)
            _audit(tx, caller, "enable_user", name)
            return _user(_get_user(tx, caller, name))

    # Roles
    def create_role(self, caller: Caller, name: str, *, dry_run: bool = False) -> words.Role:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("create_role", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            there = next((role for role in _roles(tx, caller) if role.name == name), None)
            if there is not None or dry_run:
                return there or words.Role(name=name, reserved=False, members=[])
            store.add_role(tx, org=caller.org_id, name=name)
            _audit(tx, caller, "create_role", name)
            return words.Role(name=name, reserved=False, members=[])

    def list_roles(self, caller: Caller) -> list[words.Role]:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("list_roles") as tx:
            return _roles(tx, caller)

    def add_member(self, caller: Caller, role: str, user: str, *, dry_run: bool = False) -> User:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("add_member", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            role_ids(tx, caller, [role])
            found = _get_user(tx, caller, user)
            if role in found.roles or dry_run:
                return _user(replace(found, roles=sorted({*found.roles, role})))
            store.add_member(tx, org=caller.org_id, role=role, user=found.id)
            _audit(tx, caller, "add_member", user, {"role": role})
            return _user(_get_user(tx, caller, user))

    def remove_member(self, caller: Caller, role: str, user: str, *, dry_run: bool = False) -> User:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("remove_member", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            role_ids(tx, caller, [role])
            found = _get_user(tx, caller, user)
            if role == ADMIN:
                _not_the_last_admin(tx, caller, found)
            if role not in found.roles or dry_run:
                return _user(replace(found, roles=[held for held in found.roles if held != role]))
            store.remove_member(tx, org=caller.org_id, role=role, user=found.id)
            _audit(tx, caller, "remove_member", user, {"role": role})
            return _user(_get_user(tx, caller, user))

    # Tokens
    def create_token(self, caller: Caller, wanted: NewTokenRequest, *, dry_run: bool = False, idempotency_key: str | None = None) -> NewToken:
        """Only this answer contains the token: the database stores its hash."""
        caller.require(Permission.ADMINISTER)
        wanted.check()
        if not caller.operates and (beyond := OF_THE_INSTALLATION & set(wanted.scopes)):
            raise Forbidden(f"The scope `{min(beyond)}` reaches beyond one org; only the org that operates the installation has tokens with it.")
        with self.database.transaction("create_token", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            role_ids(tx, caller, wanted.roles)
            user = _get_user(tx, caller, wanted.user) if wanted.user is not None else None
            row = wanted.row(new_id(), datetime.now(UTC))
            if dry_run:
                return NewToken.model_validate(asdict(row) | {"token": None})
            _first_with_key(tx, caller, idempotency_key, wanted, row.id)
            token = new_token()
            store.add_token(
                tx,
                id=row.id,
                org=caller.org_id,
                kind=wanted.kind,
                user=user.id if user else None,
                label=row.label,
                sha256=token_sha256(token),
                scopes=row.scopes,
                pools=row.pools,
                roles=row.roles,
                expires_at=row.expires_at,
            )
            detail = {"kind": row.kind, "label": row.label, "user": row.user, "roles": row.roles, "scopes": row.scopes, "pools": row.pools}
            _audit(tx, caller, "create_token", str(row.id), detail)
            return NewToken.model_validate(asdict(_get_token(tx, caller, row.id)) | {"token": token})

    def list_tokens(self, caller: Caller, *, revoked: bool = False, after: UUID | None = None, limit: int = 50) -> Page[Token]:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("list_tokens") as tx:
            rows = store.tokens(tx, org=caller.org_id, revoked=revoked, after=after, limit=limit + 1)
        return Page(items=[_token(row) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.id))

    def revoke_token(self, caller: Caller, id: UUID, *, dry_run: bool = False) -> Token:
        """A process that has the token in its cache accepts it for up to one more second."""
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("revoke_token", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, caller.org_id)
            row = _get_token(tx, caller, id)
            if row.revoked_at is not None or dry_run:
                return _token(replace(row, revoked_at=row.revoked_at or datetime.now(UTC)))
            store.revoke_token(tx, id)
            _audit(tx, caller, "revoke_token", str(id), {"kind": row.kind, "label": row.label})
            return _token(_get_token(tx, caller, id))

    # Audit
    def audit(self, caller: Caller, *, before: UUID | None = None, limit: int = 50) -> Page[AuditEntry]:
        """The newest first."""
        caller.require(Permission.AUDIT)
        with self.database.transaction("audit") as tx:
            rows = store.audit(tx, org=caller.org_id, before=before, limit=limit + 1)
        items = [AuditEntry.model_validate(asdict(row)) for row in rows[:limit]]
        return Page(items=items, next=next_token(rows, limit, lambda row: row.id))


def role_ids(tx: Transaction, caller: Caller, names: Collection[str]) -> dict[str, UUID]:
    """By name; raises NotFound for a missing role."""
    found = store.role_ids(tx, org=caller.org_id, names=sorted(set(names)))
    for name in names:
        if name not in found:
            raise NotFound(f"Role {name[:64]!r} was not found in this org; {did_you_mean(name, [role.name for role in store.roles(tx, org=caller.org_id)], '`tracelake admin role list` lists them.')}")
    return found


def ensure_reserved_roles(tx: Transaction, org: UUID) -> None:
    for role in RESERVED_ROLES:
        store.add_role(tx, org=org, name=role)


def _get_user(tx: Transaction, caller: Caller, name: str) -> UserRow:
    found = store.users(tx, org=caller.org_id, name=name)
    if not found:
        names = [user.name for user in store.users(tx, org=caller.org_id, limit=_COMPARED)]
        raise NotFound(f"User {name[:128]!r} was not found in this org; {did_you_mean(name, names, '`tracelake admin user list` lists them.')}")
    return found[0]


def _get_token(tx: Transaction, caller: Caller, id: UUID) -> TokenRow:
    found = store.tokens(tx, org=caller.org_id, id=id)
    if not found:
        raise NotFound(f"Token {id} was not found in this org; `tracelake admin token list` lists them.")
    return found[0]


def _not_the_last_admin(tx: Transaction, caller: Caller, user: UserRow) -> None:
    if ADMIN in user.roles and user.disabled_at is None and store.other_admins(tx, org=caller.org_id, user=user.id) == 0:
        raise LastAdmin(f"{user.name} is the only admin of org {caller.org}; give another user the role `{ADMIN}` first.")


def _first_with_key(tx: Transaction, caller: Caller, key: str | None, wanted: NewTokenRequest, id: UUID) -> None:
    """A token is shown once, so a repeated request gets the id of the token that the first one created."""
    if key is None:
        return
    name = hashlib.sha256(key.encode()).digest()
    body = hashlib.sha256(wire_json.encode(asdict(wanted))).digest()
    if idempotency.remember_first(tx, org=caller.org_id, kind=_MADE, key=name, body=body, id=id):
        return
    earlier = idempotency.known(tx, org=caller.org_id, kind=_MADE, keys=[name])[name]
    if earlier.body_sha256 != body:
        raise IdempotencyConflict
    raise TokenShownOnce(
        f"Token {earlier.id} was created by the first request with this key, and is not shown again; if it was lost,"
        f" `tracelake admin token revoke {earlier.id}` and create another."
    )


def _roles(tx: Transaction, caller: Caller) -> list[words.Role]:
    return [words.Role(name=row.name, reserved=row.name in RESERVED_ROLES, members=row.members) for row in store.roles(tx, org=caller.org_id)]


def _user(row: UserRow) -> User:
    return User.model_validate(asdict(row))


def _token(row: TokenRow) -> Token:
    return Token.model_validate(asdict(row))


def _audit(tx: Transaction, caller: Caller, action: str, object: str, detail: Mapping[str, object] | None = None) -> None:
    store.append_audit(tx, org=caller.org_id, actor=caller.name, action=action, object=object, detail=dict(detail or {}))
