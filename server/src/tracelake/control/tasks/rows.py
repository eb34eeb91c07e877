"""Rows of the task tables, as stores hand them out and take them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.promotion import gate_words as words
from tracelake.control.tasks.fingerprints import Pin
from tracelake.control.tasks.judgement import Ending, LockedTask
from tracelake_sdk.tasks import CompletionAnswer, TaskState, TriggerKind, Waits


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
    dag_version: int


@dataclass(frozen=True, slots=True)
class Given:
    """What an attempt is given to build on, stored with it."""

    task_id: UUID
    attempt: int
    base: int
    scopes: dict[str, Any]  # by output index: {everything, scopes}
    pins: list[Pin]


@dataclass(frozen=True, slots=True)
class PinnedParent:
    """A pin, with what the gate must know of the version that it names."""

    pin: Pin
    name: str | None       # of the dataset, where it is published
    layer: str
    allowed: bool | None   # None: nothing promoted it


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
class LostBatch:
    """A batch that will never be part of the table: refused by the gate, failed or canceled."""

    name: str
    task_id: UUID
    state: str
    run_id: str | None         # of the last attempt to adopt it; None: there was none
    promotion_id: UUID | None  # the decision that refused it
    reason: str | None         # of that decision, or of the failure

    @property
    def fact(self) -> str:
        if self.promotion_id and self.reason:
            return words.refused_batch(self.name, self.task_id, self.reason)
        return words.ended_batch(self.name, self.task_id, self.state, self.reason)

    @property
    def evidence(self) -> dict[str, Any]:
        return {"name": self.name, "task": str(self.task_id), "run": self.run_id, "promotion": str(self.promotion_id) if self.promotion_id else None}


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
    of_a_table: bool


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that ends in this transaction, with the report that was taken, if one was."""

    task: LockedTask
    attempt: int
    ending: Ending
    body_sha256: bytes | None = None
    answer: CompletionAnswer | None = None
    summary: Sequence[str] = ()


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
class CausedRow:
    """Tasks that a run caused: those of one job in one state."""

    dag: str
    job: str
    depth: int
    after: str | None  # the job whose tasks caused them
    state: str
    waits: str | None
    number: int
    some: list[UUID]


@dataclass(frozen=True)
class AttemptView:
    attempt: int
    worker: str
    dag_version: int | None  # None: before it was stored
    started_at: datetime
    last_heartbeat_at: datetime | None
    timed_out_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error_class: str | None
    error_message: str | None
    summary: list[str]


@dataclass(frozen=True)
class NewestCount:
    generation_id: UUID
    state: str
    number: int


@dataclass(frozen=True)
class UnfinishedCount:
    """How many tasks of one job, in one pool, are in one state and wait for one thing."""

    org: str
    dag: str
    job: str
    runtime: str
    pool: str
    generation_id: UUID
    state: str
    waits: str | None
    number: int

    @property
    def name(self) -> str:
        """The state, or what the task waits for."""
        return f"waits_{self.waits}" if self.waits else self.state
