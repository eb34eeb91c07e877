"""Emitted events: each is appended once, with one ledger line and at most one task per subscriber, in the same transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from tracelake.control.dags.store import Output
from tracelake.control.database import idempotency
from tracelake.control.database.idempotency import Remembered
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Transaction
from tracelake.control.events import store as events
from tracelake.control.events.identity import event_body, event_key
from tracelake.control.events.store import LedgerEntry, NewEvent
from tracelake.control.tasks.new_tasks import WantedTask, make_tasks
from tracelake.control.tasks.routing import Routing
from tracelake_sdk.dags import WhereSpec, passes
from tracelake_sdk.errors import EventConflict, EventInvalid
from tracelake_sdk.tasks import TriggerKind
from tracelake_sdk.tasks.events import EventDraft, EventKind, LedgerOutcome

EVENT = "event"  # the idempotency kind of events


@dataclass(frozen=True, slots=True)
class EmittedEvent:
    """One draft of one producer, with the identity by which a repeated event is recognized."""

    id: UUID
    producer_task_id: UUID
    output: Output
    draft: EventDraft
    key: bytes
    body_sha256: bytes
    emitted_before: bool = False


def events_of_drafts(producer_task_id: UUID, outputs: list[Output], drafts: Sequence[EventDraft]) -> list[EmittedEvent]:
    """The drafts of one task, a repeated one counted once; raises EventInvalid or EventConflict. Pure but for the fresh ids."""
    by_index = {output.output_index: output for output in outputs}
    found: dict[bytes, EmittedEvent] = {}
    for draft in drafts:
        output = by_index.get(draft.output)
        if output is None:
            raise EventInvalid(f"The job has no output {draft.output}; it has {len(outputs)}, counted from 0.")
        if (draft.kind is EventKind.REWRITTEN) != bool(draft.revision):
            raise EventInvalid("A rewritten event must name its request or event as its revision, and no other event may have one.")
        key = event_key(producer_task_id, output.dataset_id, draft.scope, draft.revision)
        event = EmittedEvent(new_id(), producer_task_id, output, draft, key, event_body(draft))
        earlier = found.setdefault(key, event)
        if earlier.body_sha256 != event.body_sha256:
            raise EventConflict(f"The scope {draft.scope} is emitted twice with different content; an event never changes.")
    return list(found.values())


def find_emitted(tx: Transaction, org: UUID, emitted: Sequence[EmittedEvent]) -> dict[bytes, Remembered]:
    """Events that were emitted before, by key. Only the holder of their producer's lock can emit them, so the answer stays valid."""
    return idempotency.known(tx, org=org, kind=EVENT, keys=[event.key for event in emitted]) if emitted else {}


def recognise(emitted: Sequence[EmittedEvent], remembered: dict[bytes, Remembered]) -> list[EmittedEvent]:
    """The same events, those that were emitted before with their first id; raises EventConflict if one has changed. Pure."""
    recognised: list[EmittedEvent] = []
    for event in emitted:
        earlier = remembered.get(event.key)
        if earlier is None:
            recognised.append(event)
        elif earlier.body_sha256 == event.body_sha256:
            recognised.append(replace(event, id=earlier.id, emitted_before=True))
        else:
            raise EventConflict(f"The scope {event.draft.scope} was emitted before with other content; an event never changes.")
    return recognised


def emit(tx: Transaction, org: UUID, emitted: Sequence[EmittedEvent], routing: Routing) -> set[UUID]:
    """Appends what is new, with its ledger lines and tasks; returns the pools in which a task became claimable."""
    new = [event for event in emitted if not event.emitted_before]
    if not new:
        return set()
    idempotency.remember(tx, org=org, kind=EVENT, keys=[e.key for e in new], bodies=[e.body_sha256 for e in new], ids=[e.id for e in new])
    events.append(tx, org=org, events=[_row(event) for event in new])
    return _subscribe(tx, org, new, routing)


def _row(event: EmittedEvent) -> NewEvent:
    draft = event.draft
    return NewEvent(
        event.id,
        event.output.dataset_id,
        event.output.dataset_version_id,
        event.producer_task_id,
        draft.kind,
        draft.scope.model_dump(mode="json"),
        draft.revision,
        draft.event_time,
        draft.payload,
    )


def _subscribe(tx: Transaction, org: UUID, new: list[EmittedEvent], routing: Routing) -> set[UUID]:
    """One ledger line per (event, generation), and one task if the filter matches."""
    ledger: list[LedgerEntry] = []
    wanted: list[WantedTask] = []
    for event in new:
        edges = routing.subscribers[event.output.dataset_id]
        scope = event.draft.scope.model_dump(mode="json") if edges else None
        for edge in edges:  # one for each generation: a job reads a dataset once
            if edge.filter is None or passes(WhereSpec.model_validate(edge.filter), event.draft.scope):
                want = WantedTask(new_id(), edge, TriggerKind.EVENT, event.id, scope)
                wanted.append(want)
                ledger.append(LedgerEntry(event.id, edge.generation_id, LedgerOutcome.TASK, want.id))
            else:
                ledger.append(LedgerEntry(event.id, edge.generation_id, LedgerOutcome.FILTERED, None))
    pools = make_tasks(tx, org, wanted)
    if ledger:
        events.account(tx, ledger)
    return pools
