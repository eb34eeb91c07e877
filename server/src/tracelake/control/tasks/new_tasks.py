"""New tasks: one for each event that passes a subscriber's filter, and one for each request."""

from collections import Counter
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tracelake.control.dags.store import Job, SubscribedInput
from tracelake.control.database.transactions import Transaction
from tracelake.control.tasks import store
from tracelake.control.tasks.rows import NewTask
from tracelake_sdk.tasks import TriggerKind, Waits


@dataclass(frozen=True, slots=True)
class WantedTask:
    """A task to make: for which job, and why."""

    id: UUID
    job: SubscribedInput | Job
    trigger_kind: TriggerKind
    trigger_id: UUID
    scope: dict[str, Any] | None = None
    request: dict[str, Any] | None = None


def make_tasks(tx: Transaction, org: UUID, wanted: list[WantedTask]) -> set[UUID]:
    """Makes the tasks and returns the pools in which one became claimable.

    Call it under the routing locks, and under the locks of the lines of jobs with turns.
    """
    if not wanted:
        return set()
    tasks = _with_ordinals(tx, wanted)
    store.add(tx, org=org, tasks=tasks)
    pools = {task.pool_id for task in tasks if task.waits is None}
    turns = {want.job.generation_id: want.job.turns for want in wanted if want.job.turns is not None and not want.job.paused}
    ordered = {want.job.generation_id for want in wanted if want.job.ordered}
    return pools | (store.admit(tx, turns, ordered=ordered) if turns else set())


def _with_ordinals(tx: Transaction, wanted: list[WantedTask]) -> list[NewTask]:
    """The rows to add; those of jobs with turns get the next numbers of their line."""
    counts = Counter(want.job.generation_id for want in wanted if want.job.turns is not None)
    ordinals = {generation: store.draw_ordinals(tx, generation=generation, count=counts[generation]) for generation in sorted(counts)}
    tasks: list[NewTask] = []
    for want in wanted:
        ordinal = ordinals.get(want.job.generation_id)
        if ordinal is not None:
            ordinals[want.job.generation_id] = ordinal + 1
        tasks.append(_new_task(want, ordinal))
    return tasks


def _new_task(want: WantedTask, ordinal: int | None) -> NewTask:
    job = want.job
    waits = Waits.PAUSED if job.paused else Waits.TURN if ordinal is not None else None
    return NewTask(want.id, job.dag_id, job.generation_id, job.pool_id, want.trigger_kind, want.trigger_id, want.scope, want.request, ordinal, waits)
