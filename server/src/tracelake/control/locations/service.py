"""Defining locations, and granting their use; only for admins.

The root of a location decides what its org can read, and machines and stores belong to the whole
installation. So the operators, the admins of the first org, set the root; the admins of each org grant its use.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.administration import role_ids
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.locations import store
from tracelake.control.locations.store import LocationRow
from tracelake.storage.private_places import PrivatePlaces
from tracelake_sdk.dags.locations import Location, canonical_url, check_name
from tracelake_sdk.errors import Forbidden, Invalid, LocationConflict, LocationRefused, NotFound
from tracelake_sdk.suggestions import did_you_mean


@dataclass(frozen=True)
class Locations:
    database: Database
    private: PrivatePlaces

    def list_locations(self, caller: Caller) -> list[Location]:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("list_locations") as tx:
            return [_location(row) for row in store.locations(tx, caller.org_id).values()]

    def add(self, caller: Caller, name: str, url: str, *, roles: Collection[str] = (), org: str | None = None, dry_run: bool = False) -> Location:
        """An existing location with the same root and roles does not change; one with another root is refused."""
        _require_operator(caller)
        try:
            check_name(name)
        except ValueError as error:
            raise Invalid(f"{name[:128]!r} cannot be the name of a location: {error}.") from None
        wanted = checked_url(url, self.private)
        with self.database.transaction("add_location", role=DatabaseRole.DEFINE) as tx:
            where = _org_of(tx, caller, org)
            access.lock_access(tx, where.org_id)
            ids = role_ids(tx, where, roles)
            there = store.locations(tx, where.org_id).get(name)
            if there is not None:
                if there.url != wanted or not set(roles) <= set(there.roles):
                    raise LocationConflict(
                        f"The location {name} already exists with the root {there.url} and {_named(there.roles)}; change it with"
                        f" `tracelake admin location set {name} URL` or `tracelake admin location grant {name} ROLE`, or choose another name."
                    )
                return _location(there)
            if dry_run:
                return _location(LocationRow(new_id(), name, wanted, 1, caller.name, datetime.now(UTC), sorted(set(roles))))
            define(tx, where.org_id, name, wanted, ids, actor=where.name)
            return _location(_get(tx, where.org_id, name))

    def set(self, caller: Caller, name: str, url: str, *, org: str | None = None, dry_run: bool = False) -> Location:
        """Sets another root; running tasks continue with the old one."""
        _require_operator(caller)
        wanted = checked_url(url, self.private)
        with self.database.transaction("set_location", role=DatabaseRole.DEFINE) as tx:
            where = _org_of(tx, caller, org)
            access.lock_access(tx, where.org_id)
            there = _get(tx, where.org_id, name)
            if there.url == wanted or dry_run:
                return _location(replace(there, url=wanted))
            store.revise(tx, org=where.org_id, name=name, url=wanted, actor=where.name)
            _audit(tx, where, "set_location", name, {"before": there.url, "after": wanted})
            return _location(_get(tx, where.org_id, name))

    def remove(self, caller: Caller, name: str, *, dry_run: bool = False) -> Location:
        """Requested tasks of jobs that use it then fail, and tasks of events wait until a location of this name is added again."""
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("remove_location", role=DatabaseRole.DEFINE) as tx:
            access.lock_access(tx, caller.org_id)
            there = _get(tx, caller.org_id, name)
            if not dry_run:
                store.revise(tx, org=caller.org_id, name=name, url=None, actor=caller.name)
                store.remove_roles(tx, org=caller.org_id, name=name)
                _audit(tx, caller, "remove_location", name, {"url": there.url, "roles": there.roles})
            return _location(there)

    def grant(self, caller: Caller, name: str, role: str, *, dry_run: bool = False) -> Location:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("grant_location", role=DatabaseRole.DEFINE) as tx:
            access.lock_access(tx, caller.org_id)
            there = _get(tx, caller.org_id, name)
            id = role_ids(tx, caller, [role])[role]
            if role in there.roles or dry_run:
                return _location(replace(there, roles=sorted({*there.roles, role})))
            store.add_role(tx, org=caller.org_id, name=name, role=id)
            _audit(tx, caller, "grant_location", name, {"role": role})
            return _location(_get(tx, caller.org_id, name))

    def revoke(self, caller: Caller, name: str, role: str, *, dry_run: bool = False) -> Location:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("revoke_location", role=DatabaseRole.DEFINE) as tx:
            access.lock_access(tx, caller.org_id)
            there = _get(tx, caller.org_id, name)
            role_ids(tx, caller, [role])
            if role not in there.roles or dry_run:
                return _location(replace(there, roles=[held for held in there.roles if held != role]))
            store.remove_roles(tx, org=caller.org_id, name=name, role=role)
            _audit(tx, caller, "revoke_location", name, {"role": role})
            return _location(_get(tx, caller.org_id, name))


def define(tx: Transaction, org: UUID, name: str, url: str, roles: dict[str, UUID], *, actor: str) -> None:
    """Defines a new location; call it under the org's lock."""
    store.name_location(tx, org=org, name=name)
    store.revise(tx, org=org, name=name, url=url, actor=actor)
    for role in roles.values():
        store.add_role(tx, org=org, name=name, role=role)
    access.append_audit(tx, org=org, actor=actor, action="add_location", object=name, detail={"url": url, "roles": sorted(roles)})


def checked_url(url: str, private: PrivatePlaces) -> str:
    """The canonical URL; raises LocationRefused for an invalid URL, or one that overlaps a private folder of the installation."""
    try:
        canonical = canonical_url(url)
    except ValueError as error:
        raise LocationRefused(f"{url[:500]!r} cannot be the root of a location: {error}.") from None
    if touched := private.touched_by(canonical):
        raise LocationRefused(f"{canonical} cannot be the root of a location: it is in or around {touched}; choose a separate folder or prefix.")
    return canonical


def _require_operator(caller: Caller) -> None:
    """Checked before the URL: a refusal of the URL would reveal private folders of the installation."""
    caller.require(Permission.ADMINISTER)
    if not caller.operates:
        raise Forbidden("Only operators (admins of the first org) can define where a location points; ask one to add it for your org.")


def _org_of(tx: Transaction, caller: Caller, org: str | None) -> Caller:
    """The caller, acting in the org of the location."""
    if org is None or org == caller.org:
        return caller
    found = access.find_org(tx, org)
    if found is None:
        raise NotFound(f"Org {org[:64]!r} was not found; `tracelake admin org list` lists them.")
    return replace(caller, org_id=found.id, org=found.name, name=f"{caller.org}/{caller.name}")


def _get(tx: Transaction, org: UUID, name: str) -> LocationRow:
    known = store.locations(tx, org)
    if name not in known:
        raise NotFound(f"Location {name[:128]!r} was not found in this org; {did_you_mean(name, known, '`tracelake admin location list` lists them.')}")
    return known[name]


def _named(roles: Collection[str]) -> str:
    return f"the roles {', '.join(roles)}" if roles else "no roles"


def _location(row: LocationRow) -> Location:
    known = asdict(row)
    del known["id"]
    return Location.model_validate(known)


def _audit(tx: Transaction, caller: Caller, action: str, name: str, detail: dict[str, object]) -> None:
    access.append_audit(tx, org=caller.org_id, actor=caller.name, action=action, object=name, detail=detail)
