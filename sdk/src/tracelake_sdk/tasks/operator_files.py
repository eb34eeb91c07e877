"""The files between a worker and an operator program: the order that it reads and the outcome that it writes.

The wrapper writes an order and starts (or reuses) a process that holds no token; the program writes its outcome by
rename. A crash, a kill or silence all look the same: no outcome.
"""

from typing import Any
from uuid import UUID

from pydantic import ConfigDict, Field

from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.json_values import Json
from tracelake_sdk.tasks.events import EventKind
from tracelake_sdk.tasks.task import OperatorError, Summary, TriggerKind

CREDENTIALS_PROFILE = "operator"  # in the file that `Order.credentials` names


class _File(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OrderInput(_File):
    """One pinned input: exactly these files and, of these, only the rows of `scopes`."""

    index: int
    name: str | None               # in SQL the input is `input_<index>` and, if it has a name, also that name
    version: int
    table_schema: dict[str, Any]   # Delta's own form
    files: list[str]               # URIs that Spark can open
    scopes: list[Scope] | None     # None: all rows
    partition_by: PartitionSpec | None


class OrderOutput(_File):
    index: int
    staging: str                   # URI of the folder that the files go below: `{staging}/{folder of the scope}/…parquet`
    everything: bool               # rows of scopes that are not in `scopes` are accepted
    scopes: list[Scope]
    partition_by: PartitionSpec | None
    table_schema: dict[str, Any] | None  # of the current table


class Order(_File):
    """The complete work of one attempt; the operator needs no other source."""

    task_id: UUID
    attempt: int
    job: str
    operator: str
    config: dict[str, Any]         # of the DAG file
    locations: dict[str, str]      # by name, those that the config names: `file:///folder` or `s3://bucket/prefix`
    update_strategy: str | None
    unique_key: list[str]
    trigger_kind: TriggerKind
    event_kind: EventKind | None
    trigger_payload: dict[str, Any]
    inputs: list[OrderInput]
    outputs: list[OrderOutput]
    state: dict[str, Any] | None   # the operator's last state, of a completion or a posted batch
    posted: list[str]              # names of batches that are already stored; do not post them again
    batches: str                   # folder, local: a finished batch is a `{name}.json` (BatchReady) renamed into it
    scratch: str                   # folder, local, only for this attempt
    outcome: str                   # file, local: where the outcome is renamed to
    credentials: str | None = None # file, local: AWS profile of that name, for the URIs above, renewed in time; None: local files, or the machine's own credentials


class OutputStaged(_File):
    """The committer's manifest: only completely written files."""

    index: int
    files: list[str]               # relative to the output's staging folder
    scopes: list[Scope]            # the scopes that they cover, including announced scopes without rows


class BatchReady(_File):
    """A part of the work that is finished and can be published while the rest runs."""

    name: str
    output: int
    files: list[str]               # relative to the output's staging folder
    state: Json | None = None


class OperatorOutcome(_File):
    error: OperatorError | None = None   # None: it succeeded
    outputs: list[OutputStaged] = Field(default_factory=list)
    state: Json | None = None
    custom: Json = Field(default_factory=dict)
    summary: Summary = Field(default_factory=list)
