"""Complete: a report ends its task and writes its run row, its events and the tasks of these events, in one transaction.

Where the job writes files, a successful report is decided here: allowed, it takes a place in the line, and the rest follows
when that place is recorded.
"""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.idempotency import Remembered
from tracelake.control.database.transactions import Database, DatabaseRole, Pending, Transaction
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.completions import emitted_events, store
from tracelake.control.tasks.completions.answers import Moved, Superseded
from tracelake.control.tasks.completions.deciding import Deciding
from tracelake.control.tasks.completions.operator_states import OperatorStates
from tracelake.control.tasks.completions.settling import (
    DecidedOutputs,
    EmittingSuccess,
    Settled,
    WritingSuccess,
    find_result,
    judge_report,
    settle_events,
    settle_outputs,
)
from tracelake.control.tasks.finishing import Finisher
from tracelake.control.tasks.judgement import AttemptRow, LockedTask, RetryDelay
from tracelake.control.tasks.notifications import NotifyLines, WakePools
from tracelake.control.tasks.routing import Locked, Routes, until_routing_holds
from tracelake.control.versions import store as versions
from tracelake_sdk.tasks import Completion, CompletionAnswer, Outcome


@dataclass(frozen=True)
class _Completed:
    """What one transaction settled."""

    answers: list[CompletionAnswer]
    pools: set[UUID]  # in which a task became claimable
    lines: set[UUID]  # the generations whose line may have something new


@dataclass(frozen=True)
class Completions:
    database: Database
    wake: WakePools
    backoff: RetryDelay
    finisher: Finisher
    notify_lines: NotifyLines
    routes: Routes = field(default_factory=Routes)

    def complete(self, caller: Caller, reports: list[Completion], *, now: datetime | None = None) -> list[CompletionAnswer]:
        """Every report has its own answer, in order; a stale or invalid report does not affect the others."""
        answers: dict[int, CompletionAnswer] = {}
        left = dict(enumerate(reports))
        while left:
            # Two reports about one task are handled one after the other, the second after the first has committed.
            batch = {report.fence.task_id: number for number, report in reversed(left.items())}
            numbers = sorted(batch.values())
            completed = until_routing_holds(lambda numbers=numbers: self._complete(caller, [reports[number] for number in numbers], now))
            self.wake(completed.pools)
            self.notify_lines(completed.lines)
            answers |= dict(zip(numbers, completed.answers, strict=True))
            left = {number: report for number, report in left.items() if number not in answers}
        return [answers[number] for number in range(len(reports))]

    def _complete(self, caller: Caller, reports: list[Completion], now: datetime | None) -> _Completed:
        """Reports about different tasks, in one transaction: locks in order, decisions, and only then the first write."""
        with self.database.transaction("complete", role=DatabaseRole.DECIDE) as tx:
            read = _Read.load(tx, caller.org_id, reports, self.routes, now)
            settled = self._settle(tx, caller.org_id, reports, read)
            pools = self._write(tx, caller.org_id, settled, read, now)
        lines = {one.decided.reported.task.generation_id for one in settled if one.decided is not None}
        return _Completed([one.answer for one in settled], pools, lines)

    def _settle(self, tx: Transaction, org: UUID, reports: list[Completion], read: "_Read") -> list[Settled]:
        routing = read.locked.routing.result()
        first = [judge_report(report, read.task(report), read.attempt(report), routing, self.backoff) for report in reports]
        stages = [find_result(tx, stage, routing) for stage in first]
        emitted = [event for stage in stages if isinstance(stage, EmittingSuccess) for event in stage.emitted]
        remembered = emitted_events.find_emitted(tx, org, emitted)
        return [_settled(stage, remembered, read) for stage in stages]

    def _write(self, tx: Transaction, org: UUID, settled: list[Settled], read: "_Read", now: datetime | None) -> set[UUID]:
        """The pools in which a task became claimable."""
        routing = read.locked.routing.result()
        decided = [one.decided for one in settled if one.decided is not None]
        if read.deciding is not None and decided:
            read.deciding.result().write()
        for one in decided:
            _write_out_of_date(tx, one)
        read.states.result().write(tx)
        started = {row.task_id: row.started_at for row in read.attempts.result().values()}
        pools = self.finisher.finish(tx, [one.ended for one in settled if one.ended is not None], started, routing, now=now)
        return pools | emitted_events.emit(tx, org, [event for one in settled for event in one.emitted], routing)


@dataclass(frozen=True)
class _Read:
    """The queries sent under the locks, before it is known which reports will be decided, to save round trips."""

    locked: Locked
    tasks: Pending[dict[UUID, LockedTask]]
    attempts: Pending[dict[tuple[UUID, int], AttemptRow]]
    states: Pending[OperatorStates]
    deciding: Pending[Deciding] | None  # None: no report can be about files

    @staticmethod
    def load(tx: Transaction, org: UUID, reports: list[Completion], routes: Routes, now: datetime | None) -> "_Read":
        ids = [report.fence.task_id for report in reports]
        generations = routes.generations(tx, org=org, tasks=ids)
        known = [(report, generations[report.fence.task_id]) for report in reports if report.fence.task_id in generations]
        locked = routes.lock(tx, generations.values(), emitting={generation for report, generation in known if report.events})
        tasks = task_store.send_lock(tx, org=org, tasks=ids)
        attempts = task_store.send_attempts(tx, [(report.fence.task_id, report.fence.attempt) for report in reports])
        states = OperatorStates.load(tx, {generation for report, generation in known if report.state is not None})
        succeeded = [(report, locked.outputs[generation]) for report, generation in known if report.outcome is Outcome.SUCCEEDED]
        writing = [(report, outputs) for report, outputs in succeeded if any(output.has_files for output in outputs)]
        return _Read(locked, tasks, attempts, states, Deciding.load(tx, org, writing, states, now=now) if writing else None)

    def task(self, report: Completion) -> LockedTask | None:
        return self.tasks.result().get(report.fence.task_id)

    def attempt(self, report: Completion) -> AttemptRow | None:
        return self.attempts.result().get((report.fence.task_id, report.fence.attempt))


def _settled(stage: EmittingSuccess | WritingSuccess | Settled, remembered: dict[bytes, Remembered], read: _Read) -> Settled:
    match stage:
        case Settled():
            return stage
        case EmittingSuccess():
            return settle_events(stage, remembered, read.states.result())
        case WritingSuccess():
            if read.deciding is None:
                raise AssertionError("the queries for deciding were sent for each success of a job that writes files")
            return settle_outputs(stage, read.deciding.result())


def _write_out_of_date(tx: Transaction, decided: DecidedOutputs) -> None:
    """Prepares a task whose result was out of date: sets its next base and, after several times, reserves the line for it."""
    task = decided.reported.task
    match decided.answer:
        case Superseded():
            store.count_superseded(tx, [task.id])
            if task.superseded + 1 >= task_store.SUPERSEDED_BEFORE_ALONE:
                versions.reserve(tx, generation=task.generation_id, task=task.id)
        case Moved(base=base):
            store.rebase(tx, task=task.id, attempt=decided.reported.attempt.attempt, base=base)
        case _:
            pass
