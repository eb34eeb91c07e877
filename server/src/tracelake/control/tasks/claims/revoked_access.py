"""Revoked access: a task whose DAG's activator lost a needed permission does not go to a worker, and its attempt fails.

An event is emitted once, so its task waits for the permission and then runs. A requested task fails permanently: the requester sees the error and
can request it again. A task that adopts a batch belongs to the attempt that posted it, which had the permission at its start and waits for it.
"""

from dataclasses import dataclass
from uuid import UUID

from tracelake.control.dags.lapsed_permissions import Lapse, lapsed_permissions
from tracelake.control.dags.store import Input, Job
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.locations.store import LocationRow
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.claims.rows import TaskFacts
from tracelake.control.tasks.finishing import Finisher
from tracelake.control.tasks.judgement import Ending, LockedTask
from tracelake.control.tasks.notifications import WakePools
from tracelake.control.tasks.routing import look_and_lock, until_routing_holds
from tracelake.control.tasks.rows import EndedAttempt
from tracelake.control.tasks.task_state import Move, after
from tracelake_sdk.tasks import AttemptOutcome, TaskState, TriggerKind, Waits
from tracelake_sdk.tasks.runs import RunStatus


@dataclass(frozen=True)
class RevokedTask:
    """A claimed task that may not run."""

    fact: TaskFacts
    lapse: Lapse


def revoked_tasks(
    tx: Transaction, facts: list[TaskFacts], jobs: dict[UUID, Job], inputs: dict[UUID, list[Input]], locations: dict[UUID, dict[str, LocationRow]]
) -> list[RevokedTask]:
    """Those of the tasks that are being claimed; jobs by generation, inputs by job, locations by org."""
    judged = [fact for fact in facts if fact.trigger_kind != TriggerKind.BATCH.value]
    found = lapsed_permissions(tx, [jobs[generation] for generation in {fact.generation_id for fact in judged}], inputs, locations)
    return [RevokedTask(fact, found[job.id]) for fact in judged if (job := jobs[fact.generation_id]).id in found]


@dataclass(frozen=True)
class RevokedTasks:
    """Not in the claim's transaction, which must not wait for a line; after a crash in between, the lease expires and the next claim finds it again."""

    database: Database
    wake: WakePools
    finisher: Finisher

    def end(self, found: list[RevokedTask]) -> None:
        self.wake(until_routing_holds(lambda: self._end({one.fact.id: one for one in found})))

    def _end(self, found: dict[UUID, RevokedTask]) -> set[UUID]:
        facts = [one.fact for one in found.values()]
        with self.database.transaction("end_revoked") as tx:
            routing = look_and_lock(tx, {fact.generation_id for fact in facts}, emitting=())
            locked = [task for org in {fact.org_id for fact in facts} for task in task_store.lock(tx, org=org, tasks=list(found)).values()]
            # Meanwhile its lease may have expired, or a person may have canceled it.
            mine = [
                task
                for task in locked
                if task.state == TaskState.RUNNING.value and task.attempt == found[task.id].fact.attempt and task.cancel_asked_at is None
            ]
            rows = task_store.attempts(tx, [(task.id, task.attempt) for task in mine])
            ended = [EndedAttempt(task, task.attempt, _ending(task, found[task.id].lapse)) for task in mine]
            return self.finisher.finish(tx, ended, {row.task_id: row.started_at for row in rows.values()}, routing, now=None)


def _ending(task: LockedTask, lapse: Lapse) -> Ending:
    if task.trigger_kind == TriggerKind.REQUEST.value:
        failed = after(TaskState(task.state), Move.FAIL)
        return Ending(failed, AttemptOutcome.FAILED, RunStatus.FAILED, task.failures + 1, lapse.code, f"{lapse.why} Then request the run again.")
    # Not a failure of the task: however long it lacks the permission, it keeps its attempts.
    waits = after(TaskState(task.state), Move.RETRY)
    why = f"{lapse.why} The task waits for this and then runs."
    return Ending(waits, AttemptOutcome.FAILED, RunStatus.FAILED, task.failures, lapse.code, why, waits=Waits.RIGHT)
