"""Requests: a person or a service requests a run of a source job, which is one task."""

import hashlib
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.dags import permissions
from tracelake.control.dags import store as dags
from tracelake.control.dags.store import Job
from tracelake.control.database import idempotency
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.tasks import store
from tracelake.control.tasks.new_tasks import WantedTask, make_tasks
from tracelake.control.tasks.notifications import WakePools
from tracelake_sdk.access import DagRight
from tracelake_sdk.dags import Activation, UpdateStrategy
from tracelake_sdk.dags.operators import EmitConfig, EmitRequest
from tracelake_sdk.dags.run_requests import check_request
from tracelake_sdk.errors import IdempotencyConflict, Invalid
from tracelake_sdk.tasks import TriggerKind

REQUEST = "request"


@dataclass(frozen=True)
class Requests:
    database: Database
    wake: WakePools

    def run(self, caller: Caller, dag: str, job: str, request: dict[str, Any], *, idempotency_key: str | None) -> UUID:
        """The id of the task; the same key with the same request returns the first one's."""
        caller.require(Permission.OPERATE)
        with self.database.transaction("accept") as tx:
            found = permissions.get_job(tx, caller, dag, job)
            permissions.require(tx, caller, found.dag_id, DagRight.TRIGGER)
            dags.lock_routing_shared(tx, [found.dag_id])
            if found.turns is not None:
                store.lock_lines(tx, [found.generation_id])
            found = permissions.get_job(tx, caller, dag, job)  # again, under the locks
            checked = _checked(found, request)
            task = new_id()
            first = _first_with_key(tx, caller, idempotency_key, found, checked, task)
            if first != task:
                return first
            pools = make_tasks(tx, caller.org_id, [WantedTask(task, found, TriggerKind.REQUEST, new_id(), request=checked)])
        self.wake(pools)
        return task


def _checked(job: Job, request: dict[str, Any]) -> dict[str, Any]:
    """The request in the form that the job's operator takes, or the reason why not."""
    is_source, replaces = job.stored.activation is Activation.SOURCE, job.stored.update_strategy is UpdateStrategy.REPLACE
    checked = check_request(job.key, job.stored.operator_spec, request, is_source=is_source, replaces=replaces)
    if isinstance(checked, EmitRequest):
        _check_cursors(job, checked)
    return checked.model_dump(mode="json")


def _check_cursors(job: Job, request: EmitRequest) -> None:
    cursor = EmitConfig.model_validate(job.stored.config).cursor
    if not cursor.fits(request.cursors[0]):
        raise Invalid(f"The cursors of {job.key} are of type {cursor.value}; send whole numbers for integer, times for timestamp.")


def _first_with_key(tx: Transaction, caller: Caller, key: str | None, job: Job, request: dict[str, Any], task: UUID) -> UUID:
    """The task of the first request with this key: `task` itself if this is the first."""
    if key is None:
        return task
    name = hashlib.sha256(key.encode()).digest()
    body = hashlib.sha256(wire_json.encode([job.key, request], sort_keys=True)).digest()
    if idempotency.remember_first(tx, org=caller.org_id, kind=REQUEST, key=name, body=body, id=task):
        return task
    earlier = idempotency.known(tx, org=caller.org_id, kind=REQUEST, keys=[name])[name]
    if earlier.body_sha256 != body:
        raise IdempotencyConflict
    return earlier.id
