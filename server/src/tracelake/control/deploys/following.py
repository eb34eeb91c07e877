"""Following: how tasks that are not done yet go on under another definition of their job. Pure.

Queued tasks go to the job's new pool, and never claimed ones take its new turns. What was claimed before keeps the turn it
has, or none: its report may come at any moment, and must find its turn as it left it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from tracelake_sdk.tasks import TaskState, TriggerKind, Waits


@dataclass(frozen=True)
class Unfinished:
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


def follow(tasks: Sequence[Unfinished], *, pool: UUID, turns: int | None, next_ordinal: int) -> list[Unfinished]:
    """The tasks that change, as they are then, in the order in which they get their places; `next_ordinal` is the first free one."""
    before = sorted(tasks, key=lambda task: (task.seq is None, task.seq or 0, task.id))
    turned = _without_turns(before) if turns is None else _with_turns(before, turns, next_ordinal)
    moved = [replace(task, pool_id=pool, placed=task.placed or (task.seq is not None and task.pool_id != pool)) for task in turned]
    known = {task.id: task for task in before}
    return [task for task in moved if task != known[task.id]]


def takes_turns(task: Unfinished) -> bool:
    """Whether the task needs an ordinal that it does not have; a batch's task never has one."""
    fresh = task.state == TaskState.QUEUED.value and task.attempt == 0
    return fresh and task.ordinal is None and task.trigger_kind != TriggerKind.BATCH.value


def _without_turns(tasks: Sequence[Unfinished]) -> list[Unfinished]:
    return [
        replace(task, ordinal=None, waits=None, placed=True) if task.waits == Waits.TURN.value else replace(task, ordinal=None)
        for task in tasks
    ]


def _with_turns(tasks: Sequence[Unfinished], turns: int, next_ordinal: int) -> list[Unfinished]:
    numbered: list[Unfinished] = []
    for task in tasks:
        numbered.append(replace(task, ordinal=next_ordinal) if takes_turns(task) else task)
        next_ordinal += 1 if takes_turns(task) else 0
    in_order = sorted((task for task in numbered if task.ordinal is not None), key=lambda task: task.ordinal or 0)
    admitted = {task.id for task in in_order[:turns]}
    return [_take_turn(task, task.id in admitted) if task.ordinal is not None else task for task in numbered]


def _take_turn(task: Unfinished, admitted: bool) -> Unfinished:
    if admitted and task.waits == Waits.TURN.value:
        return replace(task, waits=None, placed=True)
    if not admitted and task.seq is not None:
        return replace(task, seq=None, waits=Waits.TURN.value)
    return task
