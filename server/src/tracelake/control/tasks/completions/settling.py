"""Settling: the stages of one report up to its answer. Each stage is a value, each step a function from one to the next, and none of them writes.

`judge_report` checks the fence and the state table. A report that ends its attempt without success is `Settled` at once; a success becomes one that emits
events or one whose outputs are decided, and `settle_events` or `settle_outputs` make it `Settled`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelake.control.database.idempotency import Remembered
from tracelake.control.database.transactions import Transaction
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.completions import emitted_events
from tracelake.control.tasks.completions.answers import Answer, Blocked, Committed, Moved, Superseded, Unchanged, Unmeasured, Wait
from tracelake.control.tasks.completions.deciding import Deciding
from tracelake.control.tasks.completions.emitted_events import EmittedEvent
from tracelake.control.tasks.completions.operator_states import OperatorStates
from tracelake.control.tasks.completions.reported import Reported
from tracelake.control.tasks.judgement import AttemptRow, Ending, LockedTask, RetryDelay, allowed, blocked, body_sha256, judge, refusal, superseded
from tracelake.control.tasks.routing import Routing
from tracelake.control.tasks.rows import EndedAttempt
from tracelake_sdk.errors import StaleAttempt, TracelakeError
from tracelake_sdk.tasks import Completion, CompletionAnswer, CompletionResult, TaskState, TriggerKind


@dataclass(frozen=True)
class DecidedOutputs:
    """The decision about the outputs of a report."""

    reported: Reported
    answer: Answer


@dataclass(frozen=True)
class Settled:
    """A report with its answer, and what to write because of it."""

    answer: CompletionAnswer
    ended: EndedAttempt | None = None         # None: it changes nothing, or its attempt continues
    emitted: Sequence[EmittedEvent] = ()
    decided: DecidedOutputs | None = None


@dataclass(frozen=True)
class Success:
    """A report of success with a valid fence; the state table allows its task to complete."""

    report: Completion
    body_sha256: bytes
    task: LockedTask
    attempt: AttemptRow
    ending: Ending

    def done(self, emitted: Sequence[EmittedEvent]) -> Settled:
        answer = self._answer(CompletionResult.DONE, task_state=self.ending.state, event_ids=[event.id for event in emitted])
        return Settled(answer, self._ended(self.ending, answer), emitted)

    def end(self, result: CompletionResult, ending: Ending, decided: DecidedOutputs | None = None, **parts: Any) -> Settled:
        answer = self._answer(result, task_state=ending.state, **parts)
        return Settled(answer, self._ended(ending, answer), decided=decided)

    def go_on(self, result: CompletionResult, decided: DecidedOutputs, **parts: Any) -> Settled:
        """Nothing is decided, and the attempt continues."""
        return Settled(self._answer(result, **parts), decided=decided)

    def refuse(self, error: TracelakeError) -> Settled:
        return Settled(refusal(self.task.id, CompletionResult.REFUSED, error))

    def _answer(self, result: CompletionResult, **parts: Any) -> CompletionAnswer:
        return CompletionAnswer(task_id=self.task.id, result=result, status=200, **parts)

    def _ended(self, ending: Ending, answer: CompletionAnswer) -> EndedAttempt:
        return EndedAttempt(self.task, self.attempt.attempt, ending, self.body_sha256, answer, self.report.summary)


@dataclass(frozen=True)
class EmittingSuccess:
    """A success of a job without files: its events are its result."""

    success: Success
    emitted: Sequence[EmittedEvent]


@dataclass(frozen=True)
class WritingSuccess:
    """A success of a job that writes files: its outputs must be decided."""

    success: Success
    reported: Reported


def judge_report(report: Completion, task: LockedTask | None, attempt: AttemptRow | None, routing: Routing, backoff: RetryDelay) -> Success | Settled:
    if task is None:
        return Settled(refusal(report.fence.task_id, CompletionResult.STALE, StaleAttempt()))
    body = body_sha256(report)
    max_attempts = routing.jobs[task.generation_id].stored.max_attempts
    verdict = judge(task, attempt, report, body, max_attempts=max_attempts, backoff=backoff)
    if attempt is None or verdict.ending is None:
        return Settled(verdict.answer)
    if verdict.ending.state is not TaskState.COMPLETED:
        return Settled(verdict.answer, EndedAttempt(task, attempt.attempt, verdict.ending, body, verdict.answer, report.summary))
    return Success(report, body, task, attempt, verdict.ending)


def find_result(tx: Transaction, stage: Success | Settled, routing: Routing) -> EmittingSuccess | WritingSuccess | Settled:
    """A success with its result: its events, or its outputs and the batch that it adopts."""
    if isinstance(stage, Settled):
        return stage
    task = stage.task
    outputs = routing.outputs[task.generation_id]
    if not routing.writes_files(task.generation_id):
        try:
            return EmittingSuccess(stage, emitted_events.events_of_drafts(task.id, outputs, stage.report.events))
        except TracelakeError as error:
            return stage.refuse(error)
    batch = task_store.batch_to_adopt(tx, task.trigger_id) if task.trigger_kind == TriggerKind.BATCH.value else None
    job = routing.jobs[task.generation_id]
    return WritingSuccess(stage, Reported(stage.report, task, stage.attempt, job, outputs, batch.files if batch else ()))


def settle_events(stage: EmittingSuccess, remembered: dict[bytes, Remembered], states: OperatorStates) -> Settled:
    success = stage.success
    try:
        emitted = emitted_events.recognise(stage.emitted, remembered)
        moved = not states.swap(success.task.generation_id, success.attempt.state_revision, success.report.state)
    except TracelakeError as error:
        return success.refuse(error)
    if moved:
        return success.end(CompletionResult.SUPERSEDED, superseded(success.task))
    return success.done(emitted)


def settle_outputs(stage: WritingSuccess, deciding: Deciding) -> Settled:
    try:
        answer = deciding.answer(stage.reported)
    except TracelakeError as error:
        return stage.success.refuse(error)
    return _settle_decided(stage.success, DecidedOutputs(stage.reported, answer))


def _settle_decided(success: Success, decided: DecidedOutputs) -> Settled:
    task, result = success.task, CompletionResult
    match decided.answer:
        case Committed():
            return success.end(result.COMMITTING, allowed(task), decided)
        case Unchanged():
            return success.end(result.UNCHANGED, success.ending, decided)
        case Blocked(reason=reason):
            return success.end(result.BLOCKED, blocked(task, reason), decided, code="blocked", detail=reason)
        case Superseded(reason=reason):
            return success.end(result.SUPERSEDED, superseded(task, reason), decided)
        case Moved(base=base, moved=moved):
            return success.go_on(result.BASE_MOVED, decided, base=base, moved=moved)
        case Unmeasured(rules=rules):
            return success.go_on(result.MEASURE, decided, measure=rules)
        case Wait():
            return success.go_on(result.WAIT, decided)
