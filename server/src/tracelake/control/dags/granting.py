"""Granting: admins grant and revoke permissions on one DAG. The creator of a DAG has both from the start."""

from dataclasses import asdict, dataclass
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.administration import role_ids
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.dags import permissions, store
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake_sdk.access import DagRight, Grant
from tracelake_sdk.errors import Invalid, NotFound


@dataclass(frozen=True)
class Holder:
    """Who has a permission: a role, or the user or service that created the DAG."""

    role: str | None = None
    user: str | None = None
    service: str | None = None

    def check(self) -> None:
        """Raises Invalid."""
        if [self.role, self.user, self.service].count(None) != 2:
            raise Invalid("Name one holder: a role, or the user or service that created the DAG.")

    def __str__(self) -> str:
        return f"role {self.role}" if self.role else f"user {self.user}" if self.user else f"service {self.service}"


@dataclass(frozen=True)
class Granting:
    database: Database

    def grant(self, caller: Caller, dag: str, right: DagRight, role: str, *, dry_run: bool = False) -> list[Grant]:
        """Returns the DAG's grants; an existing grant does not change."""
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("grant", role=DatabaseRole.DEFINE) as tx:
            access.lock_access(tx, caller.org_id)
            found = permissions.get_dag(tx, caller, dag)
            id = role_ids(tx, caller, [role])[role]
            there = any(grant.role == role and grant.right is right for grant in _grants(tx, caller, found.id))
            if not there and not dry_run:
                store.add_grant(tx, dag=found.id, right=right.value, role=id, actor=caller.name)
                _audit(tx, caller, "grant", dag, right, f"role {role}")
            return _grants(tx, caller, found.id)

    def revoke(self, caller: Caller, dag: str, right: DagRight, holder: Holder, *, dry_run: bool = False) -> list[Grant]:
        """Returns the DAG's remaining grants."""
        caller.require(Permission.ADMINISTER)
        holder.check()
        with self.database.transaction("revoke_grant", role=DatabaseRole.DEFINE) as tx:
            access.lock_access(tx, caller.org_id)
            found = permissions.get_dag(tx, caller, dag)
            held = [grant for grant in _grants(tx, caller, found.id) if grant.right is right and Holder(grant.role, grant.user, grant.service) == holder]
            if not held:
                raise NotFound(f"The {holder} does not have the permission `{right}` on DAG {dag}; `tracelake admin grant list {dag}` lists who does.")
            if not dry_run:
                store.remove_grants(
                    tx, org=caller.org_id, dag=found.id, right=right.value, role=holder.role, user=holder.user, service=holder.service
                )
                _audit(tx, caller, "revoke_grant", dag, right, str(holder))
            return _grants(tx, caller, found.id)

    def list_grants(self, caller: Caller, dag: str | None = None) -> list[Grant]:
        caller.require(Permission.ADMINISTER)
        with self.database.transaction("list_grants") as tx:
            return _grants(tx, caller, permissions.get_dag(tx, caller, dag).id if dag else None)


def grant_to_creator(tx: Transaction, caller: Caller, dag: UUID) -> None:
    for right in DagRight:
        store.add_grant(tx, dag=dag, right=right.value, user=caller.user_id, token=caller.token_id, actor=caller.name)


def _grants(tx: Transaction, caller: Caller, dag: UUID | None) -> list[Grant]:
    return [Grant.model_validate(asdict(row)) for row in store.grants(tx, org=caller.org_id, dag=dag)]


def _audit(tx: Transaction, caller: Caller, action: str, dag: str, right: DagRight, holder: str) -> None:
    access.append_audit(tx, org=caller.org_id, actor=caller.name, action=action, object=dag, detail={"right": right.value, "holder": holder})
