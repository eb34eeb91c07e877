"""The status of a DAG and its jobs."""

from tracelake_sdk.deferred import Deferred


class TaskCounts(Deferred):
    """A job's newest tasks by state; `waiting` gives the reasons why queued tasks cannot be claimed yet."""

    queued: int
    waiting: dict[str, int]
    running: int
    committing: int
    completed: int
    failed: int
    canceled: int
    more: bool  # there may be older finished tasks that are not counted here; unfinished ones are all counted

    @property
    def open(self) -> int:
        """Tasks that are not final."""
        return self.queued + sum(self.waiting.values()) + self.running + self.committing


class JobStatus(Deferred):
    name: str
    operator: str
    runtime: str
    inputs: list[str]  # jobs of this DAG, or datasets
    update_strategy: str | None = None  # None: it writes no rows
    paused: bool
    pause_reason: str | None
    tasks: TaskCounts


class DagStatus(Deferred):
    name: str
    version: int | None
    paused: bool
    jobs: list[JobStatus]


class Deployed(Deferred):
    """The result of a deploy: `created` is false if the same definition was already active."""

    dag: str
    version: int
    created: bool
    jobs: list[str]
    published: dict[str, str]  # dataset name → uuid


class WhoAmI(Deferred):
    """The caller, as the service authenticated it."""

    org: str
    name: str
    kind: str
    roles: list[str]
    scopes: list[str]
