"""The task tables as claims read and write them, one function per query."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake.control.tasks.claims.rows import ClosedAttempt, NewAssignment, NewAttempt, QueuedTask, TaskFacts, TriggerEvent
from tracelake.control.tasks.fingerprints import Pin
from tracelake.control.tasks.judgement import LockedTask
from tracelake.control.tasks.rows import TaskKeys
from tracelake_sdk.tasks import Waits

sql = load(__name__, "claims.sql")


def lock_claim(tx: Transaction, claim: bytes) -> None:
    tx.run(sql["lock_claim"], claim=claim)


def held_by_claim(tx: Transaction, *, org: UUID, claim: bytes) -> list[TaskFacts]:
    return tx.all(TaskFacts, sql["held_by_claim"], org=org, claim=claim)


def queued(tx: Transaction, *, pool: UUID, low: int, room: int) -> list[QueuedTask]:
    return tx.all(QueuedTask, sql["queued"], pool=pool, low=low, room=room)


def claim(tx: Transaction, tasks: list[UUID], *, lease: timedelta, now: datetime | None) -> dict[UUID, TaskFacts]:
    """The tasks that no other claim holds, now running."""
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


def heartbeat(tx: Transaction, tasks: list[UUID], *, lease: timedelta, now: datetime | None) -> dict[UUID, datetime]:
    return dict(tx.tuples(sql["heartbeat"], tasks=tasks, lease=lease, now=now))


def note_heartbeats(tx: Transaction, fences: Sequence[tuple[UUID, int]], *, now: datetime | None) -> None:
    tx.run(sql["note_heartbeats"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences], now=now)


def expired(tx: Transaction, *, room: int, now: datetime | None) -> list[TaskKeys]:
    return tx.all(TaskKeys, sql["expired"], room=room, now=now)


def lock_expired(tx: Transaction, tasks: list[UUID], *, now: datetime | None) -> list[LockedTask]:
    return tx.all(LockedTask, sql["lock_expired"], tasks=tasks, now=now)


def mark_timed_out(tx: Transaction, late: Sequence[LockedTask], *, now: datetime | None) -> None:
    tx.run(sql["mark_timed_out"], tasks=[t.id for t in late], attempts=[t.attempt for t in late], now=now)


def expire(tx: Transaction, late: list[tuple[UUID, int, timedelta]], *, now: datetime | None) -> None:
    """(task, failures, pause) of tasks whose lease expired with attempts left."""
    tx.run(sql["expire"], tasks=[id for id, _, _ in late], failures=[f for _, f, _ in late], retry_in=[p for _, _, p in late], now=now)


def grant_last_lease(tx: Transaction, tasks: list[UUID], *, lease: timedelta, now: datetime | None) -> None:
    tx.run(sql["grant_last_lease"], tasks=tasks, lease=lease, now=now)


def due(tx: Transaction, *, room: int, now: datetime | None) -> list[TaskKeys]:
    return tx.all(TaskKeys, sql["due"], room=room, now=now)


def lock_due(tx: Transaction, tasks: list[UUID], *, now: datetime | None) -> list[tuple[UUID, UUID]]:
    """(task, generation) of those that are still due."""
    return [(id, generation) for id, generation in tx.tuples(sql["lock_due"], tasks=tasks, now=now)]


def for_payload(tx: Transaction, *, org: UUID, task: UUID, pools: list[str] | None) -> TaskFacts:
    """Of these pools; None: of every pool of the org."""
    return tx.get(TaskFacts, sql["for_payload"], f"Task {task} was not found in the pools that this token is bound to.", org=org, task=task, pools=pools)


def pins_of_attempts(tx: Transaction, fences: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], list[Pin]]:
    found: dict[tuple[UUID, int], list[Pin]] = {}
    rows = tx.tuples(sql["pins_of_attempts"], tasks=[task for task, _ in fences], attempts=[attempt for _, attempt in fences])
    for task, attempt, index, dataset, dataset_version, version in rows:
        found.setdefault((task, attempt), []).append(Pin(index, dataset, dataset_version, version))
    return found


def store_assignments(tx: Transaction, given: list[NewAssignment]) -> None:
    pins = [(g, pin) for g in given for pin in g.pins]
    tx.run(
        sql["store_assignments"],
        tasks=[g.task_id for g in given],
        attempts=[g.attempt for g in given],
        bases=[g.base for g in given],
        scopes=[wire_json.text(g.scopes) for g in given],
        pin_tasks=[g.task_id for g, _ in pins],
        pin_attempts=[g.attempt for g, _ in pins],
        pin_indexes=[pin.index for _, pin in pins],
        pin_datasets=[pin.dataset_id for _, pin in pins],
        pin_tables=[pin.dataset_version_id for _, pin in pins],
        pin_versions=[pin.version for _, pin in pins],
    )


def held_back(tx: Transaction, tasks: list[UUID], *, max_unrecorded: int) -> dict[UUID, Waits]:
    return {task: Waits(waits) for task, waits in tx.tuples(sql["held_back"], tasks=tasks, max_unrecorded=max_unrecorded)}


def hold_back(tx: Transaction, held: dict[UUID, Waits]) -> None:
    tx.run(sql["hold_back"], tasks=list(held), waits=[waits.value for waits in held.values()])


def waiting_for_others(tx: Transaction, *, room: int) -> list[TaskKeys]:
    return tx.all(TaskKeys, sql["waiting_for_others"], room=room)


def waiting_for_a_right(tx: Transaction, *, room: int) -> list[TaskKeys]:
    """The oldest of each job."""
    return tx.all(TaskKeys, sql["waiting_for_a_right"], room=room)


def lock_waiting(tx: Transaction, tasks: list[UUID]) -> list[tuple[UUID, UUID]]:
    """(task, generation) of tasks that still wait and that no other transaction holds."""
    return [(id, generation) for id, generation in tx.tuples(sql["lock_waiting"], tasks=tasks)]
