"""Rows of the task tables as completions read and write them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.promotion import gate_sentences as sentences
from tracelake.control.tasks.fingerprints import Pin


@dataclass(frozen=True, slots=True)
class PinnedParent:
    """A pin, with what the gate needs about its version."""

    pin: Pin
    name: str | None       # of the dataset, where it is published
    layer: str
    allowed: bool | None   # None: no decision promoted it


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
            return sentences.refused_batch(self.name, self.task_id, self.reason)
        return sentences.ended_batch(self.name, self.task_id, self.state, self.reason)

    @property
    def evidence(self) -> dict[str, Any]:
        return {"name": self.name, "task": str(self.task_id), "run": self.run_id, "promotion": str(self.promotion_id) if self.promotion_id else None}


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
