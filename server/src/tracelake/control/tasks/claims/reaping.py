"""The reaper: marks leases that ran out, by the database's clock, and puts due retries into the queue."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tracelake.control.dags import store as dags
from tracelake.control.dags.lapsed_permissions import lapsed_permissions
from tracelake.control.dags.location_paths import locations_of_jobs
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.claims import store
from tracelake.control.tasks.claims.claiming import TIMED_OUT
from tracelake.control.tasks.finishing import Finisher, next_turns, place_due
from tracelake.control.tasks.judgement import AttemptRow, Ending, LockedTask, RetryDelay, stopped
from tracelake.control.tasks.notifications import WakePools
from tracelake.control.tasks.routing import Routing, look_and_lock, until_routing_holds
from tracelake.control.tasks.rows import EndedAttempt
from tracelake.control.tasks.task_state import Move, after
from tracelake_sdk.tasks import AttemptOutcome, TaskState
from tracelake_sdk.tasks.runs import RunStatus

BATCH = 200


@dataclass(frozen=True)
class Reaper:
    database: Database
    wake: WakePools
    lease: timedelta
    backoff: RetryDelay
    finisher: Finisher
    max_unrecorded: int = 100

    def run_once(self, *, now: datetime | None = None) -> int:
        """One batch of each kind; returns how many tasks it moved."""
        reaped, pools = until_routing_holds(lambda: self._reap(now))
        placed, more = until_routing_holds(lambda: self._place_due(now))
        self.wake(pools | more)
        return reaped + placed + self.place_waiting() + self.place_permitted()

    def place_waiting(self) -> int:
        """Queues tasks whose input now has a version or whose line is open again; returns how many."""
        placed, pools = until_routing_holds(self._place_waiting)
        self.wake(pools)
        return placed

    def place_permitted(self) -> int:
        """Queues tasks whose DAG's activator has all needed permissions again; returns how many."""
        placed, pools = until_routing_holds(self._place_permitted)
        self.wake(pools)
        return placed

    def _reap(self, now: datetime | None) -> tuple[int, set[UUID]]:
        with self.database.transaction("reap") as tx:
            late = store.expired(tx, room=BATCH, now=now)
            if not late:
                return 0, set()
            routing = look_and_lock(tx, {place.generation_id for place in late}, emitting=())
            tasks = store.lock_expired(tx, [place.id for place in late], now=now)
            attempts = task_store.attempts(tx, [(task.id, task.attempt) for task in tasks])
            return len(tasks), self._settle(tx, tasks, attempts, routing, now)

    def _settle(
        self, tx: Transaction, tasks: list[LockedTask], attempts: dict[tuple[UUID, int], AttemptRow], routing: Routing, now: datetime | None
    ) -> set[UUID]:
        ended: list[EndedAttempt] = []
        expired: list[LockedTask] = []
        last: list[LockedTask] = []
        for task in tasks:
            if task.cancel_asked_at is not None:
                ended.append(EndedAttempt(task, task.attempt, stopped(TaskState(task.state), task.failures)))
            elif attempts[task.id, task.attempt].timed_out_at is not None:
                ended.append(EndedAttempt(task, task.attempt, _given_up(task)))
            elif task.failures + 1 < routing.jobs[task.generation_id].stored.max_attempts:
                after(TaskState(task.state), Move.EXPIRE)
                expired.append(task)
            else:
                last.append(task)
        if expired or last:
            store.mark_timed_out(tx, [*expired, *last], now=now)
        if expired:
            store.expire(tx, [(task.id, task.failures + 1, self.backoff.after(task.failures + 1)) for task in expired], now=now)
        if last:
            store.grant_last_lease(tx, [task.id for task in last], lease=self.lease, now=now)
        started = {row.task_id: row.started_at for row in attempts.values()}
        pools = self.finisher.finish(tx, ended, started, routing, now=now)
        return pools | next_turns(tx, {task.generation_id for task in expired}, routing.jobs)

    def _place_due(self, now: datetime | None) -> tuple[int, set[UUID]]:
        with self.database.transaction("place_due") as tx:
            due = store.due(tx, room=BATCH, now=now)
            if not due:
                return 0, set()
            routing = look_and_lock(tx, {place.generation_id for place in due}, emitting=())
            still = store.lock_due(tx, [place.id for place in due], now=now)
            return len(still), place_due(tx, still, routing.jobs)

    def _place_waiting(self) -> tuple[int, set[UUID]]:
        with self.database.transaction("place_waiting") as tx:
            waiting = store.waiting_for_others(tx, room=BATCH)
            held = store.held_back(tx, [place.id for place in waiting], max_unrecorded=self.max_unrecorded) if waiting else {}
            ready = [place for place in waiting if place.id not in held]
            if not ready:
                return 0, set()
            routing = look_and_lock(tx, {place.generation_id for place in ready}, emitting=())
            still = store.lock_waiting(tx, [place.id for place in ready])
            return len(still), place_due(tx, still, routing.jobs)

    def _place_permitted(self) -> tuple[int, set[UUID]]:
        with self.database.transaction("place_permitted") as tx:
            waiting = store.waiting_for_a_right(tx, room=BATCH)
            if not waiting:
                return 0, set()
            # Checked without locks: the claim finds a permission that lapses in between.
            jobs = dags.jobs_of_generations(tx, list({place.generation_id for place in waiting}))
            inputs = dags.inputs_of_jobs(tx, [job.id for job in jobs.values()])
            lapsed = lapsed_permissions(tx, jobs.values(), inputs, locations_of_jobs(tx, jobs.values()))
            ready = [place for place in waiting if jobs[place.generation_id].id not in lapsed]
            if not ready:
                return 0, set()
            routing = look_and_lock(tx, {place.generation_id for place in ready}, emitting=())
            still = store.lock_waiting(tx, [place.id for place in ready])
            return len(still), place_due(tx, still, routing.jobs)


def _given_up(task: LockedTask) -> Ending:
    """The last attempt had one more lease, and no report arrived."""
    state = after(TaskState(task.state), Move.FAIL)
    return Ending(state, AttemptOutcome.TIMED_OUT, RunStatus.FAILED, task.failures, "timed_out", TIMED_OUT)
