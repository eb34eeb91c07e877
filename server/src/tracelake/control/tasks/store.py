"""The task tables, one function a query."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Asked, Transaction
from tracelake.control.tasks.fingerprints import Pin
from tracelake.control.tasks.judgement import AttemptRow, LockedTask
from tracelake.control.tasks.rows import (
    AttemptView,
    Candidate,
    CausedRow,
    ChangeToRecord,
    ClosedAttempt,
    EndedAttempt,
    Given,
    LatePlace,
    LostBatch,
    NewAttempt,
    NewestCount,
    NewTask,
    OutputToRecord,
    PinnedParent,
    Place,
    PostedBatch,
    SweepableAttempt,
    TaskFacts,
    TaskRow,
    TriggerEvent,
    UnfinishedCount,
)
from tracelake_sdk.tasks import TaskState, Waits

sql = load(__name__, "tasks.sql")

SUPERSEDED_BEFORE_ALONE = 2  # how often a task's result was out of date before it has its line for itself


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
    """The pools in which a task became claimable; `ordered`: the generations whose job keeps an order."""
    return set(tx.values(sql["admit"], generations=list(turns), turns=list(turns.values()), ordered=[generation in ordered for generation in turns]))


def place(tx: Transaction, tasks: list[UUID]) -> set[UUID]:
    """The pools in which a task became claimable, or may with the next `admit`."""
    return set(tx.values(sql["place"], tasks=tasks))


def hold(tx: Transaction, tasks: list[UUID]) -> set[UUID]:
    """Those that are held now; what adopts a batch is not."""
    return set(tx.values(sql["hold"], tasks=tasks))


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
        dag_versions=[a.dag_version for a in attempts],
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
    return ask_lock(tx, org=org, tasks=tasks).answer()


def ask_lock(tx: Transaction, *, org: UUID, tasks: list[UUID]) -> Asked[dict[UUID, LockedTask]]:
    return tx.ask(LockedTask, sql["lock"], org=org, tasks=tasks).then(_by_id)


def attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], AttemptRow]:
    return ask_attempts(tx, fences).answer()


def ask_attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> Asked[dict[tuple[UUID, int], AttemptRow]]:
    rows = tx.ask(AttemptRow, sql["attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
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
    """The task itself and everything behind it, in these DAGs (None: in all), at most so many ids of each."""
    return tx.all(CausedRow, sql["caused"], org=org, task=task, dags=dags, most=most)


def for_payload(tx: Transaction, *, org: UUID, task: UUID, pools: list[str] | None) -> TaskFacts:
    """Of these pools; None: of every pool of the org."""
    return tx.get(TaskFacts, sql["for_payload"], f"Task {task} was not found in the pools that this token is bound to.", org=org, task=task, pools=pools)


def newest(tx: Transaction, generations: list[UUID], *, limit: int) -> list[NewestCount]:
    """By state, of so many tasks of each generation."""
    return tx.all(NewestCount, sql["newest"], generations=generations, newest=limit)


def unfinished(tx: Transaction, generations: list[UUID] | None = None) -> list[UnfinishedCount]:
    """Of these generations, or of all, the largest number first."""
    return tx.all(UnfinishedCount, sql["unfinished"], generations=generations)


def ask_clock(tx: Transaction, *, now: datetime | None) -> Asked[datetime]:
    return tx.ask_tuples(sql["clock"], now=now).then(lambda found: found[0][0])


def run_id(task: UUID, attempt: int, output_index: int, outputs: int) -> str:
    """The id of one attempt at one output."""
    return f"{task}:{attempt}" if outputs == 1 else f"{task}:{attempt}:{output_index}"


def pins_of_attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], list[Pin]]:
    found: dict[tuple[UUID, int], list[Pin]] = {}
    rows = tx.tuples(sql["pins_of_attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
    for task, attempt, index, dataset, dataset_version, version in rows:
        found.setdefault((task, attempt), []).append(Pin(index, dataset, dataset_version, version))
    return found


def ask_parents(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> Asked[dict[tuple[UUID, int], list[PinnedParent]]]:
    """By task and attempt, in the order of the inputs."""
    rows = tx.ask_tuples(sql["parents_of_attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
    return rows.then(_parents)


def _parents(rows: list[tuple[Any, ...]]) -> dict[tuple[UUID, int], list[PinnedParent]]:
    found: dict[tuple[UUID, int], list[PinnedParent]] = {}
    for task, attempt, index, dataset, dataset_version, version, *known in rows:
        found.setdefault((task, attempt), []).append(PinnedParent(Pin(index, dataset, dataset_version, version), *known))
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


def waiting_for_a_right(tx: Transaction, *, room: int) -> list[LatePlace]:
    """The oldest of each job."""
    return tx.all(LatePlace, sql["waiting_for_a_right"], room=room)


def lock_waiting(tx: Transaction, tasks: list[UUID]) -> list[tuple[UUID, UUID]]:
    """(task, generation) of those that still wait and that nobody else holds."""
    return [(id, generation) for id, generation in tx.tuples(sql["lock_waiting"], tasks=tasks)]


def record(tx: Transaction, tasks: list[UUID], *, at: datetime) -> None:
    tx.run(sql["record"], tasks=tasks, at=at)


def ask_changes_to_record(tx: Transaction, *, generation: UUID, last: int) -> Asked[list[ChangeToRecord]]:
    return tx.ask(ChangeToRecord, sql["changes_to_record"], generation=generation, last=last)


def ask_outputs_to_record(tx: Transaction, *, generation: UUID, last: int) -> Asked[list[OutputToRecord]]:
    """One row for each scope that each change wrote of each output; one without a scope for an output of which it wrote none."""
    return tx.ask(OutputToRecord, sql["outputs_to_record"], generation=generation, last=last)


def ask_versions(tx: Transaction, *, generation: UUID, last: int) -> Asked[dict[UUID, int]]:
    """By dataset: the number of the version that its log entry becomes."""
    return tx.ask_tuples(sql["draw_versions"], generation=generation, last=last).then(dict)


def ask_lock_changed(tx: Transaction, *, generation: UUID, last: int) -> Asked[dict[UUID, LockedTask]]:
    return tx.ask(LockedTask, sql["lock_changed"], generation=generation, last=last).then(_by_id)


def batches_of_task(tx: Transaction, task: UUID) -> list[PostedBatch]:
    return tx.all(PostedBatch, sql["batches_of_task"], task=task)


def ask_states_of_batches(tx: Transaction, tasks: list[UUID]) -> Asked[dict[UUID, dict[UUID, TaskState]]]:
    """By task, and by batch that it posted: the state of the task that adopts it."""
    return tx.ask_tuples(sql["states_of_batches"], tasks=tasks).then(lambda rows: _by_producer(tasks, rows))


def _by_producer(tasks: list[UUID], rows: list[tuple[Any, ...]]) -> dict[UUID, dict[UUID, TaskState]]:
    found: dict[UUID, dict[UUID, TaskState]] = {task: {} for task in tasks}
    for task, batch, state in rows:
        found[task][batch] = TaskState(state)
    return found


def lost_batches(tx: Transaction, task: UUID) -> list[LostBatch]:
    return tx.all(LostBatch, sql["lost_batches"], task=task)


def batch_to_adopt(tx: Transaction, batch: UUID) -> PostedBatch | None:
    """The batch that a task was triggered by."""
    return tx.find(PostedBatch, sql["batch_to_adopt"], batch=batch)


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


def postpone_sweep(tx: Transaction, task: UUID, attempt: int, *, pause: timedelta) -> None:
    tx.run(sql["postpone_sweep"], task=task, attempt=attempt, pause=pause)


def mark_swept(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> None:
    tx.run(sql["mark_swept"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])


def _by_id(tasks: list[LockedTask]) -> dict[UUID, LockedTask]:
    return {task.id: task for task in tasks}


def _json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else wire_json.text(value)
