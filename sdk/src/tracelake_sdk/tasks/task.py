"""Tasks and attempts: the worker contract on the wire.

Fence and tokens travel beside the payload in the claim's answer, never inside it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.datasets.measurements import OutputMeasured, TableFile
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.json_values import Json, shown_text
from tracelake_sdk.rules import RuleToMeasure, TableRuleState
from tracelake_sdk.tasks.events import EventDraft, EventKind

PAYLOAD_VERSION = 2
MAX_BATCH = 500             # items in one claim, completion or heartbeat
MAX_EVENTS = 10_000         # events in one completion
MAX_FAILING_LOOPS = 50      # loops in one heartbeat


class TaskState(StrEnum):
    QUEUED = "queued"          # waits to be claimed, or for its turn, its time, or a resume
    RUNNING = "running"        # claimed by a worker under a lease
    COMMITTING = "committing"  # decided; its commit can no longer be stopped
    COMPLETED = "completed"    # done, recorded
    FAILED = "failed"          # final: no attempt left, or refused
    CANCELED = "canceled"      # final: canceled by a person


class TriggerKind(StrEnum):
    EVENT = "event"      # an event of a dataset that the job subscribes to
    REQUEST = "request"  # a person or a service requested a run
    BATCH = "batch"      # a running task posted a finished batch, which this task adopts


class Waits(StrEnum):
    """Why a queued task cannot be claimed yet."""

    TURN = "turn"      # earlier tasks of its job come first
    PAUSED = "paused"  # its job or its DAG is paused
    RETRY = "retry"    # the next attempt is not due yet
    INPUT = "input"    # an input has no version yet
    LINE = "line"      # its job's line is stopped, full, or reserved for another task
    RIGHT = "right"    # the user or service that activated its DAG lacks permission to read an input or use a location


class Outcome(StrEnum):
    """What a worker reports of an attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"      # it got a stop request and stopped
    GIVEN_BACK = "given_back"  # the worker stops and has not run it, or the storage was unavailable; not a failure


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"    # its lease ran out and it never reported
    SUPERSEDED = "superseded"  # the state it built on had moved; queued again
    GIVEN_BACK = "given_back"  # its worker stopped before it ran or finished, or the storage was unavailable; queued again


class _Wire(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fence(_Wire):
    """Proof of being the current attempt."""

    task_id: UUID
    attempt: int = Field(ge=1)
    lease_token: str = Field(min_length=43, max_length=64, repr=False)


class DagOfTask(_Wire):
    name: str
    version: int


class JobOfTask(_Wire):
    key: str
    name: str
    operator: str
    runtime: str
    config: dict[str, Any]
    config_hash: str
    update_strategy: str | None
    unique_key: list[str]
    execution_strategy: str | None
    timeout_seconds: int


class TriggerOfTask(_Wire):
    kind: TriggerKind
    id: UUID
    event_kind: EventKind | None
    scope: Scope | None
    event_time: datetime | None
    payload: dict[str, Any]
    # A completed task of this generation already had the same scope. Only set for ordered jobs.
    seen_before: bool


class PinnedInput(_Wire):
    """The one version of an input that the attempt reads: exactly these files, of these only the rows of `scopes`."""

    version: int
    table_schema: dict[str, Any]
    location: str                  # of the table, below the storage's root
    files: list[TableFile]
    scopes: list[Scope] | None     # None: all rows
    partition_by: PartitionSpec | None


class InputOfTask(_Wire):
    index: int
    name: str | None               # the name in SQL, besides `input_<index>`
    dataset_uuid: UUID
    dataset_version: UUID | None
    trigger: bool
    where: dict[str, Any] | None
    pinned: PinnedInput | None     # null before the claim, and for datasets without files


class StagedOutput(_Wire):
    """What an attempt needs to stage and measure one output; paths are below the storage's root."""

    location: str                  # of the table
    staging: str                   # below the table; this attempt may only name files in this folder
    everything: bool               # true: `scopes` are the current ones, and rows of new scopes are accepted
    scopes: list[Scope]            # the scopes to rewrite, or the scopes of an append
    partition_by: PartitionSpec | None
    table_schema: dict[str, Any] | None  # of the current table; null before its first version
    rules: list[RuleToMeasure]
    current: list[TableFile]       # the files at the base that stay, whatever this attempt writes; dedupe and table rules read them
    known: list[TableRuleState] = Field(default_factory=list)  # of the table at the base; a rule without a state is measured on the whole table


class OutputOfTask(_Wire):
    index: int
    dataset_uuid: UUID
    dataset_version: UUID
    layer: str
    staged: StagedOutput | None    # null before the claim, and for datasets without files


class BatchOfTask(_Wire):
    """A batch that a running task posted; the task that adopts it measures exactly these files, in their place."""

    id: UUID
    name: str
    output: int
    files: list[str]               # below the table


class OperatorState(_Wire):
    """The state that an operator keeps between its tasks; `revision` 0 means no state yet."""

    revision: int
    value: dict[str, Any] | None


class IdempotencyOfTask(_Wire):
    producer_task_id: UUID
    key_prefix: str


class SlotOfTask(_Wire):
    pool: str


class LimitsOfTask(_Wire):
    lease_seconds: float
    max_events: int


class TaskPayload(_Wire):
    """The complete description of a task for its operator; the same object for fetch and claim.

    A fetch before the claim leaves attempt, base, pins, state and slot null, and locations empty.
    """

    schema_version: Literal[2] = 2
    task_id: UUID
    attempt: int | None
    status: TaskState
    org_id: UUID
    dag: DagOfTask
    job: JobOfTask
    locations: dict[str, str]      # by name, those that the job's config names: `file:///folder` or `s3://bucket/prefix`
    trigger: TriggerOfTask
    inputs: list[InputOfTask]
    outputs: list[OutputOfTask]
    base: int | None               # the place in the job's line that the attempt builds on
    state: OperatorState | None
    batch: BatchOfTask | None
    posted: list[str]              # names of batches that earlier attempts posted; `state` is that of the last batch
    idempotency: IdempotencyOfTask
    slot: SlotOfTask | None
    limits: LimitsOfTask


class ClaimRequest(_Wire):
    """`room` says how many tasks of each pool the worker can take; the same `claim_id` again returns the same tasks."""

    worker: str = Field(min_length=1, max_length=200)
    claim_id: str = Field(min_length=43, max_length=64, repr=False)  # 256 random bits: the attempts' tokens derive from it
    runtime: str
    room: dict[str, int]
    wait_s: float = Field(default=0, ge=0, le=60)


class ClaimedTask(_Wire):
    fence: Fence
    lease_expires_at: datetime
    payload: TaskPayload


class ClaimAnswer(_Wire):
    claimed: list[ClaimedTask]


class OperatorError(_Wire):
    """The error of an operator: a class to group by and a sentence; never data, never a stack trace."""

    error_class: Annotated[str, shown_text(200), Field(min_length=1, max_length=200)]
    message: Annotated[str, shown_text(2000), Field(max_length=2000)]
    retry: bool = True


# For people: what an attempt changed or skipped of its input. Counts and names, never values of rows.
Summary = Annotated[list[Annotated[str, shown_text(500), Field(min_length=1, max_length=500)]], Field(max_length=50)]


class Completion(_Wire):
    """One attempt's report."""

    fence: Fence
    outcome: Outcome
    error: OperatorError | None = None
    events: list[EventDraft] = Field(default_factory=list, max_length=MAX_EVENTS)
    state: Json | None = None  # the operator's new state; None keeps the current one
    custom: Json = Field(default_factory=dict)
    summary: Summary = Field(default_factory=list)
    base: int | None = None              # the place that the outputs were measured against
    outputs: list[OutputMeasured] = Field(default_factory=list, max_length=100)
    posted: list[UUID] = Field(default_factory=list, max_length=MAX_EVENTS)  # every batch that was posted for this task


class CompleteRequest(_Wire):
    """Reports in one call; with `claim`, the answer also has the next tasks."""

    items: list[Completion] = Field(max_length=MAX_BATCH)
    claim: ClaimRequest | None = None


class CompletionResult(StrEnum):
    DONE = "done"              # recorded: the task is completed, failed, or queued for its next attempt
    COMMITTING = "committing"  # allowed; the commit follows and can no longer fail
    BLOCKED = "blocked"        # blocked by the gate: final
    UNCHANGED = "unchanged"    # completed, and there was nothing to commit
    BASE_MOVED = "base_moved"  # measure against `moved`, and report again with the new base
    MEASURE = "measure"        # measure the rules in `measure` too, and report again
    WAIT = "wait"              # it is another attempt's turn; report the same again shortly
    SUPERSEDED = "superseded"  # the state it built on had moved; nothing recorded, queued again
    CANCELED = "canceled"      # the task is canceled; nothing of the report was recorded
    STALE = "stale"            # not the current attempt
    CONFLICT = "conflict"      # completed before with another body
    REFUSED = "refused"        # the report is not valid; nothing recorded


class MovedOutput(_Wire):
    """What other tasks changed in an output since the base."""

    index: int
    added: list[TableFile]
    removed: list[str]
    known: list[TableRuleState] = Field(default_factory=list)  # of the table at the new base


class MissingRules(_Wire):
    """Rules that were added after the attempt was claimed."""

    index: int
    rules: list[RuleToMeasure]


class CompletionAnswer(_Wire):
    """The result of one report: `status` is an HTTP status, with `code` and `detail` if it was refused."""

    task_id: UUID
    result: CompletionResult
    status: int
    task_state: TaskState | None = None
    code: str | None = None
    detail: str | None = None
    event_ids: list[UUID] = Field(default_factory=list)
    base: int | None = None
    moved: list[MovedOutput] = Field(default_factory=list)
    measure: list[MissingRules] = Field(default_factory=list)
    posted: list[UUID] = Field(default_factory=list)  # with `batches_differ`: every batch that was posted for the task


class CompleteAnswer(_Wire):
    results: list[CompletionAnswer]
    claimed: list[ClaimedTask] = Field(default_factory=list)


class Batch(_Wire):
    """A finished part of a running task's work: its files are sealed, and it will be measured, gated and committed by itself."""

    fence: Fence
    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,80}$")  # the same in every attempt of the task
    output: int = Field(ge=0)
    files: list[str] = Field(min_length=1, max_length=10_000)  # below the table, in the attempt's own staging folder
    state: Json | None = None  # what the operator needs to continue after it, in this or a later attempt


class PostRequest(_Wire):
    batches: list[Batch] = Field(min_length=1, max_length=MAX_BATCH)


class PostAnswer(_Wire):
    """One answer per batch, in order; `id` of a batch that is stored, now or earlier."""

    results: list["BatchAnswer"]


class BatchAnswer(_Wire):
    status: int
    id: UUID | None = None
    code: str | None = None
    detail: str | None = None


class FailingLoop(_Wire):
    """A background loop of a worker that keeps failing, with the code of its last failure."""

    loop: str = Field(min_length=1, max_length=200)
    code: str = Field(min_length=1, max_length=200)


class HeartbeatRequest(_Wire):
    """`failing` replaces what the worker last reported of its loops; None reports nothing about them."""

    worker: str = Field(min_length=1, max_length=200)
    fences: list[Fence] = Field(max_length=MAX_BATCH)
    failing: list[FailingLoop] | None = Field(default=None, max_length=MAX_FAILING_LOOPS)


class HeartbeatAnswer(_Wire):
    """`expires_at` by task for leases that were renewed, tasks to `cancel`, and tasks that are `lost` to this worker."""

    expires_at: dict[UUID, datetime]
    cancel: list[UUID]
    lost: list[UUID]


class Attempt(Deferred):
    """One attempt of a task, as people see it."""

    attempt: int
    worker: str
    dag_version: int | None = None  # active when it was claimed; None for attempts from before this was recorded
    started_at: datetime
    last_heartbeat_at: datetime | None
    timed_out_at: datetime | None
    ended_at: datetime | None
    outcome: AttemptOutcome | None
    error_class: str | None
    error_message: str | None
    summary: list[str] = Field(default_factory=list)


class Task(Deferred):
    """A task, as people see it."""

    id: UUID
    dag: str
    job: str
    state: TaskState
    waits: Waits | None
    trigger_kind: TriggerKind
    trigger_id: UUID
    scope: Scope | None
    attempt: int
    failures: int
    created_at: datetime
    finished_at: datetime | None
    due_at: datetime | None
    cancel_asked_at: datetime | None
    attempts: list[Attempt] = Field(default_factory=list)

    @property
    def blocked(self) -> bool:
        """Whether the gate blocked its last attempt."""
        return self.state is TaskState.FAILED and bool(self.attempts) and self.attempts[-1].error_class == "blocked"

