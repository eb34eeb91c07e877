"""Routing: which jobs subscribe to a dataset, and the locks that keep this valid until the commit.

Lock order everywhere: routing locks by DAG, then lines, then tasks, each ascending by id; a batch takes one kind for
all its items before the next. The ids to lock are read unlocked first and checked again under the locks.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.dags import store as dags
from tracelake.control.dags.store import Job, Output, SubscribedInput
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.tasks import store
from tracelake_sdk.tasks import Completion

Found = TypeVar("Found")


# Limit of the cache of one process; beyond it, the cache is cleared.
_MOST_REMEMBERED = 10_000  # generations
_MOST_TASKS = 20_000


class RoutingMoved(Exception):
    """The routing changed between the unlocked read and the locks; retry in a new transaction."""


@dataclass(frozen=True)
class Routing:
    """The jobs of some generations, their outputs, and their subscribers: fixed until the commit."""

    jobs: dict[UUID, Job]                       # by generation
    outputs: dict[UUID, list[Output]]           # by generation, in the order of their indexes
    subscribers: dict[UUID, list[SubscribedInput]]   # by dataset

    def dags(self) -> set[UUID]:
        return {job.dag_id for job in self.jobs.values()} | {s.dag_id for edges in self.subscribers.values() for s in edges}

    def writes_files(self, generation: UUID) -> bool:
        return any(output.has_files for output in self.outputs[generation])

    def lines(self) -> set[UUID]:
        """The lines that need a lock: those of jobs with turns, and those of jobs that write files."""
        own = {job.generation_id for job in self.jobs.values() if job.turns is not None or self.writes_files(job.generation_id)}
        return own | {s.generation_id for edges in self.subscribers.values() for s in edges if s.turns is not None}

    def of(self, generation: UUID) -> "Routing":
        """The part that is about one generation."""
        outputs = self.outputs[generation]
        jobs = {generation: self.jobs[generation]} if generation in self.jobs else {}
        subscribers = {output.dataset_id: self.subscribers[output.dataset_id] for output in outputs if output.dataset_id in self.subscribers}
        return Routing(jobs, {generation: outputs}, subscribers)


@dataclass(frozen=True)
class Locks:
    """The locks that keep a routing valid."""

    dags: frozenset[UUID]
    lines: frozenset[UUID]

    @staticmethod
    def of(routing: Routing) -> "Locks":
        return Locks(frozenset(routing.dags()), frozenset(routing.lines()))

    @staticmethod
    def of_all(parts: "Sequence[Locks]") -> "Locks":
        return Locks(frozenset().union(*(part.dags for part in parts)), frozenset().union(*(part.lines for part in parts)))


@dataclass(frozen=True)
class Locked:
    """The lock statements and the routing query were sent. Queries sent after them also run under the locks."""

    outputs: dict[UUID, list[Output]]  # by generation; known at once, because they never change
    routing: Pending[Routing]            # its result raises RoutingMoved if a deploy happened in between


class Routes:
    """A cache of the routing, so that locking needs no query first: the cached routing is checked again under the locks."""

    def __init__(self) -> None:
        self._outputs: dict[UUID, list[Output]] = {}
        self._locks: dict[tuple[UUID, bool], Locks] = {}  # by generation and whether it emits
        self._tasks: dict[tuple[UUID, UUID], UUID] = {}   # by org and task

    def remember(self, org: UUID, tasks: dict[UUID, UUID]) -> None:
        """Caches the generations of tasks, which never change: the process that served a claim probably gets the report."""
        if len(self._tasks) > _MOST_TASKS:
            self._tasks = {}
        self._tasks.update({(org, task): generation for task, generation in tasks.items()})

    def line_of(self, caller: Caller, reports: list[Completion]) -> UUID | None:
        """The one line that these reports will lock, as far as this process knows."""
        found = {self._tasks.get((caller.org_id, report.fence.task_id)) for report in reports}
        generation = next(iter(found)) if len(found) == 1 else None
        locks = self._locks.get((generation, any(report.events for report in reports))) if generation else None
        return generation if locks and generation in locks.lines else None

    def generations(self, tx: Transaction, *, org: UUID, tasks: list[UUID]) -> dict[UUID, UUID]:
        """By task; tasks of other orgs are omitted."""
        known = {task: generation for task in tasks if (generation := self._tasks.get((org, task))) is not None}
        missing = [task for task in tasks if task not in known]
        return known | ({task.id: task.generation_id for task in store.keys_of(tx, org=org, tasks=missing)} if missing else {})

    def lock(self, tx: Transaction, generations: Iterable[UUID], *, emitting: Iterable[UUID]) -> Locked:
        """Routing locks, then lines; subscribers only of the outputs of `emitting`, the generations that emit events."""
        wanted, emits = sorted(set(generations)), set(emitting)
        outputs = self._outputs_of(tx, wanted)
        locks = self._remembered(wanted, emits)
        if locks is None:
            seen = _load(tx, outputs, emits).result()
            locks = Locks.of(seen)
            if not seen.subscribers and not locks.lines:
                return Locked(outputs, Pending(lambda: seen))  # no events and no ordered lines: nothing to lock
        dags.lock_routing_shared(tx, sorted(locks.dags))
        if locks.lines:
            store.lock_lines(tx, sorted(locks.lines))
        # Under the locks: a deploy may have happened in between, or a job of a line may have been paused.
        return Locked(outputs, _load(tx, outputs, emits).then(lambda found: self._checked(found, locks, emits)))

    def _checked(self, found: Routing, locks: Locks, emits: set[UUID]) -> Routing:
        for generation in found.outputs:
            self._locks[generation, generation in emits] = Locks.of(found.of(generation))
        if Locks.of(found) != locks:
            raise RoutingMoved
        return found

    def _remembered(self, wanted: list[UUID], emits: set[UUID]) -> Locks | None:
        """None if not all are cached, or if there may be nothing to lock: then nothing is checked again."""
        known = [self._locks.get((generation, generation in emits)) for generation in wanted]
        found = Locks.of_all([locks for locks in known if locks is not None])
        return found if (emits or found.lines) and None not in known else None

    def _outputs_of(self, tx: Transaction, wanted: list[UUID]) -> dict[UUID, list[Output]]:
        known = {generation: outputs for generation in wanted if (outputs := self._outputs.get(generation)) is not None}
        missing = [generation for generation in wanted if generation not in known]
        if missing:
            if len(self._outputs) > _MOST_REMEMBERED:
                self._outputs, self._locks = {}, {}
            new = dags.outputs_of_generations(tx, missing)
            self._outputs.update(new)
            known |= new
        return {generation: known[generation] for generation in wanted}


def look_and_lock(tx: Transaction, generations: Iterable[UUID], *, emitting: Iterable[UUID]) -> Routing:
    """The same for a caller without a cache and without further queries; raises RoutingMoved if a deploy happened in between."""
    return Routes().lock(tx, generations, emitting=emitting).routing.result()


def _load(tx: Transaction, outputs: dict[UUID, list[Output]], emitting: set[UUID]) -> Pending[Routing]:
    datasets = sorted({output.dataset_id for generation in emitting for output in outputs[generation]})
    jobs = dags.send_jobs_of_generations(tx, list(outputs))
    pending = dags.send_subscribers_of_datasets(tx, datasets) if datasets else Pending[list[SubscribedInput]](list)

    def routing(found: dict[UUID, Job]) -> Routing:
        subscribers: dict[UUID, list[SubscribedInput]] = {dataset: [] for dataset in datasets}
        for subscriber in pending.result():
            subscribers[subscriber.dataset_id].append(subscriber)
        return Routing(found, outputs, subscribers)

    return jobs.then(routing)


def until_routing_holds(step: Callable[[], Found]) -> Found:
    """Repeats a transaction that found the routing moved; a deploy is rare, and each wait for one ends."""
    while True:
        try:
            return step()
        except RoutingMoved:
            continue
