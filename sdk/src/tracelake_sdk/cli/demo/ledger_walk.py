"""What one request led to, read back from the ledger: from its task to the events it told, to the tasks these made, and on."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from tracelake_sdk.cli.picture import Branch, branches
from tracelake_sdk.client import Client
from tracelake_sdk.events import DatasetEvent, Told
from tracelake_sdk.scopes import Scope
from tracelake_sdk.status import DagStatus


@dataclass(frozen=True)
class Step:
    """One job's part: the tasks that were made for it and the events that these told."""

    job: str
    lines: str  # of the picture
    operator: str
    tasks: frozenset[UUID]
    events: tuple[DatasetEvent, ...]  # the first told first


@dataclass(frozen=True)
class Walk:
    steps: tuple[Step, ...]

    def step(self, job: str) -> Step:
        return next(step for step in self.steps if step.job == job)

    @property
    def tasks(self) -> frozenset[UUID]:
        return frozenset(task for step in self.steps for task in step.tasks)

    @property
    def events(self) -> tuple[DatasetEvent, ...]:
        return tuple(event for step in self.steps for event in step.events)

    @property
    def lines(self) -> int:
        """Ledger lines: one for each event and subscriber."""
        return sum(len(event.ledger) for event in self.events)

    @property
    def scopes(self) -> dict[UUID, Scope]:
        """What each task is about: the scope of the event that made it."""
        return {line.task_id: event.scope for event in self.events for line in event.ledger if line.task_id is not None}


def walk(client: Client, dag: DagStatus, request_task: UUID) -> Walk:
    """Every job with what it did because of this request; ids grow with time, so what is older than the request is not its doing."""
    told: dict[UUID, list[DatasetEvent]] = {}
    for event in client.iterate_events(dag=dag.name):
        if event.id < request_task:
            break
        told.setdefault(event.producer_task_id, []).insert(0, event)
    made: dict[str, set[UUID]] = {}
    for task, job in _reached(request_task, told):
        made.setdefault(job, set()).add(task)
    made.setdefault(client.task(request_task).job, set()).add(request_task)
    return Walk(tuple(_step(branch, made.get(branch.job.name, set()), told) for branch in branches(dag)))


def _step(branch: Branch, tasks: set[UUID], told: dict[UUID, list[DatasetEvent]]) -> Step:
    events = [event for task in tasks for event in told.get(task, [])]
    return Step(branch.job.name, branch.lines, branch.job.operator, frozenset(tasks), tuple(sorted(events, key=_id)))


def _id(event: DatasetEvent) -> UUID:
    return event.id


def _reached(task: UUID, told: dict[UUID, list[DatasetEvent]]) -> Iterator[tuple[UUID, str]]:
    """Every task behind this one, with the name of its job."""
    for event in told.get(task, []):
        for line in event.ledger:
            if line.outcome is Told.TASK and line.task_id is not None:
                yield line.task_id, line.job.rpartition("/")[2]
                yield from _reached(line.task_id, told)

