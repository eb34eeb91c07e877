"""Routing: which jobs hear of a dataset, and the locks that keep the answer true until the commit.

Lock order everywhere: routing locks by DAG, then lines, then tasks, each ascending by id; a batch takes one kind for
all its items before the next. What must be known to lock is read unlocked first and checked again after.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from tracelake.control.dags import store as dags
from tracelake.control.dags.store import Job, Output, Subscriber
from tracelake.control.database.transactions import Transaction
from tracelake.control.tasks import store

Found = TypeVar("Found")


class RoutingMoved(Exception):
    """The routing changed between the unlocked look and the locks; look again in a fresh transaction."""


@dataclass(frozen=True)
class Routing:
    """The jobs of some generations, their outputs, and who subscribes to these: fixed until the commit."""

    jobs: dict[UUID, Job]                       # by generation
    outputs: dict[UUID, list[Output]]           # by generation, in the order of their indexes
    subscribers: dict[UUID, list[Subscriber]]   # by dataset

    def dags(self) -> set[UUID]:
        return {job.dag_id for job in self.jobs.values()} | {s.dag_id for edges in self.subscribers.values() for s in edges}

    def writes_files(self, generation: UUID) -> bool:
        return any(output.has_files for output in self.outputs[generation])

    def lines(self) -> set[UUID]:
        """The lines on which something happens in order: those of jobs with turns, and those of jobs that write files."""
        own = {job.generation_id for job in self.jobs.values() if job.turns is not None or self.writes_files(job.generation_id)}
        return own | {s.generation_id for edges in self.subscribers.values() for s in edges if s.turns is not None}


def look(tx: Transaction, generations: Iterable[UUID], *, telling: Iterable[UUID]) -> Routing:
    """The routing as it is now; subscribers only of the outputs of `telling`, the generations that tell events."""
    wanted = sorted(set(generations))
    outputs = dags.outputs_of_generations(tx, wanted)
    told = sorted({output.dataset_id for generation in set(telling) for output in outputs[generation]})
    subscribers: dict[UUID, list[Subscriber]] = {dataset: [] for dataset in told}
    if told:
        for subscriber in dags.subscribers_of_datasets(tx, told):
            subscribers[subscriber.dataset_id].append(subscriber)
    return Routing(dags.jobs_of_generations(tx, wanted), outputs, subscribers)


def look_and_lock(tx: Transaction, generations: Iterable[UUID], *, telling: Iterable[UUID]) -> Routing:
    """Routing locks, then lines; raises RoutingMoved where a deploy came in between."""
    seen = look(tx, generations, telling=telling)
    if not seen.subscribers and not seen.lines():
        return seen  # nothing is told and nothing is in order: there is nothing to protect
    dags.lock_routing_shared(tx, sorted(seen.dags()))
    if lines := seen.lines():
        store.lock_lines(tx, sorted(lines))
    # Under the locks: a deploy may have come in between, and a job of a line may have been paused meanwhile.
    locked = look(tx, generations, telling=telling)
    if locked.dags() != seen.dags() or locked.lines() != lines:
        raise RoutingMoved
    return locked


def until_routing_holds(step: Callable[[], Found]) -> Found:
    """Repeats a transaction that found the routing moved; a deploy is rare, and each wait for one ends."""
    while True:
        try:
            return step()
        except RoutingMoved:
            continue
