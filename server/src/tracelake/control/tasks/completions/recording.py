"""Record: places whose log entries were put become versions, materializations, run rows, events and the tasks of these events.

One transaction that cannot be refused: everything was decided when the places were taken.
"""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from tracelake.control.commits import store as commits
from tracelake.control.commits.store import EntryToRecord
from tracelake.control.dags.store import Output
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.run_history import store as run_history
from tracelake.control.tasks.completions import emitted_events, store
from tracelake.control.tasks.completions.emitted_events import EmittedEvent
from tracelake.control.tasks.completions.rows import ChangeToRecord, OutputToRecord
from tracelake.control.tasks.finishing import Finisher, final_body, run_of
from tracelake.control.tasks.judgement import LockedTask
from tracelake.control.tasks.notifications import WakePools
from tracelake.control.tasks.routing import Routes, Routing, until_routing_holds
from tracelake.control.tasks.task_state import Move, after
from tracelake.control.versions import store as versions
from tracelake.control.versions.spans import scope_of
from tracelake.control.versions.store import NewMaterialization, NewVersion
from tracelake_sdk.tasks import TaskState
from tracelake_sdk.tasks.events import EventDraft, EventKind
from tracelake_sdk.tasks.runs import RunStatus


@dataclass(frozen=True)
class Recording:
    database: Database
    wake: WakePools
    finisher: Finisher
    routes: Routes = field(default_factory=Routes)

    def record(self, generation: UUID, up_to: int) -> int:
        """Returns how many places became versions; call it only when the log entries of every place up to this one were put."""
        recorded, pools = until_routing_holds(lambda: self._record(generation, up_to))
        self.wake(pools)
        return recorded

    def _record(self, generation: UUID, up_to: int) -> tuple[int, set[UUID]]:
        with self.database.transaction("record", role=DatabaseRole.DECIDE) as tx:
            locked = self.routes.lock(tx, [generation], emitting=[generation])
            pending_entries = commits.send_to_record(tx, generation=generation, last=up_to)
            pending_changes = store.send_changes_to_record(tx, generation=generation, last=up_to)
            pending_written = store.send_outputs_to_record(tx, generation=generation, last=up_to)
            # Datasets before tasks: their counters are locked rows.
            pending_numbers = store.send_versions(tx, generation=generation, last=up_to)
            pending_tasks = store.send_lock_changed(tx, generation=generation, last=up_to)
            pending_clock = store.send_clock(tx, now=None)
            routing, entries = locked.routing.result(), pending_entries.result()
            if not entries:
                return 0, set()
            changes, written, numbers = pending_changes.result(), pending_written.result(), pending_numbers.result()
            tasks, at = pending_tasks.result(), pending_clock.result()
            for entry in entries:
                _add_version(tx, entry, numbers[entry.dataset_id], changes, written, routing.outputs[generation], at)
            pools = self._finish(tx, changes, tasks, written, numbers, routing, at)
            commits.recorded(tx, generation=generation, place=up_to)
            return len(changes), pools

    def _finish(
        self,
        tx: Transaction,
        changes: list[ChangeToRecord],
        tasks: dict[UUID, LockedTask],
        written: list[OutputToRecord],
        numbers: dict[UUID, int],
        routing: Routing,
        at: datetime,
    ) -> set[UUID]:
        for task in tasks.values():
            after(TaskState(task.state), Move.RECORD)
        store.record(tx, list(tasks), at=at)
        runs = [run_of(tasks[change.task_id], change.attempt, change.started_at, RunStatus.SUCCESS, None) for change in changes]
        run_history.append(tx, runs, routing.outputs, now=at)
        emitted = [event for change in changes for event in _events(change, tasks[change.task_id], written, numbers, routing)]
        org = next(iter(tasks.values())).org_id
        pools = emitted_events.emit(tx, org, emitted, routing)
        job = next(iter(routing.jobs.values()))
        self.finisher.notify(tx, [(org, final_body(change.task_id, job, TaskState.COMPLETED, change.attempt, None)) for change in changes])
        return pools


def _add_version(
    tx: Transaction,
    entry: EntryToRecord,
    number: int,
    changes: list[ChangeToRecord],
    written: list[OutputToRecord],
    outputs: list[Output],
    at: datetime,
) -> None:
    mine = [row for row in written if row.dataset_version_id == entry.dataset_version_id]
    last = mine[-1]
    by_place = {change.place: change for change in changes}
    change = by_place[last.place]
    output = next(output for output in outputs if output.dataset_version_id == entry.dataset_version_id)
    version = NewVersion(
        org_id=entry.org_id,
        dataset_id=entry.dataset_id,
        version=number,
        generation_id=output.generation_id,
        dataset_version_id=entry.dataset_version_id,
        delta_version=entry.delta_version,
        first_place=entry.first_place,
        last_place=entry.last_place,
        places=sorted({row.place for row in mine}),
        table_schema=last.table_schema,
        schema_hash=last.schema_hash,
        row_count=last.row_count,
        promoted_at=at,
        promoted_by=store.run_id(change.task_id, change.attempt, output.output_index, len(outputs)),
    )
    versions.add_version(tx, version)
    made = [
        NewMaterialization(new_id(), by_place[row.place].task_id, by_place[row.place].attempt, scope_of(row.scope), by_place[row.place].custom)
        for row in mine
        if row.scope is not None
    ]
    versions.add_materializations(tx, version, made)


def _events(
    change: ChangeToRecord, task: LockedTask, written: list[OutputToRecord], numbers: dict[UUID, int], routing: Routing
) -> list[EmittedEvent]:
    """One event for each scope of each output; the revision of a rewrite is the event or request that caused it, so that a retry repeats it."""
    outputs = {output.dataset_version_id: output for output in routing.outputs[task.generation_id]}
    drafts = [
        EventDraft(
            output=outputs[row.dataset_version_id].output_index,
            scope=scope_of(row.scope),
            kind=EventKind(row.kind),
            revision=str(task.trigger_id) if row.kind == EventKind.REWRITTEN.value else "",
            payload={"version": numbers[outputs[row.dataset_version_id].dataset_id]},
        )
        for row in written
        if row.place == change.place and row.scope is not None
    ]
    return emitted_events.events_of_drafts(task.id, routing.outputs[task.generation_id], drafts)
