"""Rows of the task tables that `claims`, `completions` and this package use."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.tasks.judgement import Ending, LockedTask
from tracelake_sdk.tasks import CompletionAnswer, TriggerKind, Waits


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
class TaskKeys:
    """The keys of a task that are needed to take the locks before its own."""

    id: UUID
    dag_id: UUID
    generation_id: UUID


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
