"""Unfinished tasks: how they continue under another definition of their job. Pure.

Queued tasks move to the job's new pool, and tasks that were never claimed take its new turns. A claimed task keeps its turn,
or none: its report may arrive at any moment and must find the turn unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from tracelake_sdk.tasks import TaskState, TriggerKind, Waits


@dataclass(frozen=True)
class UnfinishedTask:
    """A queued or running task of one job."""

    id: UUID
    pool_id: UUID
    state: str
    waits: str | None
    seq: int | None
    ordinal: int | None
    attempt: int
    trigger_kind: str
    placed: bool = False  # it gets a new place in the queue


def adapt(tasks: Sequence[UnfinishedTask], *, pool: UUID, turns: int | None, next_ordinal: int) -> list[UnfinishedTask]:
    """The changed tasks, in the order in which they get their places in the queue; `next_ordinal` is the first free one."""
    before = sorted(tasks, key=lambda task: (task.seq is None, task.seq or 0, task.id))
    turned = _without_turns(before) if turns is None else _with_turns(before, turns, next_ordinal)
    moved = [replace(task, pool_id=pool, placed=task.placed or (task.seq is not None and task.pool_id != pool)) for task in turned]
    known = {task.id: task for task in before}
    return [task for task in moved if task != known[task.id]]


def takes_turns(task: UnfinishedTask) -> bool:
    """Whether the task still needs an ordinal; the task of a batch never has one."""
    fresh = task.state == TaskState.QUEUED.value and task.attempt == 0
    return fresh and task.ordinal is None and task.trigger_kind != TriggerKind.BATCH.value


def _without_turns(tasks: Sequence[UnfinishedTask]) -> list[UnfinishedTask]:
    return [
        replace(task, ordinal=None, waits=None, placed=True) if task.waits == Waits.TURN.value else replace(task, ordinal=None)
        for task in tasks
    ]


def _with_turns(tasks: Sequence[UnfinishedTask], turns: int, next_ordinal: int) -> list[UnfinishedTask]:
    numbered: list[UnfinishedTask] = []
    for task in tasks:
        numbered.append(replace(task, ordinal=next_ordinal) if takes_turns(task) else task)
        next_ordinal += 1 if takes_turns(task) else 0
    in_order = sorted((task for task in numbered if task.ordinal is not None), key=lambda task: task.ordinal or 0)
    admitted = {task.id for task in in_order[:turns]}
    return [_take_turn(task, task.id in admitted) if task.ordinal is not None else task for task in numbered]


def _take_turn(task: UnfinishedTask, admitted: bool) -> UnfinishedTask:
    if admitted and task.waits == Waits.TURN.value:
        return replace(task, waits=None, placed=True)
    if not admitted and task.seq is not None:
        return replace(task, seq=None, waits=Waits.TURN.value)
    return task
