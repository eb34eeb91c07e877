"""Permissions on one DAG: who may deploy and trigger it. A caller with neither does not see the DAG, unless it is an auditor.

Admins have both on every DAG. A service has a permission only if its token has the matching scope.
"""

from collections.abc import Collection
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.dags import store
from tracelake.control.dags.store import Dag, Job
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.access import DagRight
from tracelake_sdk.errors import Forbidden, NotFound
from tracelake_sdk.suggestions import did_you_mean

_LONGEST_NAME = 128


def all_visible(tx: Transaction, caller: Caller) -> list[UUID] | None:
    """Every DAG whose jobs and tasks the caller may see; None: all of the org."""
    return None if caller.sees_all else list(_held(tx, caller, None))


def deployable(tx: Transaction, caller: Caller, dags: Collection[UUID]) -> set[UUID]:
    """Which of these DAGs the caller may deploy."""
    if caller.is_admin or not dags:
        return set(dags)
    return {dag for dag, held in _held(tx, caller, list(dags)).items() if DagRight.DEPLOY in held}


def get_dag(tx: Transaction, caller: Caller, name: str) -> Dag:
    """A DAG that the caller may see; raises NotFound with the nearest visible name."""
    found = store.find_dag(tx, org=caller.org_id, name=name)
    if found is None or not is_visible(tx, caller, found.id):
        seen = all_visible(tx, caller)
        names = [dag.name for dag in store.list_dags(tx, org=caller.org_id, name=None) if seen is None or dag.id in seen]
        raise NotFound(f"DAG {name[:_LONGEST_NAME]!r} was not found in this org; {did_you_mean(name, names, '`tracelake status` lists them.')}")
    return found


def get_job(tx: Transaction, caller: Caller, dag: str, job: str) -> Job:
    """A job of the active version of a DAG that the caller may see; raises NotFound with the nearest visible name."""
    id = get_dag(tx, caller, dag).id
    found = store.find_job(tx, org=caller.org_id, dag=dag, job=job)
    if found is None:
        raise NotFound(no_job(tx, id, dag, job))
    return found


def no_job(tx: Transaction, id: UUID, dag: str, job: str | None) -> str:
    """The error sentence for a job that a visible DAG does not have."""
    names = [f"{dag}/{pause.name}" for pause in store.pauses_of_dag(tx, id)]
    return f"Job {dag}/{job} was not found in this org; {did_you_mean(f'{dag}/{job}', names, f'`tracelake status {dag}` lists its jobs.')}"


def is_visible(tx: Transaction, caller: Caller, dag: UUID) -> bool:
    return caller.sees_all or bool(_held(tx, caller, [dag]))


def require_visible(tx: Transaction, caller: Caller, dag: UUID, *, missing: str) -> None:
    """Raises NotFound, with the same sentence as for a missing DAG."""
    if not is_visible(tx, caller, dag):
        raise NotFound(missing)


def require(tx: Transaction, caller: Caller, dag: UUID, right: DagRight) -> None:
    """For a DAG that the caller may see; raises Forbidden."""
    if not caller.is_admin and right not in _held(tx, caller, [dag]).get(dag, ()):
        raise Forbidden(f"This needs the permission `{right}` on the DAG; ask an admin of org {caller.org} to grant it to one of your roles.")


def _held(tx: Transaction, caller: Caller, dags: list[UUID] | None) -> dict[UUID, frozenset[DagRight]]:
    found = store.rights_held(tx, org=caller.org_id, roles=sorted(caller.roles), user=caller.user_id, token=caller.token_id, dags=dags)
    return {dag: frozenset(DagRight(right) for right in held) for dag, held in found.items()}
