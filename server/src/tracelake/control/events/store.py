"""The event tables, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.tasks.events import EventKind, LedgerOutcome

sql = load(__name__, "events.sql")


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is emitted for the first time."""

    id: UUID
    dataset_id: UUID
    dataset_version_id: UUID
    producer_task_id: UUID
    kind: EventKind
    scope: dict[str, Any]
    revision: str
    event_time: datetime | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    event_id: UUID
    generation_id: UUID
    outcome: LedgerOutcome
    task_id: UUID | None


@dataclass(frozen=True)
class EventRow:
    id: UUID
    dataset_uuid: UUID
    dataset_name: str | None
    job: str
    kind: str
    scope: dict[str, Any]
    revision: str
    producer_task_id: UUID
    event_time: datetime | None
    emitted_at: datetime
    payload: dict[str, Any]


@dataclass(frozen=True)
class LedgerRow:
    event_id: UUID
    job: str
    outcome: str
    task_id: UUID | None


def append(tx: Transaction, *, org: UUID, events: list[NewEvent]) -> None:
    tx.run(
        sql["append"],
        org=org,
        ids=[e.id for e in events],
        datasets=[e.dataset_id for e in events],
        dataset_versions=[e.dataset_version_id for e in events],
        producers=[e.producer_task_id for e in events],
        kinds=[e.kind.value for e in events],
        scopes=[wire_json.text(e.scope) for e in events],
        revisions=[e.revision for e in events],
        event_times=[e.event_time for e in events],
        payloads=[wire_json.text(e.payload) for e in events],
    )


def account(tx: Transaction, entries: list[LedgerEntry]) -> None:
    tx.run(
        sql["account"],
        events=[e.event_id for e in entries],
        generations=[e.generation_id for e in entries],
        outcomes=[e.outcome.value for e in entries],
        tasks=[e.task_id for e in entries],
    )


def page(
    tx: Transaction,
    *,
    org: UUID,
    before: UUID | None,
    dag: str | None,
    job: str | None,
    producer: UUID | None,
    limit: int,
    datasets: list[UUID] | None = None,
) -> list[EventRow]:
    """`datasets`: only about these; None: about all."""
    return tx.all(EventRow, sql["page"], org=org, before=before, dag=dag, job=job, producer=producer, limit=limit, datasets=datasets)


def ledger_of(tx: Transaction, events: list[UUID], *, dags: list[UUID] | None) -> list[LedgerRow]:
    """Of the subscribers in these DAGs; None: in all."""
    return tx.all(LedgerRow, sql["ledger_of"], events=events, dags=dags)


def unaccounted(tx: Transaction, *, since: UUID) -> int:
    """How many (event, subscriber) pairs have no ledger line; anything but 0 is a defect."""
    return tx.value(sql["unaccounted"], since=since)


def lock_accounting(tx: Transaction) -> UUID | None:
    """The last verified event; None while another process verifies."""
    found = tx.values(sql["lock_accounting"])
    return found[0] if found else None


def last_to_verify(tx: Transaction, *, verified: UUID, before: UUID, room: int) -> UUID | None:
    found = tx.values(sql["last_to_verify"], verified=verified, before=before, room=room)
    return found[0] if found else None


def verify(tx: Transaction, *, last: UUID) -> None:
    """Verifies up to and including this event."""
    tx.run(sql["verify"], last=last)


def first_unverified(tx: Transaction) -> UUID | None:
    found = tx.values(sql["first_unverified"])
    return found[0] if found else None
