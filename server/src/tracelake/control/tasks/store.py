"""The queries of the task tables that `claims`, `completions` and this package share, one function per query."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.tasks.judgement import AttemptRow, LockedTask
from tracelake.control.tasks.rows import (
    AttemptView,
    CausedRow,
    EndedAttempt,
    NewestCount,
    NewTask,
    PostedBatch,
    SweepableAttempt,
    TaskKeys,
    TaskRow,
    UnfinishedCount,
)
from tracelake_sdk.tasks import TaskState

sql = load(__name__, "tasks.sql")

SUPERSEDED_BEFORE_ALONE = 2  # how often a task's result may be out of date before its line is reserved for it


def lock_lines(tx: Transaction, generations: list[UUID]) -> None:
    tx.run(sql["lock_lines"], generations=generations)


def draw_ordinals(tx: Transaction, *, generation: UUID, count: int) -> int:
    """The first of `count` fresh ordinals."""
    return tx.value(sql["draw_ordinals"], generation=generation, count=count)


def add(tx: Transaction, *, org: UUID, tasks: list[NewTask]) -> None:
    tx.run(
        sql["add"],
        org=org,
        ids=[t.id for t in tasks],
        dags=[t.dag_id for t in tasks],
        generations=[t.generation_id for t in tasks],
        pools=[t.pool_id for t in tasks],
        trigger_kinds=[t.trigger_kind.value for t in tasks],
        triggers=[t.trigger_id for t in tasks],
        scopes=[_json(t.scope) for t in tasks],
        requests=[_json(t.request) for t in tasks],
        ordinals=[t.ordinal for t in tasks],
        waits=[t.waits.value if t.waits else None for t in tasks],
    )


def admit(tx: Transaction, turns: dict[UUID, int], *, ordered: set[UUID]) -> set[UUID]:
    """The pools in which a task became claimable; `ordered`: the generations of ordered jobs."""
    return set(tx.values(sql["admit"], generations=list(turns), turns=list(turns.values()), ordered=[generation in ordered for generation in turns]))


def place(tx: Transaction, tasks: list[UUID]) -> set[UUID]:
    """The pools in which a task became claimable, or may with the next `admit`."""
    return set(tx.values(sql["place"], tasks=tasks))


def hold(tx: Transaction, tasks: list[UUID]) -> set[UUID]:
    """The tasks that are now held; tasks that adopt a batch are not."""
    return set(tx.values(sql["hold"], tasks=tasks))


def queued_of_generations(tx: Transaction, generations: list[UUID], *, pools: list[UUID]) -> list[UUID]:
    return tx.values(sql["queued_of_generations"], generations=generations, pools=pools)


def paused_of_generations(tx: Transaction, generations: list[UUID]) -> list[UUID]:
    return tx.values(sql["paused_of_generations"], generations=generations)


def keys_of(tx: Transaction, *, org: UUID, tasks: list[UUID]) -> list[TaskKeys]:
    return tx.all(TaskKeys, sql["keys_of"], org=org, tasks=tasks)


def lock(tx: Transaction, *, org: UUID, tasks: list[UUID]) -> dict[UUID, LockedTask]:
    return send_lock(tx, org=org, tasks=tasks).result()


def send_lock(tx: Transaction, *, org: UUID, tasks: list[UUID]) -> Pending[dict[UUID, LockedTask]]:
    return tx.send(LockedTask, sql["lock"], org=org, tasks=tasks).then(_by_id)


def attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], AttemptRow]:
    return send_attempts(tx, fences).result()


def send_attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> Pending[dict[tuple[UUID, int], AttemptRow]]:
    rows = tx.send(AttemptRow, sql["attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
    return rows.then(lambda found: {(row.task_id, row.attempt): row for row in found})


def move(tx: Transaction, ended: list[EndedAttempt], *, now: datetime | None) -> None:
    tx.run(
        sql["move"],
        now=now,
        tasks=[e.task.id for e in ended],
        states=[e.ending.state.value for e in ended],
        failures=[e.ending.failures for e in ended],
        retry_in=[e.ending.retry_in for e in ended],
        waits=[e.ending.waits.value for e in ended],
    )


def end_attempts(tx: Transaction, ended: list[EndedAttempt], *, now: datetime | None) -> None:
    tx.run(
        sql["end_attempts"],
        now=now,
        tasks=[e.task.id for e in ended],
        attempts=[e.attempt for e in ended],
        outcomes=[e.ending.outcome.value for e in ended],
        error_classes=[e.ending.error_class for e in ended],
        error_messages=[e.ending.error_message for e in ended],
        bodies=[e.body_sha256 for e in ended],
        results=[e.answer.model_dump_json() if e.answer else None for e in ended],
        summaries=[wire_json.text(e.summary) for e in ended],
    )


def request_cancel(tx: Transaction, task: UUID) -> None:
    tx.run(sql["request_cancel"], task=task)


def get_task(tx: Transaction, *, org: UUID, task: UUID) -> TaskRow:
    return tx.get(TaskRow, sql["find_task"], no_task(task), org=org, task=task)


def no_task(task: UUID) -> str:
    return f"Task {task} was not found in this org."


def page(
    tx: Transaction,
    *,
    org: UUID,
    before: UUID | None,
    dag: str | None,
    job: str | None,
    state: TaskState | None,
    limit: int,
    dags: list[UUID] | None = None,
) -> list[TaskRow]:
    """`dags`: only of these; None: of all."""
    return tx.all(TaskRow, sql["page"], org=org, before=before, dag=dag, job=job, state=state.value if state else None, limit=limit, dags=dags)


def attempts_of_task(tx: Transaction, task: UUID) -> list[AttemptView]:
    return tx.all(AttemptView, sql["attempts_of_task"], task=task)


def caused(tx: Transaction, *, org: UUID, task: UUID, dags: list[UUID] | None, most: int) -> list[CausedRow]:
    """The task and its cascade, in these DAGs (None: in all), with at most `most` ids of each."""
    return tx.all(CausedRow, sql["caused"], org=org, task=task, dags=dags, most=most)


def newest(tx: Transaction, generations: list[UUID], *, limit: int) -> list[NewestCount]:
    """By state, of so many tasks of each generation."""
    return tx.all(NewestCount, sql["newest"], generations=generations, newest=limit)


def unfinished(tx: Transaction, generations: list[UUID] | None = None) -> list[UnfinishedCount]:
    """Of these generations, or of all, the largest number first."""
    return tx.all(UnfinishedCount, sql["unfinished"], generations=generations)


def release_lines(tx: Transaction, tasks: list[UUID]) -> None:
    """Releases the lines that were reserved for these tasks, or reserves them for the next task."""
    tx.run(sql["release_lines"], tasks=tasks, superseded=SUPERSEDED_BEFORE_ALONE)


def batches_of_task(tx: Transaction, task: UUID) -> list[PostedBatch]:
    return tx.all(PostedBatch, sql["batches_of_task"], task=task)


def batch_to_adopt(tx: Transaction, batch: UUID) -> PostedBatch | None:
    """The batch that a task was triggered by."""
    return tx.find(PostedBatch, sql["batch_to_adopt"], batch=batch)


def to_sweep(tx: Transaction, *, retention: timedelta, room: int, now: datetime | None) -> list[SweepableAttempt]:
    return tx.all(SweepableAttempt, sql["to_sweep"], retention=retention, room=room, now=now)


def postpone_sweep(tx: Transaction, task: UUID, attempt: int, *, pause: timedelta) -> None:
    tx.run(sql["postpone_sweep"], task=task, attempt=attempt, pause=pause)


def mark_swept(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> None:
    tx.run(sql["mark_swept"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])


def _by_id(tasks: list[LockedTask]) -> dict[UUID, LockedTask]:
    return {task.id: task for task in tasks}


def _json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else wire_json.text(value)
