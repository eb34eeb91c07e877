"""Unchanged: a task whose result already exists ends without running and emits no event, so that a cascade ends."""

from dataclasses import dataclass
from uuid import UUID

from tracelake.control.database.transactions import Database
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.claims.rows import TaskFacts
from tracelake.control.tasks.finishing import Finisher
from tracelake.control.tasks.judgement import Ending
from tracelake.control.tasks.notifications import WakePools
from tracelake.control.tasks.routing import look_and_lock, until_routing_holds
from tracelake.control.tasks.rows import EndedAttempt
from tracelake.control.tasks.task_state import Move, after
from tracelake_sdk.tasks import AttemptOutcome, TaskState
from tracelake_sdk.tasks.runs import RunStatus

UNCHANGED = "Unchanged: the current rows were made from the same config, scope and input versions."


@dataclass(frozen=True)
class UnchangedTasks:
    """Not in the claim's transaction, which must not wait for a line; after a crash in between, the lease expires and the next claim finds it again."""

    database: Database
    wake: WakePools
    finisher: Finisher

    def end(self, facts: list[TaskFacts]) -> None:
        self.wake(until_routing_holds(lambda: self._end(facts)))

    def _end(self, facts: list[TaskFacts]) -> set[UUID]:
        with self.database.transaction("unchanged") as tx:
            routing = look_and_lock(tx, {fact.generation_id for fact in facts}, emitting=())
            attempts = {fact.id: fact.attempt for fact in facts}
            locked = [task for org in {fact.org_id for fact in facts} for task in task_store.lock(tx, org=org, tasks=list(attempts)).values()]
            # Meanwhile its lease may have expired, or a person may have canceled it.
            mine = [task for task in locked if task.state == TaskState.RUNNING.value and task.attempt == attempts[task.id] and task.cancel_asked_at is None]
            rows = task_store.attempts(tx, [(task.id, task.attempt) for task in mine])
            ended = [EndedAttempt(task, task.attempt, _ending(task.state, task.failures)) for task in mine]
            return self.finisher.finish(tx, ended, {row.task_id: row.started_at for row in rows.values()}, routing, now=None)


def _ending(state: str, failures: int) -> Ending:
    return Ending(after(TaskState(state), Move.FINISH), AttemptOutcome.SUCCEEDED, RunStatus.SUCCESS, failures, error_class=None, error_message=UNCHANGED)
