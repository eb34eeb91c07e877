"""The task tables, one function a query."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake.control.tasks.fingerprints import Pin
from tracelake.control.tasks.judgement import AttemptRow, Ending, LockedTask
from tracelake_sdk.tasks import CompletionAnswer, TaskState, TriggerKind, Waits

sql = load(__name__, "tasks.sql")

SUPERSEDED_BEFORE_ALONE = 2  # how often a task's result was out of date before it has its line for itself


@dataclass(frozen=True, slots=True)
class NewTask:
    id: UUID
    dag_id: UUID
    generation_id: UUID
    pool_id: UUID
    trigger_kind: TriggerKind
    trigger_id: UUID
    scope: dict[str, Any] | None
    request: dict[str, Any] | None
    ordinal: int | None
    waits: Waits | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task belongs: what must be known to take the locks before its own."""

    id: UUID
    dag_id: UUID
    generation_id: UUID
    ordinal: int | None


@dataclass(frozen=True, slots=True)
class LatePlace:
    id: UUID
    org_id: UUID
    dag_id: UUID
    generation_id: UUID
    ordinal: int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task in the queue, which somebody else may hold already."""

    id: UUID
    seq: int


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What a payload is made of."""

    id: UUID
    org_id: UUID
    generation_id: UUID
    pool_id: UUID
    attempt: int
    trigger_kind: str
    trigger_id: UUID
    scope: dict[str, Any] | None
    request: dict[str, Any] | None
    lease_expires_at: datetime | None
    open: bool = True
    state: str = TaskState.RUNNING.value


@dataclass(frozen=True, slots=True)
class NewAttempt:
    task_id: UUID
    attempt: int
    token_sha256: bytes
    state_revision: int | None
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Given:
    """What an attempt is given to build on, stored with it."""

    task_id: UUID
    attempt: int
    base: int
    scopes: dict[str, Any]  # by output index: {everything, scopes}
    pins: list[Pin]


@dataclass(frozen=True, slots=True)
class PostedBatch:
    """A finished part of a running task's work, and the task that adopts it."""

    id: UUID
    producer_task_id: UUID
    attempt: int            # whose staging folder its files are in
    name: str
    output_index: int
    files: list[str]        # below the table
    state: dict[str, Any] | None
    task_id: UUID

    def wire(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "output": self.output_index, "files": self.files}


@dataclass(frozen=True, slots=True)
class SweepableAttempt:
    """An ended attempt's staging at one output."""

    task_id: UUID
    attempt: int
    org_id: UUID
    dataset_id: UUID
    dataset_version_id: UUID


@dataclass(frozen=True, slots=True)
class ChangeToRecord:
    place: int
    task_id: UUID
    attempt: int
    custom: dict[str, Any]
    started_at: datetime


@dataclass(frozen=True, slots=True)
class OutputToRecord:
    place: int
    dataset_version_id: UUID
    table_schema: dict[str, Any]
    schema_hash: str
    row_count: int
    scope: dict[str, Any] | None
    kind: str | None


@dataclass(frozen=True, slots=True)
class ClosedAttempt:
    task_id: UUID
    attempt: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    id: UUID
    kind: str
    event_time: datetime | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that ends in this transaction, with the report that was taken, if one was."""

    task: LockedTask
    attempt: int
    ending: Ending
    body_sha256: bytes | None = None
    answer: CompletionAnswer | None = None


@dataclass(frozen=True)
class TaskRow:
    id: UUID
    dag: str
    job: str
    state: str
    waits: str | None
    trigger_kind: str
    trigger_id: UUID
    scope: dict[str, Any] | None
    attempt: int
    failures: int
    created_at: datetime
    finished_at: datetime | None
    due_at: datetime | None
    cancel_asked_at: datetime | None


@dataclass(frozen=True)
class AttemptView:
    attempt: int
    worker: str
    started_at: datetime
    last_heartbeat_at: datetime | None
    timed_out_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error_class: str | None
    error_message: str | None


@dataclass(frozen=True)
class Count:
    generation_id: UUID
    state: str
    waits: str | None
    number: int


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


def admit(tx: Transaction, turns: dict[UUID, int]) -> set[UUID]:
    """The pools in which a task became claimable."""
    return set(tx.values(sql["admit"], generations=list(turns), turns=list(turns.values())))


def place(tx: Transaction, tasks: list[UUID]) -> set[UUID]:
    """The pools in which a task became claimable, or may with the next `admit`."""
    return set(tx.values(sql["place"], tasks=tasks))


def hold(tx: Transaction, tasks: list[UUID]) -> None:
    tx.run(sql["hold"], tasks=tasks)


def queued_of_generations(tx: Transaction, generations: list[UUID], *, pools: list[UUID]) -> list[UUID]:
    return tx.values(sql["queued_of_generations"], generations=generations, pools=pools)


def paused_of_generations(tx: Transaction, generations: list[UUID]) -> list[UUID]:
    return tx.values(sql["paused_of_generations"], generations=generations)


def lock_claim(tx: Transaction, claim: bytes) -> None:
    tx.run(sql["lock_claim"], claim=claim)


def held_by_claim(tx: Transaction, *, org: UUID, claim: bytes) -> list[TaskFacts]:
    return tx.all(TaskFacts, sql["held_by_claim"], org=org, claim=claim)


def candidates(tx: Transaction, *, pool: UUID, low: int, room: int) -> list[Candidate]:
    return tx.all(Candidate, sql["candidates"], pool=pool, low=low, room=room)


def claim(tx: Transaction, tasks: list[UUID], *, lease: timedelta, now: datetime | None) -> dict[UUID, TaskFacts]:
    """Those of the tasks that nobody else holds, now running."""
    return {fact.id: fact for fact in tx.all(TaskFacts, sql["claim"], tasks=tasks, lease=lease, now=now)}


def add_attempts(tx: Transaction, attempts: list[NewAttempt], *, claim: bytes, worker: str, now: datetime | None) -> None:
    tx.run(
        sql["add_attempts"],
        claim=claim,
        worker=worker,
        now=now,
        tasks=[a.task_id for a in attempts],
        attempts=[a.attempt for a in attempts],
        tokens=[a.token_sha256 for a in attempts],
        revisions=[a.state_revision for a in attempts],
        timeouts=[a.timeout_seconds for a in attempts],
    )


def close_overtaken(tx: Transaction, overtaken: list[tuple[UUID, int]], *, message: str, now: datetime | None) -> list[ClosedAttempt]:
    return tx.all(
        ClosedAttempt,
        sql["close_overtaken"],
        tasks=[task for task, _ in overtaken],
        attempts=[attempt for _, attempt in overtaken],
        message=message,
        now=now,
    )


def seen_scopes(tx: Transaction, tasks: list[UUID]) -> set[UUID]:
    return set(tx.values(sql["seen_scopes"], tasks=tasks))


def events_of_triggers(tx: Transaction, events: list[UUID]) -> dict[UUID, TriggerEvent]:
    return {event.id: event for event in tx.all(TriggerEvent, sql["events_of_triggers"], events=events)}


def places(tx: Transaction, *, org: UUID, tasks: list[UUID]) -> list[Place]:
    return tx.all(Place, sql["places"], org=org, tasks=tasks)


def lock(tx: Transaction, *, org: UUID, tasks: list[UUID]) -> dict[UUID, LockedTask]:
    return {task.id: task for task in tx.all(LockedTask, sql["lock"], org=org, tasks=tasks)}


def attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], AttemptRow]:
    rows = tx.all(AttemptRow, sql["attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
    return {(row.task_id, row.attempt): row for row in rows}


def move(tx: Transaction, ended: list[EndedAttempt], *, now: datetime | None) -> None:
    tx.run(
        sql["move"],
        now=now,
        tasks=[e.task.id for e in ended],
        states=[e.ending.state.value for e in ended],
        failures=[e.ending.failures for e in ended],
        retry_in=[e.ending.retry_in for e in ended],
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
    )


def heartbeat(tx: Transaction, tasks: list[UUID], *, lease: timedelta, now: datetime | None) -> dict[UUID, datetime]:
    return dict(tx.tuples(sql["heartbeat"], tasks=tasks, lease=lease, now=now))


def note_heartbeats(tx: Transaction, fences: Sequence[tuple[UUID, int]], *, now: datetime | None) -> None:
    tx.run(sql["note_heartbeats"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences], now=now)


def expired(tx: Transaction, *, room: int, now: datetime | None) -> list[LatePlace]:
    return tx.all(LatePlace, sql["expired"], room=room, now=now)


def lock_expired(tx: Transaction, tasks: list[UUID], *, now: datetime | None) -> list[LockedTask]:
    return tx.all(LockedTask, sql["lock_expired"], tasks=tasks, now=now)


def mark_timed_out(tx: Transaction, late: Sequence[LockedTask], *, now: datetime | None) -> None:
    tx.run(sql["mark_timed_out"], tasks=[t.id for t in late], attempts=[t.attempt for t in late], now=now)


def expire(tx: Transaction, late: list[tuple[UUID, int, timedelta]], *, now: datetime | None) -> None:
    """(task, failures, pause) of tasks whose lease ran out with attempts left."""
    tx.run(sql["expire"], tasks=[id for id, _, _ in late], failures=[f for _, f, _ in late], retry_in=[p for _, _, p in late], now=now)


def grant_last_lease(tx: Transaction, tasks: list[UUID], *, lease: timedelta, now: datetime | None) -> None:
    tx.run(sql["grant_last_lease"], tasks=tasks, lease=lease, now=now)


def due(tx: Transaction, *, room: int, now: datetime | None) -> list[LatePlace]:
    return tx.all(LatePlace, sql["due"], room=room, now=now)


def lock_due(tx: Transaction, tasks: list[UUID], *, now: datetime | None) -> list[tuple[UUID, UUID]]:
    """(task, generation) of those that are still due."""
    return [(id, generation) for id, generation in tx.tuples(sql["lock_due"], tasks=tasks, now=now)]


def ask_cancel(tx: Transaction, task: UUID) -> None:
    tx.run(sql["ask_cancel"], task=task)


def get_task(tx: Transaction, *, org: UUID, task: UUID) -> TaskRow:
    return tx.get(TaskRow, sql["find_task"], no_task(task), org=org, task=task)


def no_task(task: UUID) -> str:
    return f"There is no task {task} in this org."


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


def for_payload(tx: Transaction, *, org: UUID, task: UUID) -> TaskFacts:
    return tx.get(TaskFacts, sql["for_payload"], f"There is no task {task} in this org.", org=org, task=task)


def counts(tx: Transaction, generations: list[UUID], *, newest: int) -> list[Count]:
    return tx.all(Count, sql["counts"], generations=generations, newest=newest)


def queue_depth(tx: Transaction) -> dict[str, int]:
    return dict(tx.tuples(sql["queue_depth"]))


def clock(tx: Transaction, *, now: datetime | None) -> datetime:
    return tx.value(sql["clock"], now=now)


def run_id(task: UUID, attempt: int, output_index: int, outputs: int) -> str:
    """The id of one attempt at one output."""
    return f"{task}:{attempt}" if outputs == 1 else f"{task}:{attempt}:{output_index}"


def pins_of_attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], list[Pin]]:
    found: dict[tuple[UUID, int], list[Pin]] = {}
    rows = tx.tuples(sql["pins_of_attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
    for task, attempt, index, dataset, dataset_version, version in rows:
        found.setdefault((task, attempt), []).append(Pin(index, dataset, dataset_version, version))
    return found


def holds_lease(tx: Transaction, task: UUID, attempt: int) -> bool:
    return tx.value(sql["holds_lease"], task=task, attempt=attempt)


def announce(tx: Transaction, given: list[Given]) -> None:
    pins = [(g, pin) for g in given for pin in g.pins]
    tx.run(
        sql["announce"],
        tasks=[g.task_id for g in given],
        attempts=[g.attempt for g in given],
        bases=[g.base for g in given],
        scopes=[_json(g.scopes) for g in given],
        pin_tasks=[g.task_id for g, _ in pins],
        pin_attempts=[g.attempt for g, _ in pins],
        pin_indexes=[pin.index for _, pin in pins],
        pin_datasets=[pin.dataset_id for _, pin in pins],
        pin_tables=[pin.dataset_version_id for _, pin in pins],
        pin_versions=[pin.version for _, pin in pins],
    )


def rebase(tx: Transaction, *, task: UUID, attempt: int, base: int) -> None:
    tx.run(sql["rebase"], task=task, attempt=attempt, base=base)


def count_superseded(tx: Transaction, tasks: list[UUID]) -> None:
    tx.run(sql["count_superseded"], tasks=tasks)


def release_lines(tx: Transaction, tasks: list[UUID]) -> None:
    """Opens the lines that were reserved for these tasks, or hands them on."""
    tx.run(sql["release_lines"], tasks=tasks, superseded=SUPERSEDED_BEFORE_ALONE)


def held_back(tx: Transaction, tasks: list[UUID], *, max_unrecorded: int) -> dict[UUID, Waits]:
    return {task: Waits(waits) for task, waits in tx.tuples(sql["held_back"], tasks=tasks, max_unrecorded=max_unrecorded)}


def hold_back(tx: Transaction, held: dict[UUID, Waits]) -> None:
    tx.run(sql["hold_back"], tasks=list(held), waits=[waits.value for waits in held.values()])


def waiting_for_others(tx: Transaction, *, room: int) -> list[LatePlace]:
    return tx.all(LatePlace, sql["waiting_for_others"], room=room)


def lock_waiting(tx: Transaction, tasks: list[UUID]) -> list[tuple[UUID, UUID]]:
    """(task, generation) of those that still wait and that nobody else holds."""
    return [(id, generation) for id, generation in tx.tuples(sql["lock_waiting"], tasks=tasks)]


def record(tx: Transaction, tasks: list[UUID], *, at: datetime) -> None:
    tx.run(sql["record"], tasks=tasks, at=at)


def changes_to_record(tx: Transaction, *, generation: UUID, first: int, last: int) -> list[ChangeToRecord]:
    return tx.all(ChangeToRecord, sql["changes_to_record"], generation=generation, first=first, last=last)


def outputs_to_record(tx: Transaction, *, generation: UUID, first: int, last: int) -> list[OutputToRecord]:
    """One row for each scope that each change wrote of each output; one without a scope for an output of which it wrote none."""
    return tx.all(OutputToRecord, sql["outputs_to_record"], generation=generation, first=first, last=last)


def batches_of_task(tx: Transaction, task: UUID) -> list[PostedBatch]:
    return tx.all(PostedBatch, sql["batches_of_task"], task=task)


def states_of_batches(tx: Transaction, task: UUID) -> dict[UUID, TaskState]:
    """By batch that the task posted: the state of the task that adopts it."""
    return {batch: TaskState(state) for batch, state in tx.tuples(sql["states_of_batches"], task=task)}


def batch_to_adopt(tx: Transaction, task: UUID) -> PostedBatch | None:
    return tx.find(PostedBatch, sql["batch_to_adopt"], task=task)


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
        state=_json(batch.state),
        task=batch.task_id,
    )


def to_sweep(tx: Transaction, *, retention: timedelta, room: int, now: datetime | None) -> list[SweepableAttempt]:
    return tx.all(SweepableAttempt, sql["to_sweep"], retention=retention, room=room, now=now)


def mark_swept(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> None:
    tx.run(sql["mark_swept"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])


def _json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
