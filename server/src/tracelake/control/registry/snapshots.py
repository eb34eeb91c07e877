"""Snapshots: a name pinned to one version of a dataset, given by a user on demand."""

from dataclasses import asdict, dataclass

from tracelake.control.access import store as access
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.registry import store
from tracelake.control.registry.reading import all_visible, find, readable, visible
from tracelake.control.registry.store import SnapshotRow
from tracelake_sdk.datasets import Snapshot
from tracelake_sdk.errors import Forbidden, Invalid, NameTaken, NotFound
from tracelake_sdk.suggestions import did_you_mean


@dataclass(frozen=True)
class SnapshotService:
    database: Database

    def pin(self, caller: Caller, dataset: str, name: str, *, version: int | None = None, dry_run: bool = False) -> Snapshot:
        """Gives the name to this version, or to the current one. Needs permission to read the dataset; repeating the same pin changes nothing."""
        caller.require(Permission.OPERATE)
        with self.database.transaction("pin_version", role=DatabaseRole.DEFINE) as tx:
            store.lock_org(tx, caller.org_id)
            id = find(tx, caller, dataset)
            if id not in readable(tx, caller, [id]):
                raise Forbidden(f"To pin a version of {dataset} you need permission to read its rows; ask an admin of org {caller.org}.")
            if store.facts(tx, [id])[id].name is None:
                raise Invalid(f"The dataset {dataset} is not published, so its versions cannot be pinned; add it to `publish` in the DAG file.")
            number = version or store.current_version(tx, id)
            if number is None:
                raise Invalid(f"The dataset {dataset} has no version yet to pin.")
            if not store.has_version(tx, dataset=id, version=number):
                raise NotFound(f"The dataset {dataset} has no version {number}; `tracelake dataset show {dataset}` lists them.")
            there = store.snapshots(tx, org=caller.org_id, name=name)
            if there and (there[0].dataset_id, there[0].version) == (id, number):
                return _snapshot(there[0])
            if there or store.called(tx, org=caller.org_id, name=name, id=None) is not None:
                raise NameTaken(f"The name {name!r} is already used in this org; choose another name.")
            if dry_run:
                return Snapshot(name=name, dataset_uuid=id, dataset=store.facts(tx, [id])[id].name, version=number, actor=caller.name, at=None)
            store.add_snapshot(
                tx, org=caller.org_id, name=name, dataset=id, version=number, actor=caller.name, user=caller.user_id, token=caller.token_id
            )
            _audit(tx, caller, "pin_version", name, {"dataset": str(id), "version": number})
            return _snapshot(store.snapshots(tx, org=caller.org_id, name=name)[0])

    def unpin(self, caller: Caller, name: str, *, dry_run: bool = False) -> Snapshot:
        """Removes the name; allowed for its creator and admins. Past reads under the name are not affected."""
        caller.require(Permission.OPERATE)
        with self.database.transaction("unpin_version", role=DatabaseRole.DEFINE) as tx:
            store.lock_org(tx, caller.org_id)
            found = store.snapshots(tx, org=caller.org_id, name=name)
            if not found or found[0].dataset_id not in visible(tx, caller, [found[0].dataset_id]):
                known = store.snapshots(tx, org=caller.org_id)
                seen = visible(tx, caller, {row.dataset_id for row in known})
                advice = did_you_mean(name, [row.name for row in known if row.dataset_id in seen], "`tracelake dataset snapshots` lists them.")
                raise NotFound(f"Snapshot {name[:128]!r} was not found in this org; {advice}")
            mine = (caller.user_id, caller.token_id) == (found[0].user_id, found[0].token_id)
            if not (mine or caller.is_admin):
                raise Forbidden(f"{found[0].actor} created this snapshot; only that user or an admin of org {caller.org} may remove it.")
            if not dry_run:
                store.drop_snapshot(tx, org=caller.org_id, name=name)
                _audit(tx, caller, "unpin_version", name, {"dataset": str(found[0].dataset_id), "version": found[0].version})
            return _snapshot(found[0])

    def list_snapshots(self, caller: Caller) -> list[Snapshot]:
        caller.require(Permission.READ)
        with self.database.transaction("list_snapshots") as tx:
            return [_snapshot(row) for row in store.snapshots(tx, org=caller.org_id, datasets=all_visible(tx, caller))]


def _snapshot(row: SnapshotRow) -> Snapshot:
    return Snapshot.model_validate(asdict(row) | {"dataset_uuid": row.dataset_id})


def _audit(tx: Transaction, caller: Caller, action: str, object: str, detail: dict[str, object]) -> None:
    access.append_audit(tx, org=caller.org_id, actor=caller.name, action=action, object=object, detail=detail)
