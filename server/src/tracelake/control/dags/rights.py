"""Rights on one DAG: who may deploy and trigger it. A DAG on which a caller has neither does not exist for it, unless it is an auditor.

Admins have both on every DAG. What a service holds counts as far as its token's scopes go.
"""

from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.dags import store
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.access import DagRight
from tracelake_sdk.errors import Forbidden, NotFound

_ALL = frozenset(DagRight)


def all_visible(tx: Transaction, caller: Caller) -> list[UUID] | None:
    """Every DAG whose jobs and tasks the caller may look at; None: all of the org."""
    return None if caller.sees_all else list(_held(tx, caller, None))


def require_visible(tx: Transaction, caller: Caller, dag: UUID, *, missing: str) -> None:
    """Raises NotFound, with the sentence of a DAG that is not there."""
    if not (caller.sees_all or _held(tx, caller, [dag])):
        raise NotFound(missing)


def require(tx: Transaction, caller: Caller, dag: UUID, right: DagRight, *, missing: str) -> None:
    """Raises NotFound where the caller may not even look at it, else Forbidden."""
    held = _ALL if caller.is_admin else _held(tx, caller, [dag]).get(dag, frozenset[DagRight]())
    if right in held:
        return
    if not held and not caller.sees_all:
        raise NotFound(missing)
    raise Forbidden(f"This needs the right `{right}` on the DAG; ask an admin of org {caller.org} to grant it to one of your roles.")


def _held(tx: Transaction, caller: Caller, dags: list[UUID] | None) -> dict[UUID, frozenset[DagRight]]:
    found = store.rights_held(tx, org=caller.org_id, roles=sorted(caller.roles), user=caller.user_id, token=caller.token_id, dags=dags)
    return {dag: frozenset(DagRight(right) for right in held) for dag, held in found.items()}
