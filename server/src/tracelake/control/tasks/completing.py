"""Complete: an attempt's report becomes its task's end, its run row, its events and the tasks behind them, in one transaction."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.idempotency import Remembered
from tracelake.control.database.transactions import Database, Role, Transaction
from tracelake.control.operator_state import store as operator_state
from tracelake.control.tasks import accepting, store
from tracelake.control.tasks.accepting import Telling
from tracelake.control.tasks.finishing import Finisher
from tracelake.control.tasks.judgement import AttemptRow, Backoff, LockedTask, Verdict, body_sha256, judge, refusal, superseded
from tracelake.control.tasks.routing import Routing, look_and_lock, until_routing_holds
from tracelake.control.tasks.store import EndedAttempt
from tracelake_sdk.errors import Invalid, StaleAttempt, TracelakeError
from tracelake_sdk.tasks import Completion, CompletionAnswer, CompletionResult, TaskState


@dataclass(frozen=True)
class Completions:
    database: Database
    wake: Callable[[Iterable[UUID]], None]
    backoff: Backoff
    finisher: Finisher

    def complete(self, caller: Caller, reports: list[Completion], *, now: datetime | None = None) -> list[CompletionAnswer]:
        """Every report has its own answer, in order; a stale or wrong one harms no other."""
        answers: dict[int, CompletionAnswer] = {}
        left = dict(enumerate(reports))
        while left:
            # Two reports about one task are judged one after the other, the second on what the first has committed.
            batch = {report.fence.task_id: number for number, report in reversed(left.items())}
            numbers = sorted(batch.values())
            results, pools = until_routing_holds(lambda numbers=numbers: self._settle(caller, [reports[number] for number in numbers], now))
            self.wake(pools)
            answers |= dict(zip(numbers, results, strict=True))
            left = {number: report for number, report in left.items() if number not in answers}
        return [answers[number] for number in range(len(reports))]

    def _settle(self, caller: Caller, reports: list[Completion], now: datetime | None) -> tuple[list[CompletionAnswer], set[UUID]]:
        """Reports about different tasks, in one transaction: locks in their order, judgement, and only then the first write."""
        with self.database.transaction("complete", role=Role.DECIDE) as tx:
            ids = [report.fence.task_id for report in reports]
            places = {place.id: place for place in store.places(tx, org=caller.org_id, tasks=ids)}
            telling = {places[report.fence.task_id].generation_id for report in reports if report.events and report.fence.task_id in places}
            routing = look_and_lock(tx, {place.generation_id for place in places.values()}, telling=telling)
            tasks = store.lock(tx, org=caller.org_id, tasks=ids)
            attempts = store.attempts(tx, [(report.fence.task_id, report.fence.attempt) for report in reports])

            cases = [_Case(report, tasks.get(report.fence.task_id), attempts.get((report.fence.task_id, report.fence.attempt))) for report in reports]
            for case in cases:
                case.judge(routing, self.backoff)
            remembered = accepting.told_before(tx, caller.org_id, [telling for case in cases for telling in case.told])
            for case in cases:
                case.recognise(remembered)
                case.swap_state(tx)
            ended = [case.ended() for case in cases if case.verdict.ending is not None]
            started = {row.task_id: row.started_at for row in attempts.values()}
            pools = self.finisher.finish(tx, ended, started, routing, now=now)
            pools |= accepting.accept(tx, caller.org_id, [telling for case in cases for telling in case.told], routing)
            return [case.answer() for case in cases], pools


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

    def judge(self, routing: Routing, backoff: Backoff) -> None:
        if self.task is None:
            self.verdict = Verdict(refusal(self.report.fence.task_id, CompletionResult.STALE, StaleAttempt()))
            return
        max_attempts = routing.jobs[self.task.generation_id].spec["max_attempts"]
        self.verdict = judge(self.task, self.attempt, self.report, self.body, max_attempts=max_attempts, backoff=backoff)
        if self._succeeds():
            try:
                self.told = accepting.tellings(self.task.id, routing.outputs[self.task.generation_id], self.report.events)
            except TracelakeError as error:
                self._refuse(error)

    def recognise(self, remembered: dict[bytes, Remembered]) -> None:
        try:
            self.told = accepting.recognise(self.told, remembered)
        except TracelakeError as error:
            self._refuse(error)

    def swap_state(self, tx: Transaction) -> None:
        """The operator's new state, or `superseded` where the state that it built on had moved."""
        if self.task is None or self.attempt is None or self.report.state is None or not self._succeeds():
            return
        base = self.attempt.state_revision
        if base is None:
            self._refuse(Invalid("This job's operator keeps no state; report none."))
        elif not operator_state.swap(tx, generation=self.task.generation_id, revision=base, value=self.report.state):
            ending = superseded(self.task)
            answer = CompletionAnswer(task_id=self.task.id, result=CompletionResult.SUPERSEDED, status=200, task_state=ending.state)
            self.told, self.verdict = [], Verdict(answer, ending)

    def answer(self) -> CompletionAnswer:
        return self.verdict.answer.model_copy(update={"event_ids": [telling.id for telling in self.told]}) if self.told else self.verdict.answer

    def ended(self) -> EndedAttempt:
        if self.task is None or self.verdict.ending is None:
            raise AssertionError("only a case with an ending ends an attempt")
        return EndedAttempt(self.task, self.report.fence.attempt, self.verdict.ending, self.body, self.answer())

    def _succeeds(self) -> bool:
        return self.verdict.ending is not None and self.verdict.ending.state is TaskState.COMPLETED

    def _refuse(self, error: TracelakeError) -> None:
        self.told, self.verdict = [], Verdict(refusal(self.report.fence.task_id, CompletionResult.REFUSED, error))
