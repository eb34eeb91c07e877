"""Runs: one finished attempt at one output, the row that never changes."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from pydantic import BaseModel


class RunStatus(StrEnum):
    SUCCESS = "SUCCESS"  # the task completed
    FAILED = "FAILED"    # everything else that is final, with its reason
    BLOCKED = "BLOCKED"  # the gate refused it


class Run(BaseModel):
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
