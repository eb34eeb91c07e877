"""Read roles: which roles may read a dataset. Set by admins, never by a DAG file."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.administration import role_ids
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.registry import store
from tracelake.control.registry.reading import find
from tracelake_sdk.access import ReadRoles


@dataclass(frozen=True)
class ReadRoleService:
    database: Database

    def read_roles(self, caller: Caller, dataset: str) -> ReadRoles:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("read_roles") as tx:
            id = find(tx, caller, dataset)
            return _read_roles(tx, id, store.read_roles(tx, id))

    def set_read_roles(self, caller: Caller, dataset: str, roles: Collection[str], *, dry_run: bool = False) -> ReadRoles:
        """Sets exactly these roles; with none, only callers who may deploy or trigger its DAG and admins read it."""
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("set_read_roles", role=DatabaseRole.DEFINE) as tx:
            access.lock_access(tx, caller.org_id)
            id = find(tx, caller, dataset)
            ids = role_ids(tx, caller, roles)
            before = store.read_roles(tx, id)
            if sorted(ids) != before and not dry_run:
                store.set_read_roles(tx, dataset=id, roles=sorted(ids.values()))
                detail = {"before": before, "after": sorted(ids)}
                access.append_audit(tx, org=caller.org_id, actor=caller.name, action="set_read_roles", object=str(id), detail=detail)
            return _read_roles(tx, id, sorted(ids))


def _read_roles(tx: Transaction, id: UUID, roles: list[str]) -> ReadRoles:
    return ReadRoles(dataset_uuid=id, dataset=store.facts(tx, [id])[id].name, roles=roles)
