"""Complete: an attempt's report becomes its task's end, its run row, its events and the tasks behind them, in one transaction.

Where the job writes files, a successful report is decided here: allowed, it takes a place in the line, and the rest follows
when that place is recorded.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.idempotency import Remembered
from tracelake.control.database.transactions import Asked, Database, Role, Transaction
from tracelake.control.operator_state import store as operator_state
from tracelake.control.tasks import accepting, store
from tracelake.control.tasks import deciding as deciding_
from tracelake.control.tasks.accepting import Telling
from tracelake.control.tasks.deciding import Deciding, Reported
from tracelake.control.tasks.finishing import Finisher
from tracelake.control.tasks.judgement import (
    AttemptRow,
    Backoff,
    Ending,
    LockedTask,
    Verdict,
    allowed,
    blocked,
    body_sha256,
    judge,
    refusal,
    superseded,
)
from tracelake.control.tasks.routing import Locked, Routes, Routing, until_routing_holds
from tracelake.control.tasks.rows import EndedAttempt
from tracelake.control.versions import store as versions
from tracelake_sdk.errors import BatchesDiffer, Invalid, StaleAttempt, TracelakeError
from tracelake_sdk.tasks import Completion, CompletionAnswer, CompletionResult, Outcome, TaskState, TriggerKind


@dataclass(frozen=True)
class Completions:
    database: Database
    wake: Callable[[Iterable[UUID]], None]
    backoff: Backoff
    finisher: Finisher
    moved: Callable[[Iterable[UUID]], None]  # told of generations whose line has something new
    routes: Routes = field(default_factory=Routes)

    def complete(self, caller: Caller, reports: list[Completion], *, now: datetime | None = None) -> list[CompletionAnswer]:
        """Every report has its own answer, in order; a stale or wrong one harms no other."""
        answers: dict[int, CompletionAnswer] = {}
        left = dict(enumerate(reports))
        while left:
            # Two reports about one task are judged one after the other, the second on what the first has committed.
            batch = {report.fence.task_id: number for number, report in reversed(left.items())}
            numbers = sorted(batch.values())
            results, pools, lines = until_routing_holds(lambda numbers=numbers: self._settle(caller, [reports[number] for number in numbers], now))
            self.wake(pools)
            self.moved(lines)
            answers |= dict(zip(numbers, results, strict=True))
            left = {number: report for number, report in left.items() if number not in answers}
        return [answers[number] for number in range(len(reports))]

    def _settle(self, caller: Caller, reports: list[Completion], now: datetime | None) -> tuple[list[CompletionAnswer], set[UUID], set[UUID]]:
        """Reports about different tasks, in one transaction: locks in their order, judgement, and only then the first write.

        Returns the answers, the pools in which a task became claimable, and the generations whose line has something new.
        """
        with self.database.transaction("complete", role=Role.DECIDE) as tx:
            ids = [report.fence.task_id for report in reports]
            generations = self.routes.generations(tx, org=caller.org_id, tasks=ids)
            telling = {generations[report.fence.task_id] for report in reports if report.events and report.fence.task_id in generations}
            locked = self.routes.lock(tx, generations.values(), telling=telling)
            asked_tasks = store.ask_lock(tx, org=caller.org_id, tasks=ids)
            asked_attempts = store.ask_attempts(tx, [(report.fence.task_id, report.fence.attempt) for report in reports])
            ahead = _Ahead.ask(tx, caller.org_id, reports, generations, locked, now)
            routing, tasks, attempts = locked.routing.answer(), asked_tasks.answer(), asked_attempts.answer()

            cases = [_Case(report, tasks.get(report.fence.task_id), attempts.get((report.fence.task_id, report.fence.attempt))) for report in reports]
            for case in cases:
                case.judge(routing, self.backoff)
            remembered = accepting.told_before(tx, caller.org_id, [telling for case in cases for telling in case.told])
            for case in cases:
                case.report_outputs(tx, routing)
            deciding = ahead.deciding.answer() if ahead and any(case.reported for case in cases) else None
            for case in cases:
                case.recognise(remembered)
                case.settle(tx, deciding, ahead)
            if deciding is not None:
                deciding.write()
            ended = [case.ended() for case in cases if case.verdict.ending is not None]
            started = {row.task_id: row.started_at for row in attempts.values()}
            pools = self.finisher.finish(tx, ended, started, routing, now=now)
            pools |= accepting.accept(tx, caller.org_id, [telling for case in cases for telling in case.told], routing)
            lines = {case.task.generation_id for case in cases if case.task is not None and case.reported is not None}
            return [case.answer() for case in cases], pools, lines


@dataclass(frozen=True)
class _Ahead:
    """What is asked before it is known which reports will be decided: then nobody waits for it."""

    deciding: Asked[Deciding]
    batches: Asked[dict[UUID, dict[UUID, TaskState]]]  # by task, and by batch that it posted: the state of the task that adopts it

    @staticmethod
    def ask(
        tx: Transaction, org: UUID, reports: list[Completion], generations: dict[UUID, UUID], locked: Locked, now: datetime | None
    ) -> "_Ahead | None":
        """None where no report can be about files."""
        writing = [
            (report, outputs)
            for report in reports
            if report.outcome is Outcome.SUCCEEDED and report.fence.task_id in generations
            for outputs in (locked.outputs[generations[report.fence.task_id]],)
            if any(output.has_files for output in outputs)
        ]
        if not writing:
            return None
        return _Ahead(Deciding.ask(tx, org, writing, now=now), store.ask_states_of_batches(tx, [report.fence.task_id for report, _ in writing]))


_UNJUDGED = Verdict(refusal(UUID(int=0), CompletionResult.REFUSED, Invalid("Not judged yet.")))


class _Case:
    """One report on its way to its verdict."""

    def __init__(self, report: Completion, task: LockedTask | None, attempt: AttemptRow | None) -> None:
        self.report: Completion = report
        self.task: LockedTask | None = task
        self.attempt: AttemptRow | None = attempt
        self.body: bytes = body_sha256(report)
        self.told: list[Telling] = []
        self.verdict: Verdict = _UNJUDGED
        self.reported: Reported | None = None  # of a success that is to be decided

    def judge(self, routing: Routing, backoff: Backoff) -> None:
        if self.task is None:
            self.verdict = Verdict(refusal(self.report.fence.task_id, CompletionResult.STALE, StaleAttempt()))
            return
        max_attempts = routing.jobs[self.task.generation_id].spec["max_attempts"]
        self.verdict = judge(self.task, self.attempt, self.report, self.body, max_attempts=max_attempts, backoff=backoff)
        if self._succeeds() and not routing.writes_files(self.task.generation_id):
            try:
                self.told = accepting.tellings(self.task.id, routing.outputs[self.task.generation_id], self.report.events)
            except TracelakeError as error:
                self._refuse(error)

    def recognise(self, remembered: dict[bytes, Remembered]) -> None:
        try:
            self.told = accepting.recognise(self.told, remembered)
        except TracelakeError as error:
            self._refuse(error)

    def report_outputs(self, tx: Transaction, routing: Routing) -> None:
        """What is to be decided, where the job writes files and the report is of success."""
        if self.task is None or self.attempt is None or not self._succeeds() or not routing.writes_files(self.task.generation_id):
            return
        task = self.task
        batch = store.batch_to_adopt(tx, task.trigger_id) if task.trigger_kind == TriggerKind.BATCH.value else None
        adopted = batch.files if batch else ()
        self.reported = Reported(
            self.report, task, self.attempt, routing.jobs[task.generation_id], routing.outputs[task.generation_id], adopted, lambda: self._swap_state(tx)
        )

    def settle(self, tx: Transaction, deciding: Deciding | None, ahead: _Ahead | None) -> None:
        try:
            if self.reported is None or deciding is None or ahead is None or not self._succeeds():
                if not self._swap_state(tx):
                    self._supersede("The operator state that it started from has changed.")
                return
            answer = self._batches(tx, deciding, self.reported, ahead.batches.answer()[self.reported.task.id]) or deciding.answer(self.reported)
            self._take(tx, answer, self.reported)
        except TracelakeError as error:
            self._refuse(error)

    def _batches(self, tx: Transaction, deciding: Deciding, given: Reported, states: dict[UUID, TaskState]) -> deciding_.Answer | None:
        """A task is decided after its batches: its state moves behind all of them, so each must have become visible first."""
        if set(given.report.posted) != set(states):
            missing, unknown = set(states) - set(given.report.posted), set(given.report.posted) - set(states)
            said = f"Posted and not listed: {sorted(map(str, missing))}; listed and not posted: {sorted(map(str, unknown))}."
            raise BatchesDiffer(said, posted=list(states))
        if states:
            posted = {path for batch in store.batches_of_task(tx, given.task.id) for path in batch.files}
            if any(file.path in posted for output in given.report.outputs for file in output.files):
                raise Invalid("The report names a file that was posted in a batch, which is decided by itself.")
        if any(state in (TaskState.FAILED, TaskState.CANCELED) for state in states.values()):
            return deciding.refuse(given, store.lost_batches(tx, given.task.id))
        return None if all(state in (TaskState.COMMITTING, TaskState.COMPLETED) for state in states.values()) else deciding_.Wait()

    def _take(self, tx: Transaction, answer: deciding_.Answer, given: Reported) -> None:
        task, result = given.task, CompletionResult
        match answer:
            case deciding_.Committed():
                self._end(result.COMMITTING, allowed(task))
            case deciding_.Unchanged():
                self._end(result.UNCHANGED, self.verdict.ending)
            case deciding_.Blocked(reason=reason):
                self._end(result.BLOCKED, blocked(task, reason), code="blocked", detail=reason)
            case deciding_.Superseded():
                self._supersede("The result was out of date: another task had written to the same scope meanwhile.")
                store.count_superseded(tx, [task.id])
                if task.superseded + 1 >= store.SUPERSEDED_BEFORE_ALONE:
                    versions.reserve(tx, generation=task.generation_id, task=task.id)
            case deciding_.Moved(base=base, moved=moved):
                store.rebase(tx, task=task.id, attempt=given.attempt.attempt, base=base)
                self._ask_again(result.BASE_MOVED, base=base, moved=moved)
            case deciding_.Unmeasured(rules=rules):
                self._ask_again(result.MEASURE, measure=rules)
            case deciding_.Wait():
                self._ask_again(result.WAIT)

    def _swap_state(self, tx: Transaction) -> bool:
        """The operator's new state; False where the state that it built on had moved. Raises Invalid where it keeps none."""
        if self.task is None or self.attempt is None or self.report.state is None or not self._succeeds():
            return True
        base = self.attempt.state_revision
        if base is None:
            raise Invalid("This job's operator keeps no state; report none.")
        return operator_state.swap(tx, generation=self.task.generation_id, revision=base, value=self.report.state)

    def _supersede(self, what: str) -> None:
        if self.task is not None:
            self._end(CompletionResult.SUPERSEDED, superseded(self.task, what))

    def _end(self, result: CompletionResult, ending: Ending | None, **parts: Any) -> None:
        if ending is not None:
            answer = CompletionAnswer(task_id=self.report.fence.task_id, result=result, status=200, task_state=ending.state, **parts)
            self.told, self.verdict = [], Verdict(answer, ending)

    def _ask_again(self, result: CompletionResult, **parts: Any) -> None:
        """Nothing is decided, and the attempt goes on."""
        self.told, self.verdict = [], Verdict(CompletionAnswer(task_id=self.report.fence.task_id, result=result, status=200, **parts))

    def answer(self) -> CompletionAnswer:
        return self.verdict.answer.model_copy(update={"event_ids": [telling.id for telling in self.told]}) if self.told else self.verdict.answer

    def ended(self) -> EndedAttempt:
        if self.task is None or self.verdict.ending is None:
            raise AssertionError("only a case with an ending ends an attempt")
        return EndedAttempt(self.task, self.report.fence.attempt, self.verdict.ending, self.body, self.answer(), self.report.summary)

    def _succeeds(self) -> bool:
        return self.verdict.ending is not None and self.verdict.ending.state is TaskState.COMPLETED

    def _refuse(self, error: TracelakeError) -> None:
        self.told, self.verdict = [], Verdict(refusal(self.report.fence.task_id, CompletionResult.REFUSED, error))
