"""Rows of the task tables as claims read and write them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.tasks.fingerprints import Pin
from tracelake_sdk.tasks import TaskState


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task in the queue; another claim may already hold it."""

    id: UUID
    seq: int


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The task columns of a payload."""

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
class NewAssignment:
    """Base, scopes and pins of an attempt, stored with it."""

    task_id: UUID
    attempt: int
    base: int
    scopes: dict[str, Any]  # by output index: {everything, scopes}
    pins: list[Pin]


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
