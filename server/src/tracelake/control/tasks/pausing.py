"""Pause and resume of a DAG or one of its jobs: queued tasks leave the queue, running tasks continue."""

from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.commits import store as commits
from tracelake.control.dags import permissions
from tracelake.control.dags import store as dags
from tracelake.control.dags.store import JobPause
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.tasks import store
from tracelake.control.tasks.finishing import next_turns
from tracelake.control.tasks.notifications import WakePools
from tracelake_sdk.access import DagRight
from tracelake_sdk.errors import NotFound


@dataclass(frozen=True)
class Pauses:
    database: Database
    wake: WakePools

    def pause(self, caller: Caller, dag: str, job: str | None) -> None:
        caller.require(Permission.OPERATE)
        with self.database.transaction("pause") as tx:
            dag_id, chosen = _choose(tx, caller, dag, job)
            generations = [pause.generation_id for pause in chosen]
            if job is None:
                dags.pause_dag(tx, dag_id)
            else:
                dags.pause_jobs(tx, generations, reason=f"Paused by {caller.name}.")
            store.lock_lines(tx, sorted(generations))
            pools = sorted({job.pool_id for job in dags.jobs_of_generations(tx, generations).values()})
            store.hold(tx, store.queued_of_generations(tx, generations, pools=pools))
            access.append_audit(tx, org=caller.org_id, actor=caller.name, action="pause", object=_name(dag, job))

    def resume(self, caller: Caller, dag: str, job: str | None) -> None:
        """Resuming a DAG does not resume jobs that are paused individually: each needs its own resume, which also restarts a stopped line."""
        caller.require(Permission.OPERATE)
        with self.database.transaction("resume") as tx:
            dag_id, chosen = _choose(tx, caller, dag, job)
            if job is None:
                dags.resume_dag(tx, dag_id)
            else:
                dags.resume_job(tx, chosen[0].id)
                commits.start_line(tx, chosen[0].generation_id)
            store.lock_lines(tx, sorted(pause.generation_id for pause in chosen))
            jobs = dags.jobs_of_generations(tx, [pause.generation_id for pause in chosen])
            running = {generation for generation, current in jobs.items() if not current.paused}
            pools = store.place(tx, store.paused_of_generations(tx, sorted(running)))
            pools |= next_turns(tx, running, jobs)
            access.append_audit(tx, org=caller.org_id, actor=caller.name, action="resume", object=_name(dag, job))
        self.wake(pools)


def _choose(tx: Transaction, caller: Caller, dag: str, job: str | None) -> tuple[UUID, list[JobPause]]:
    """The DAG and its chosen jobs, under the DAG's exclusive routing lock."""
    found = permissions.get_dag(tx, caller, dag)
    permissions.require(tx, caller, found.id, DagRight.TRIGGER)
    dags.lock_routing(tx, [found.id])
    jobs = [pause for pause in dags.pauses_of_dag(tx, found.id) if job in (None, pause.name)]
    if not jobs:
        raise NotFound(permissions.no_job(tx, found.id, dag, job))
    return found.id, jobs


def _name(dag: str, job: str | None) -> str:
    return dag if job is None else f"{dag}/{job}"
