"""Runs: one finished attempt at one output, the row that never changes."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from tracelake_sdk.datasets import PinnedVersion
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.rules.promotions import Promotion


class RunStatus(StrEnum):
    SUCCESS = "SUCCESS"  # the task completed
    FAILED = "FAILED"    # everything else that is final, with its reason
    BLOCKED = "BLOCKED"  # the gate refused it


class Run(Deferred):
    run_id: str  # {task_id}:{attempt}, with :{output_index} when the job has more than one output
    task_id: UUID
    attempt: int
    dag: str
    job: str
    dataset_id: UUID | None
    layer: str | None
    status: RunStatus
    start_time: datetime
    end_time: datetime
    error_message: str | None
    triggered_by: str
    dag_version: int | None = None  # the active one when the attempt was claimed; None: of a run before this was stored


class RunDetail(Run):
    """A run with everything behind it: what it read and wrote, and what was decided about it."""

    dataset_name: str | None = None   # None: not published, or a run without a dataset
    generation: UUID                  # the build of its job that ran
    version: int | None = None        # of the dataset that its output became part of; None: of none
    scopes: list[Scope] = Field(default_factory=list)  # what it wrote; of a run that was not allowed, what it was to write
    inputs: list[PinnedVersion] = Field(default_factory=list)
    hidden_inputs: int = 0            # that the caller may not know of
    decision: Promotion | None = None  # None: nothing was asked of the gate
    custom: dict[str, Any] = Field(default_factory=dict)  # what the operator noted; for those who read the dataset's rows
