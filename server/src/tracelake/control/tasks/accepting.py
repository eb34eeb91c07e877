"""Accept: an event is appended, and every subscriber gets its ledger line and its one task, in the same transaction."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from tracelake.control.dags.store import Job, Output, Subscriber
from tracelake.control.database import idempotency
from tracelake.control.database.idempotency import Remembered
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Transaction
from tracelake.control.events import store as events
from tracelake.control.events.sameness import event_body, event_key
from tracelake.control.events.store import LedgerEntry, NewEvent
from tracelake.control.tasks import store
from tracelake.control.tasks.routing import Routing
from tracelake.control.tasks.rows import NewTask
from tracelake_sdk.dags import WhereSpec, passes
from tracelake_sdk.errors import EventConflict, EventInvalid
from tracelake_sdk.tasks import TriggerKind, Waits
from tracelake_sdk.tasks.events import EventDraft, EventKind, LedgerOutcome

EVENT = "event"  # the kind under which sameness of events is remembered


@dataclass(frozen=True, slots=True)
class Telling:
    """One draft of one producer, with the identity that makes telling twice telling once."""

    id: UUID
    producer_task_id: UUID
    output: Output
    draft: EventDraft
    key: bytes
    body_sha256: bytes
    told_before: bool = False


def tellings(producer_task_id: UUID, outputs: list[Output], drafts: Sequence[EventDraft]) -> list[Telling]:
    """The drafts of one task, a repeated one counted once; raises EventInvalid or EventConflict. Pure but for the fresh ids."""
    by_index = {output.output_index: output for output in outputs}
    found: dict[bytes, Telling] = {}
    for draft in drafts:
        output = by_index.get(draft.output)
        if output is None:
            raise EventInvalid(f"The job has no output {draft.output}; it has {len(outputs)}, counted from 0.")
        if (draft.kind is EventKind.REWRITTEN) != bool(draft.revision):
            raise EventInvalid("A rewritten event must name its request or event as its revision, and no other event may have one.")
        key = event_key(producer_task_id, output.dataset_id, draft.scope, draft.revision)
        telling = Telling(new_id(), producer_task_id, output, draft, key, event_body(draft))
        earlier = found.setdefault(key, telling)
        if earlier.body_sha256 != telling.body_sha256:
            raise EventConflict(f"The scope {draft.scope} is emitted twice with different content; events never change.")
    return list(found.values())


def told_before(tx: Transaction, org: UUID, told: Sequence[Telling]) -> dict[bytes, Remembered]:
    """What is remembered of these tellings. Only their producer's lock holder can tell them, so the answer holds."""
    return idempotency.known(tx, org=org, kind=EVENT, keys=[telling.key for telling in told]) if told else {}


def recognise(told: list[Telling], remembered: dict[bytes, Remembered]) -> list[Telling]:
    """The same tellings, those that were told before with their first id; raises EventConflict where one has changed. Pure."""
    recognised: list[Telling] = []
    for telling in told:
        earlier = remembered.get(telling.key)
        if earlier is None:
            recognised.append(telling)
        elif earlier.body_sha256 == telling.body_sha256:
            recognised.append(replace(telling, id=earlier.id, told_before=True))
        else:
            raise EventConflict(f"The scope {telling.draft.scope} was emitted before with other content; events never change.")
    return recognised


def accept(tx: Transaction, org: UUID, told: list[Telling], routing: Routing) -> set[UUID]:
    """Appends what is new, with its ledger lines and tasks; returns the pools in which a task became claimable."""
    new = [telling for telling in told if not telling.told_before]
    if not new:
        return set()
    idempotency.remember(tx, org=org, kind=EVENT, keys=[t.key for t in new], bodies=[t.body_sha256 for t in new], ids=[t.id for t in new])
    events.append(tx, org=org, events=[_event(telling) for telling in new])
    return _subscribe(tx, org, new, routing)


def _event(telling: Telling) -> NewEvent:
    draft = telling.draft
    return NewEvent(
        telling.id,
        telling.output.dataset_id,
        telling.output.dataset_version_id,
        telling.producer_task_id,
        draft.kind,
        draft.scope.model_dump(mode="json"),
        draft.revision,
        draft.event_time,
        draft.payload,
    )


def _subscribe(tx: Transaction, org: UUID, new: list[Telling], routing: Routing) -> set[UUID]:
    """One ledger line per (event, generation) and one task where the edge lets it pass."""
    ledger: list[LedgerEntry] = []
    wanted: list[Wanted] = []
    for telling in new:
        edges = routing.subscribers[telling.output.dataset_id]
        scope = telling.draft.scope.model_dump(mode="json") if edges else None
        for edge in edges:  # one for each generation: a job reads a dataset once
            if edge.filter is None or passes(WhereSpec.model_validate(edge.filter), telling.draft.scope):
                want = Wanted(new_id(), edge, TriggerKind.EVENT, telling.id, scope)
                wanted.append(want)
                ledger.append(LedgerEntry(telling.id, edge.generation_id, LedgerOutcome.TASK, want.id))
            else:
                ledger.append(LedgerEntry(telling.id, edge.generation_id, LedgerOutcome.FILTERED, None))
    pools = make_tasks(tx, org, wanted)
    if ledger:
        events.account(tx, ledger)
    return pools


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task to make: for which job, and why."""

    id: UUID
    job: Subscriber | Job
    trigger_kind: TriggerKind
    trigger_id: UUID
    scope: dict[str, Any] | None = None
    request: dict[str, Any] | None = None


def make_tasks(tx: Transaction, org: UUID, wanted: list[Wanted]) -> set[UUID]:
    """Makes the tasks and returns the pools in which one became claimable.

    Call it under the routing locks, and under the locks of the lines of jobs with turns.
    """
    if not wanted:
        return set()
    counts = Counter(want.job.generation_id for want in wanted if want.job.turns is not None)
    ordinals = {generation: store.draw_ordinals(tx, generation=generation, count=counts[generation]) for generation in sorted(counts)}
    tasks: list[NewTask] = []
    for want in wanted:
        job = want.job
        ordinal = ordinals.get(job.generation_id)
        if ordinal is not None:
            ordinals[job.generation_id] = ordinal + 1
        waits = Waits.PAUSED if job.paused else Waits.TURN if ordinal is not None else None
        tasks.append(
            NewTask(want.id, job.dag_id, job.generation_id, job.pool_id, want.trigger_kind, want.trigger_id, want.scope, want.request, ordinal, waits)
        )
    store.add(tx, org=org, tasks=tasks)
    pools = {task.pool_id for task in tasks if task.waits is None}
    turns = {want.job.generation_id: want.job.turns for want in wanted if want.job.turns is not None and not want.job.paused}
    ordered = {want.job.generation_id for want in wanted if want.job.ordered}
    return pools | (store.admit(tx, turns, ordered=ordered) if turns else set())
