"""The task tables as completions read and write them, one function per query."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.tasks.completions.rows import ChangeToRecord, LostBatch, OutputToRecord, PinnedParent
from tracelake.control.tasks.fingerprints import Pin
from tracelake.control.tasks.judgement import LockedTask
from tracelake.control.tasks.rows import PostedBatch
from tracelake_sdk.tasks import TaskState

sql = load(__name__, "completions.sql")


def send_clock(tx: Transaction, *, now: datetime | None) -> Pending[datetime]:
    return tx.send_tuples(sql["clock"], now=now).then(lambda found: found[0][0])


def run_id(task: UUID, attempt: int, output_index: int, outputs: int) -> str:
    """The id of one attempt at one output."""
    return f"{task}:{attempt}" if outputs == 1 else f"{task}:{attempt}:{output_index}"


def send_parents(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> Pending[dict[tuple[UUID, int], list[PinnedParent]]]:
    """By task and attempt, in the order of the inputs."""
    rows = tx.send_tuples(sql["parents_of_attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
    return rows.then(_parents)


def _parents(rows: list[tuple[Any, ...]]) -> dict[tuple[UUID, int], list[PinnedParent]]:
    found: dict[tuple[UUID, int], list[PinnedParent]] = {}
    for task, attempt, index, dataset, dataset_version, version, *known in rows:
        found.setdefault((task, attempt), []).append(PinnedParent(Pin(index, dataset, dataset_version, version), *known))
    return found


def holds_lease(tx: Transaction, task: UUID, attempt: int) -> bool:
    return tx.value(sql["holds_lease"], task=task, attempt=attempt)


def rebase(tx: Transaction, *, task: UUID, attempt: int, base: int) -> None:
    tx.run(sql["rebase"], task=task, attempt=attempt, base=base)


def count_superseded(tx: Transaction, tasks: list[UUID]) -> None:
    tx.run(sql["count_superseded"], tasks=tasks)


def record(tx: Transaction, tasks: list[UUID], *, at: datetime) -> None:
    tx.run(sql["record"], tasks=tasks, at=at)


def send_changes_to_record(tx: Transaction, *, generation: UUID, last: int) -> Pending[list[ChangeToRecord]]:
    return tx.send(ChangeToRecord, sql["changes_to_record"], generation=generation, last=last)


def send_outputs_to_record(tx: Transaction, *, generation: UUID, last: int) -> Pending[list[OutputToRecord]]:
    """One row for each scope that a change wrote of an output; one row without a scope for an output without scopes."""
    return tx.send(OutputToRecord, sql["outputs_to_record"], generation=generation, last=last)


def send_versions(tx: Transaction, *, generation: UUID, last: int) -> Pending[dict[UUID, int]]:
    """By dataset: the number of the version that its log entry becomes."""
    return tx.send_tuples(sql["draw_versions"], generation=generation, last=last).then(dict)


def send_lock_changed(tx: Transaction, *, generation: UUID, last: int) -> Pending[dict[UUID, LockedTask]]:
    return tx.send(LockedTask, sql["lock_changed"], generation=generation, last=last).then(lambda found: {task.id: task for task in found})


def send_states_of_batches(tx: Transaction, tasks: list[UUID]) -> Pending[dict[UUID, dict[UUID, TaskState]]]:
    """By task, and by batch that it posted: the state of the task that adopts it."""
    return tx.send_tuples(sql["states_of_batches"], tasks=tasks).then(lambda rows: _by_producer(tasks, rows))


def _by_producer(tasks: list[UUID], rows: list[tuple[Any, ...]]) -> dict[UUID, dict[UUID, TaskState]]:
    found: dict[UUID, dict[UUID, TaskState]] = {task: {} for task in tasks}
    for task, batch, state in rows:
        found[task][batch] = TaskState(state)
    return found


def lost_batches(tx: Transaction, task: UUID) -> list[LostBatch]:
    return tx.all(LostBatch, sql["lost_batches"], task=task)


def add_batch(tx: Transaction, batch: PostedBatch, *, org: UUID) -> None:
    tx.run(
        sql["add_batch"],
        id=batch.id,
        org=org,
        producer=batch.producer_task_id,
        attempt=batch.attempt,
        name=batch.name,
        output=batch.output_index,
        files=batch.files,
        state=None if batch.state is None else wire_json.text(batch.state),
        task=batch.task_id,
    )
