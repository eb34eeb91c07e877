"""Finishing: what happens whenever attempts become final, from any caller.

Attempt and task rows move, the run rows are written, the webhook is notified of a final task through the outbox, an
ordered job is paused by a terminal failure, and the next tasks of its line get their turn.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.dags import store as dags
from tracelake.control.dags.store import Job
from tracelake.control.database.transactions import Transaction
from tracelake.control.outbox import store as outbox
from tracelake.control.run_history import store as run_history
from tracelake.control.run_history.store import FinishedAttempt
from tracelake.control.tasks import store
from tracelake.control.tasks.judgement import LockedTask
from tracelake.control.tasks.routing import Routing
from tracelake.control.tasks.rows import EndedAttempt
from tracelake.control.tasks.task_state import FINAL
from tracelake_sdk.tasks import TaskState
from tracelake_sdk.tasks.runs import RunStatus

TASK_FINAL = "task_final"  # the outbox kind


@dataclass(frozen=True)
class Finisher:
    """`notifies_webhook`: whether a webhook is notified of final tasks."""

    notifies_webhook: bool

    def finish(self, tx: Transaction, ended: list[EndedAttempt], starts: dict[UUID, datetime], routing: Routing, *, now: datetime | None) -> set[UUID]:
        """Call it under the routing, line and task locks; returns the pools in which a task became claimable."""
        if not ended:
            return set()
        store.end_attempts(tx, ended, now=now)
        store.move(tx, ended, now=now)
        # The run rows of a commit are written when it is recorded: its result is not visible earlier.
        over = [e for e in ended if e.ending.state is not TaskState.COMMITTING]
        run_history.append(tx, [_finished(e, starts[e.task.id]) for e in over], routing.outputs, now=now)
        done = [e.task for e in ended if e.ending.state is not TaskState.QUEUED]
        writers = [task.id for task in done if routing.writes_files(task.generation_id)]
        if writers:
            store.release_lines(tx, writers)
        final = [e for e in ended if e.ending.state in FINAL]
        self.notify(tx, [_final(e, routing.jobs[e.task.generation_id]) for e in final])
        stopped = _pause_broken_lines(tx, final, routing)
        at_once = [e.task.id for e in ended if e.ending.retry_in is not None and not e.ending.retry_in]
        pools = place_due(tx, [(e.task.id, e.task.generation_id) for e in ended if e.task.id in at_once], routing.jobs)
        # Also if a task waits for its next attempt: in an unordered job it has no turn until then.
        return pools | next_turns(tx, {e.task.generation_id for e in ended} - stopped, routing.jobs)

    def notify(self, tx: Transaction, bodies: list[tuple[UUID, dict[str, Any]]]) -> None:
        if self.notifies_webhook:
            outbox.write(tx, [(org, TASK_FINAL, body) for org, body in bodies])


def place_due(tx: Transaction, tasks: list[tuple[UUID, UUID]], jobs: dict[UUID, Job]) -> set[UUID]:
    """(task, generation) that are due: they enter the queue, wait for a turn, or are held while the job is paused."""
    paused = [task for task, generation in tasks if jobs[generation].paused]
    held = store.hold(tx, paused) if paused else set[UUID]()
    ready = [(task, generation) for task, generation in tasks if task not in held]
    if not ready:
        return set()
    pools = store.place(tx, [task for task, _ in ready])
    return pools | next_turns(tx, {generation for _, generation in ready}, jobs)


def next_turns(tx: Transaction, generations: set[UUID], jobs: dict[UUID, Job]) -> set[UUID]:
    """Lets the first tasks of these lines be claimed, unless their job is paused."""
    turns = {g: job.turns for g in sorted(generations) if (job := jobs[g]).turns is not None and not job.paused}
    return store.admit(tx, turns, ordered={generation for generation in turns if jobs[generation].ordered}) if turns else set()


def _pause_broken_lines(tx: Transaction, final: list[EndedAttempt], routing: Routing) -> set[UUID]:
    broken = {e.task.generation_id: e for e in final if e.ending.state is TaskState.FAILED and routing.jobs[e.task.generation_id].ordered}
    for generation, ended in broken.items():
        dags.pause_jobs(tx, [generation], reason=f"Task {ended.task.id} failed ({ended.ending.error_class}); the tasks after it wait.")
    return set(broken)


def run_of(task: LockedTask, attempt: int, started: datetime, status: RunStatus, error: str | None) -> FinishedAttempt:
    trigger = f"{task.trigger_kind}:{task.trigger_id}"
    return FinishedAttempt(task.org_id, task.id, attempt, task.generation_id, status, started, error, trigger)


def _finished(ended: EndedAttempt, started: datetime) -> FinishedAttempt:
    return run_of(ended.task, ended.attempt, started, ended.ending.run_status, ended.ending.error_message)


def _final(ended: EndedAttempt, job: Job) -> tuple[UUID, dict[str, Any]]:
    return ended.task.org_id, final_body(ended.task.id, job, ended.ending.state, ended.attempt, ended.ending.error_class)


def final_body(task: UUID, job: Job, state: TaskState, attempt: int, error_class: str | None) -> dict[str, Any]:
    return {"task_id": str(task), "dag": job.dag, "job": job.name, "state": state.value, "attempt": attempt, "error_class": error_class}
