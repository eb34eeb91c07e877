"""One run in full, as far as the caller may see it."""

from dataclasses import asdict
from uuid import UUID

from tracelake.control.access.callers import Caller, Permission
from tracelake.control.dags import permissions
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.explain import store
from tracelake.control.explain.store import WholeRun
from tracelake.control.promotion.service import decision_of
from tracelake.control.registry import reading
from tracelake.control.versions.spans import scope_of
from tracelake_sdk.datasets import PinnedVersion
from tracelake_sdk.errors import NotFound
from tracelake_sdk.tasks.runs import RunDetail

_LONGEST_ID = 100


def run_detail(database: Database, caller: Caller, run_id: str) -> RunDetail:
    """Raises NotFound for a run that does not exist or that the caller may not see."""
    caller.require(Permission.READ)
    missing = f"Run {run_id[:_LONGEST_ID]!r} was not found in this org; `tracelake log` lists them."
    with database.transaction("get_run") as tx:
        row = store.find_run(tx, org=caller.org_id, run=run_id)
        if row is None:
            raise NotFound(missing)
        _require_visible(tx, caller, row, missing)
        inputs = store.inputs_of_run(tx, task=row.task_id, attempt=row.attempt)
        seen = reading.visible(tx, caller, {input.dataset_id for input in inputs})
        visible = [PinnedVersion(index=input.index, dataset_uuid=input.dataset_id, name=input.name, version=input.version) for input in inputs if input.dataset_id in seen]
        reads_rows = row.dataset_id is None or row.dataset_id in reading.readable(tx, caller, [row.dataset_id])
        return RunDetail.model_validate(
            asdict(row)
            | {
                "generation": row.generation_id,
                "scopes": [scope_of(scope) for scope in row.scopes],
                "inputs": visible,
                "hidden_inputs": len(inputs) - len(visible),
                "decision": decision_of(tx, caller, run=run_id),
                # Notes of an operator may contain row values.
                "custom": row.custom if reads_rows else {},
            }
        )


def _require_visible(tx: Transaction, caller: Caller, row: WholeRun, missing: str) -> None:
    """A run is visible with its dataset; a run without dataset to callers with a permission on its DAG."""
    if row.dataset_id is None:
        permissions.require_visible(tx, caller, row.dag_id, missing=missing)
        return
    found: set[UUID] = reading.visible(tx, caller, [row.dataset_id])
    if not found:
        raise NotFound(missing)
