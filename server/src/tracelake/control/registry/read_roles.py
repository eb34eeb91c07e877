"""Read roles: which roles read a dataset. An admin's act, never part of a DAG file."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.administration import role_ids
from tracelake.control.access.callers import Caller, Right
from tracelake.control.database.transactions import Database, Role, Transaction
from tracelake.control.registry import store
from tracelake.control.registry.reading import find
from tracelake_sdk.access import ReadRoles


@dataclass(frozen=True)
class Reading:
    database: Database

    def read_roles(self, caller: Caller, dataset: str) -> ReadRoles:
        caller.require(Right.ADMINISTER)
        with self.database.transaction("read_roles") as tx:
            id = find(tx, caller, dataset)
            return _told(tx, id, store.read_roles(tx, id))

    def set_read_roles(self, caller: Caller, dataset: str, roles: Collection[str], *, dry_run: bool = False) -> ReadRoles:
        """Exactly these roles from now on; none: only those who deploy or trigger its DAG, and the admins."""
        caller.require(Right.ADMINISTER)
        with self.database.transaction("set_read_roles", role=Role.DEFINE) as tx:
            access.lock_access(tx, caller.org_id)
            id = find(tx, caller, dataset)
            ids = role_ids(tx, caller, roles)
            before = store.read_roles(tx, id)
            if sorted(ids) != before and not dry_run:
                store.set_read_roles(tx, dataset=id, roles=sorted(ids.values()))
                detail = {"before": before, "after": sorted(ids)}
                access.append_audit(tx, org=caller.org_id, actor=caller.name, action="set_read_roles", object=str(id), detail=detail)
            return _told(tx, id, sorted(ids))


def _told(tx: Transaction, id: UUID, roles: list[str]) -> ReadRoles:
    return ReadRoles(dataset_uuid=id, dataset=store.facts(tx, [id])[id].name, roles=roles)
