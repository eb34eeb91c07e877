"""Datasets and their versions, as people see them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.deferred import Deferred


class Column(Deferred):
    name: str
    type: str  # the Delta type; nested types as Delta writes them


class Snapshot(Deferred):
    """A name pinned to one version of a dataset."""

    name: str
    dataset_uuid: UUID
    dataset: str | None   # the name of the dataset
    version: int
    actor: str
    at: datetime | None   # None in a dry run


class Dataset(Deferred):
    """A registered output and the version that readers see."""

    uuid: UUID
    name: str | None                 # None: not published
    layer: str
    domain: str
    owner: str
    description: str
    active: bool
    dag: str
    job: str
    output_index: int
    has_files: bool                  # False: it has events and ranges only
    version: int | None              # None: no version yet
    row_count: int | None
    promoted_at: datetime | None
    columns: list[Column]
    snapshots: list[Snapshot] = Field(default_factory=list)
    location: str | None = None      # the URI of its Delta table, for admins and those who may deploy its DAG


class PinnedVersion(Deferred):
    """The version of an input that a run read."""

    index: int
    dataset_uuid: UUID
    name: str | None
    version: int


class VersionPart(Deferred):
    """One task's part of a version: what it wrote, from which inputs, and why that was allowed."""

    run_id: str
    task_id: UUID
    attempt: int
    job: str
    dag_version: int | None = None  # active when the attempt was claimed; None for attempts from before this was recorded
    scopes: list[Scope]
    promotion_id: UUID
    reason: str
    inputs: list[PinnedVersion]
    hidden_inputs: int = 0  # inputs that the caller may not read
    custom: dict[str, Any] = Field(default_factory=dict)


class Version(Deferred):
    """A promoted state of a dataset; exactly one Delta version of its table."""

    version: int
    delta_version: int   # of its Delta table
    snapshot_ref: str
    schema_hash: str
    row_count: int
    promoted_at: datetime
    promoted_by: str
    parts: list[VersionPart]


class Reason(Deferred):
    """One reason for a dataset's state, with a remedy if there is one."""

    # fresh | serving (readers see a version that is behind an input) | behind | blocked | failed | retrying | canceled | paused | stopped | waiting | working | empty
    code: str
    sentence: str
    remedy: str | None = None


class Explanation(Deferred):
    """The reasons for a dataset's state, most urgent first."""

    dataset: Dataset
    reasons: list[Reason]
