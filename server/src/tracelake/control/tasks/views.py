"""Views: tasks, attempts, events and runs as people see them. Reads only.

DAGs, tasks and attempts need a permission on the DAG; events and runs are visible with their dataset,
and a subscriber of an event only to callers who may see its DAG.
"""

from dataclasses import asdict, dataclass
from uuid import UUID

from tracelake.control.access.callers import Caller, Permission
from tracelake.control.dags import permissions
from tracelake.control.dags import store as dags
from tracelake.control.database.pages import next_token
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.events import store as events
from tracelake.control.registry import reading
from tracelake.control.run_history import store as run_history
from tracelake.control.tasks import store
from tracelake.control.tasks.rows import CausedRow
from tracelake.control.tasks.task_state import FINAL
from tracelake_sdk.dags.status import DagStatus, JobStatus, TaskCounts
from tracelake_sdk.pages import Page
from tracelake_sdk.tasks import Task, TaskState, Waits
from tracelake_sdk.tasks.cascades import Cascade, CausedJob
from tracelake_sdk.tasks.events import DatasetEvent
from tracelake_sdk.tasks.runs import Run, RunStatus

_NEWEST = 10_000      # tasks per job that a status counts
_FAILED_SHOWN = 20    # of the tasks that a run caused and that failed
_FAILED_STATES = (TaskState.FAILED.value, TaskState.CANCELED.value)


@dataclass(frozen=True)
class TaskViews:
    database: Database

    def task(self, caller: Caller, id: UUID) -> Task:
        caller.require(Permission.READ)
        with self.database.transaction("get_task") as tx:
            return self._task(tx, caller, id)

    def caused(self, caller: Caller, id: UUID) -> Cascade:
        """The task and its cascade, in the DAGs that the caller may see."""
        caller.require(Permission.READ)
        with self.database.transaction("caused") as tx:
            rows = store.caused(tx, org=caller.org_id, task=id, dags=permissions.all_visible(tx, caller), most=_FAILED_SHOWN)
            failed = [some for row in rows if row.state in _FAILED_STATES for some in row.some]
            return Cascade(
                task=self._task(tx, caller, id), jobs=_caused_jobs(rows), failed=[self._task(tx, caller, one) for one in failed[:_FAILED_SHOWN]]
            )

    def _task(self, tx: Transaction, caller: Caller, id: UUID) -> Task:
        row = store.get_task(tx, org=caller.org_id, task=id)
        [keys] = store.keys_of(tx, org=caller.org_id, tasks=[id])
        permissions.require_visible(tx, caller, keys.dag_id, missing=store.no_task(id))
        attempts = store.attempts_of_task(tx, id)
        return Task.model_validate(asdict(row) | {"attempts": [asdict(attempt) for attempt in attempts]})

    def tasks(self, caller: Caller, *, dag: str | None, job: str | None, state: TaskState | None, limit: int, before: UUID | None) -> Page[Task]:
        caller.require(Permission.READ)
        with self.database.transaction("list_tasks") as tx:
            rows = store.page(tx, org=caller.org_id, before=before, dag=dag, job=job, state=state, limit=limit + 1, dags=permissions.all_visible(tx, caller))
        return Page(items=[Task.model_validate(asdict(row)) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.id))

    def events(self, caller: Caller, *, dag: str | None, job: str | None, producer: UUID | None, limit: int, before: UUID | None) -> Page[DatasetEvent]:
        caller.require(Permission.READ)
        with self.database.transaction("list_events") as tx:
            datasets = reading.all_visible(tx, caller)
            rows = events.page(tx, org=caller.org_id, before=before, dag=dag, job=job, producer=producer, limit=limit + 1, datasets=datasets)
            ledger = events.ledger_of(tx, [row.id for row in rows], dags=permissions.all_visible(tx, caller))
        lines: dict[UUID, list[dict[str, object]]] = {}
        for line in ledger:
            lines.setdefault(line.event_id, []).append({"job": line.job, "outcome": line.outcome, "task_id": line.task_id})
        found = [DatasetEvent.model_validate(asdict(row) | {"ledger": lines.get(row.id, [])}) for row in rows[:limit]]
        return Page(items=found, next=next_token(rows, limit, lambda row: row.id))

    def runs(self, caller: Caller, *, dag: str | None, job: str | None, status: RunStatus | None, limit: int, before: int | None) -> Page[Run]:
        caller.require(Permission.READ)
        with self.database.transaction("list_runs") as tx:
            datasets, of = reading.all_visible(tx, caller), permissions.all_visible(tx, caller)
            rows = run_history.page(tx, org=caller.org_id, before=before, dag=dag, job=job, status=status, limit=limit + 1, datasets=datasets, dags=of)
        return Page(items=[Run.model_validate(asdict(row)) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.seq))

    def status(self, caller: Caller, dag: str | None) -> list[DagStatus]:
        caller.require(Permission.READ)
        with self.database.transaction("status") as tx:
            if dag:
                found = [permissions.get_dag(tx, caller, dag)]
            else:
                seen = permissions.all_visible(tx, caller)
                found = [one for one in dags.list_dags(tx, org=caller.org_id, name=None) if seen is None or one.id in seen]
            return [self._status(tx, one) for one in found]

    def _status(self, tx: Transaction, dag: dags.Dag) -> DagStatus:
        pauses = dags.pauses_of_dag(tx, dag.id)
        jobs = dags.jobs_of_generations(tx, [pause.generation_id for pause in pauses])
        counted: dict[UUID, dict[str, int]] = {pause.generation_id: {} for pause in pauses}
        for count in store.unfinished(tx, list(counted)):
            counted[count.generation_id][count.name] = counted[count.generation_id].get(count.name, 0) + count.number
        looked_at = dict.fromkeys(counted, 0)
        for count in store.newest(tx, list(counted), limit=_NEWEST):
            looked_at[count.generation_id] += count.number
            if TaskState(count.state) in FINAL:
                counted[count.generation_id][count.state] = count.number
        return DagStatus(
            name=dag.name,
            version=dag.number,
            paused=dag.paused_at is not None,
            jobs=[
                JobStatus(
                    name=pause.name,
                    operator=job.operator,
                    runtime=job.runtime,
                    inputs=[input.reads.name for input in job.inputs],
                    update_strategy=job.update_strategy,
                    paused=pause.paused_at is not None,
                    pause_reason=pause.pause_reason,
                    tasks=_counts(counted[pause.generation_id], more=looked_at[pause.generation_id] >= _NEWEST),
                )
                for pause, job in ((pause, jobs[pause.generation_id].stored) for pause in pauses)
            ],
        )


def _caused_jobs(rows: list[CausedRow]) -> list[CausedJob]:
    """In the order of the rows, which is by distance from the run."""
    counted: dict[tuple[str, str], dict[str, int]] = {}
    after: dict[tuple[str, str], str | None] = {}
    for row in rows:
        job = (row.dag, row.job)
        counted.setdefault(job, {})[f"waits_{row.waits}" if row.waits else row.state] = row.number
        after[job] = after.get(job) or row.after
    return [CausedJob(dag=dag, job=job, after=after[dag, job], tasks=_counts(counted[dag, job], more=False)) for dag, job in counted]


def _counts(named: dict[str, int], *, more: bool) -> TaskCounts:
    """`more`: there may be finished tasks that were not counted."""
    waiting = {waits.value: named.get(f"waits_{waits.value}", 0) for waits in Waits}
    states = {state.value: named.get(state.value, 0) for state in TaskState}
    return TaskCounts.model_validate(states | {"waiting": {name: number for name, number in waiting.items() if number}, "more": more})
