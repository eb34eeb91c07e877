"""Datasets and their versions, as people see them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.deferred import Deferred


class Column(Deferred):
    name: str
    type: str  # as Delta spells it; nested types in its own words


class Snapshot(Deferred):
    """A name pinned to one version of a dataset."""

    name: str
    dataset_uuid: UUID
    dataset: str | None   # its own name
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
    version: int | None              # None: none yet
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
    """One task's share in a version: what it wrote, from what, and why that was allowed."""

    run_id: str
    task_id: UUID
    attempt: int
    job: str
    dag_version: int | None = None  # the active one when the attempt was claimed; None: of one before this was stored
    scopes: list[Scope]
    promotion_id: UUID
    reason: str
    inputs: list[PinnedVersion]
    hidden_inputs: int = 0  # that the caller may not know of
    custom: dict[str, Any] = Field(default_factory=dict)


class Version(Deferred):
    """A promoted state of a dataset; one Delta version of its table, and the reverse."""

    version: int
    delta_version: int   # the version of the Delta table that it is
    snapshot_ref: str
    schema_hash: str
    row_count: int
    promoted_at: datetime
    promoted_by: str
    parts: list[VersionPart]


class Reason(Deferred):
    """One thing to know about a dataset, and what to do about it where something can be done."""

    # fresh | serving (readers see a version that is behind an input) | behind | blocked | failed | retrying | canceled | paused | stopped | waiting | working | empty
    code: str
    sentence: str
    remedy: str | None = None


class Explanation(Deferred):
    """Why a dataset is as it is, the most pressing first."""

    dataset: Dataset
    reasons: list[Reason]
