"""Events: the facts that dataset scopes were materialized or rewritten, and the ledger of what each subscriber did with them."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import ConfigDict, Field

from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.json_values import Json


class EventKind(StrEnum):
    MATERIALIZED = "materialized"  # the scope exists for the first time
    REWRITTEN = "rewritten"        # the scope was rewritten: every consumer is invalidated


class LedgerOutcome(StrEnum):
    """What one subscriber did with one event."""

    TASK = "task"          # one task was made
    FILTERED = "filtered"  # the subscription's `where` did not match


class EventDraft(Deferred):
    """An event as its producer emits it; the platform adds producer and time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    output: int = Field(ge=0, description="Index of the output, in the job's own list.")
    scope: Scope
    kind: EventKind = EventKind.MATERIALIZED
    # Empty for a first emission, else the id of the invalidation or request that caused the rewrite; the same in every retry.
    revision: str = Field(default="", max_length=64)
    event_time: datetime | None = None
    payload: Json = Field(default_factory=dict)


class LedgerLine(Deferred):
    """What one subscriber, a generation of a consuming job, did with one event."""

    job: str
    outcome: LedgerOutcome
    task_id: UUID | None


class DatasetEvent(Deferred):
    """A recorded event."""

    id: UUID
    dataset_uuid: UUID
    dataset_name: str | None
    job: str
    kind: EventKind
    scope: Scope
    revision: str
    producer_task_id: UUID
    event_time: datetime | None
    emitted_at: datetime
    payload: dict[str, Any]
    ledger: list[LedgerLine] = Field(default_factory=list)
