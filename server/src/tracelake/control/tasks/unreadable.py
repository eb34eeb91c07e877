"""Unreadable: a task of which an input may not be read any more by whoever activated its DAG ends as failed, and nobody is handed it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.dags.foreign_inputs import unreadable_inputs
from tracelake.control.dags.store import Input, Job
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.tasks import store
from tracelake.control.tasks.finishing import Finisher
from tracelake.control.tasks.judgement import Ending, LockedTask
from tracelake.control.tasks.routing import look_and_lock, until_routing_holds
from tracelake.control.tasks.rows import EndedAttempt, TaskFacts
from tracelake.control.tasks.task_state import Move, after
from tracelake_sdk.dag_errors import InputNotReadable
from tracelake_sdk.runs import RunStatus
from tracelake_sdk.tasks import AttemptOutcome, TaskState


@dataclass(frozen=True)
class Barred:
    """A claimed task that may not read one of its inputs."""

    fact: TaskFacts
    why: str


def barred(tx: Transaction, facts: list[TaskFacts], jobs: dict[UUID, Job], inputs: dict[UUID, list[Input]]) -> list[Barred]:
    """Of tasks that are being claimed; jobs by generation, inputs by job."""
    found = unreadable_inputs(tx, jobs.values(), inputs)
    return [Barred(fact, _why(found[job.id])) for fact in facts if (job := jobs[fact.generation_id]).id in found]


@dataclass(frozen=True)
class Barring:
    """Not in the claim's own transaction, which waits for no line; a crash in between costs a lease, and then it is found again."""

    database: Database
    wake: Callable[[Iterable[UUID]], None]
    finisher: Finisher

    def end(self, found: list[Barred]) -> None:
        self.wake(until_routing_holds(lambda: self._end({one.fact.id: one for one in found})))

    def _end(self, found: dict[UUID, Barred]) -> set[UUID]:
        facts = [one.fact for one in found.values()]
        with self.database.transaction("unreadable") as tx:
            routing = look_and_lock(tx, {fact.generation_id for fact in facts}, telling=())
            locked = [task for org in {fact.org_id for fact in facts} for task in store.lock(tx, org=org, tasks=list(found)).values()]
            # Meanwhile its lease may have run out, or a person may have canceled it.
            mine = [
                task
                for task in locked
                if task.state == TaskState.RUNNING.value and task.attempt == found[task.id].fact.attempt and task.cancel_asked_at is None
            ]
            rows = store.attempts(tx, [(task.id, task.attempt) for task in mine])
            ended = [EndedAttempt(task, task.attempt, _ending(task, found[task.id].why)) for task in mine]
            return self.finisher.finish(tx, ended, {row.task_id: row.started_at for row in rows.values()}, routing, now=None)


def _why(input: Input) -> str:
    name = input.name or str(input.dataset_id)
    return (
        f"Its input {name} may not be read by whoever activated the DAG; let an admin give one of their roles the right to read it, or deploy the"
        " definition again as somebody who may."
    )


def _ending(task: LockedTask, why: str) -> Ending:
    state = after(TaskState(task.state), Move.FAIL)
    return Ending(state, AttemptOutcome.FAILED, RunStatus.FAILED, task.failures + 1, InputNotReadable.code, why)
