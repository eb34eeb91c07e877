"""Runs: one finished attempt of one output; the row never changes."""

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
    FAILED = "FAILED"    # every other final result, with its reason
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
    dag_version: int | None = None  # active when the attempt was claimed; None for runs from before this was recorded


class RunDetail(Run):
    """A run in full: its inputs, its outputs, and the decision."""

    dataset_name: str | None = None   # None: not published, or a run without a dataset
    generation: UUID                  # the build of its job that ran
    version: int | None = None        # the dataset version that contains its output; None: no version
    scopes: list[Scope] = Field(default_factory=list)  # the scopes that it wrote, or, if it was blocked, would have written
    inputs: list[PinnedVersion] = Field(default_factory=list)
    hidden_inputs: int = 0            # inputs that the caller may not read
    decision: Promotion | None = None  # None: the gate was not involved
    custom: dict[str, Any] = Field(default_factory=dict)  # notes of the operator; only for readers of the dataset
