"""Cancel: a queued task ends at once, a running one gets a stop request and keeps its lease until it reports or the lease ends."""

from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.dags import permissions
from tracelake.control.database.transactions import Database
from tracelake.control.tasks import store
from tracelake.control.tasks.finishing import Finisher, final_body, next_turns
from tracelake.control.tasks.judgement import Ending, LockedTask, stopped
from tracelake.control.tasks.notifications import WakePools
from tracelake.control.tasks.routing import look_and_lock, until_routing_holds
from tracelake.control.tasks.rows import EndedAttempt
from tracelake.control.tasks.task_state import Move, after
from tracelake_sdk.access import DagRight
from tracelake_sdk.errors import AlreadyDecided, AlreadyFinal, NotFound
from tracelake_sdk.tasks import AttemptOutcome, TaskState
from tracelake_sdk.tasks.runs import RunStatus


@dataclass(frozen=True)
class Cancels:
    database: Database
    wake: WakePools
    finisher: Finisher

    def cancel(self, caller: Caller, task_id: UUID) -> TaskState:
        """Returns the task's state; canceling a canceled task changes nothing, a final one is refused."""
        caller.require(Permission.OPERATE)
        state, pools = until_routing_holds(lambda: self._cancel(caller, task_id))
        self.wake(pools)
        return state

    def _cancel(self, caller: Caller, task_id: UUID) -> tuple[TaskState, set[UUID]]:
        with self.database.transaction("cancel") as tx:
            keys = store.keys_of(tx, org=caller.org_id, tasks=[task_id])
            if not keys:
                raise NotFound(store.no_task(task_id))
            permissions.require_visible(tx, caller, keys[0].dag_id, missing=store.no_task(task_id))
            permissions.require(tx, caller, keys[0].dag_id, DagRight.TRIGGER)
            routing = look_and_lock(tx, [keys[0].generation_id], emitting=())
            task = store.lock(tx, org=caller.org_id, tasks=[task_id])[task_id]
            match TaskState(task.state):
                case TaskState.CANCELED:
                    return TaskState.CANCELED, set()
                case TaskState.COMPLETED | TaskState.FAILED:
                    raise AlreadyFinal(f"Task {task_id} is {task.state} and cannot be canceled.")
                case TaskState.COMMITTING:
                    raise AlreadyDecided(f"Task {task_id} is decided and being committed; it can no longer be stopped.")
                case TaskState.RUNNING:
                    store.request_cancel(tx, task_id)
                    access.append_audit(tx, org=caller.org_id, actor=caller.name, action="cancel_task", object=str(task_id))
                    return TaskState.RUNNING, set()
                case state:
                    after(state, Move.CANCEL)
            access.append_audit(tx, org=caller.org_id, actor=caller.name, action="cancel_task", object=str(task_id))
            attempt = store.attempts(tx, [(task.id, task.attempt)]).get((task.id, task.attempt))
            if attempt is not None and attempt.ended_at is None:
                # Its lease had expired, and a late report was still allowed; now it is not.
                ended = EndedAttempt(task, task.attempt, stopped(TaskState.QUEUED, task.failures))
                return TaskState.CANCELED, self.finisher.finish(tx, [ended], {task.id: attempt.started_at}, routing, now=None)
            store.move(tx, [EndedAttempt(task, task.attempt, _unstarted(task))], now=None)
            store.release_lines(tx, [task.id])
            job = routing.jobs[task.generation_id]
            self.finisher.notify(tx, [(task.org_id, final_body(task.id, job, TaskState.CANCELED, task.attempt, "canceled"))])
            return TaskState.CANCELED, next_turns(tx, {task.generation_id}, routing.jobs)


def _unstarted(task: LockedTask) -> Ending:
    """No attempt is open, so no run row is written."""
    return Ending(TaskState.CANCELED, AttemptOutcome.CANCELED, RunStatus.FAILED, task.failures)
