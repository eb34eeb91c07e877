"""Judges one attempt's report. Pure: the locked task, the attempt's row and the report in, a verdict out."""

import hashlib
import hmac
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.tasks.task_state import Move, after
from tracelake.control.versions.spans import scope_of
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.errors import AttemptFinal, CompletionConflict, IllegalTransition, StaleAttempt, TaskCanceled, TracelakeError
from tracelake_sdk.tasks import AttemptOutcome, Completion, CompletionAnswer, CompletionResult, Outcome, TaskState, Waits
from tracelake_sdk.tasks.runs import RunStatus

STATE_CHANGED = "The operator state that it started from has changed."


@dataclass(frozen=True, slots=True)
class LockedTask:
    """A task under its row lock."""

    id: UUID
    org_id: UUID
    dag_id: UUID
    generation_id: UUID
    pool_id: UUID
    state: str
    ordinal: int | None
    attempt: int
    failures: int
    trigger_kind: str
    trigger_id: UUID
    cancel_asked_at: datetime | None
    superseded: int = 0  # how often its result was out of date


@dataclass(frozen=True, slots=True)
class Announced:
    """What an attempt must write of one output: these scopes, or all current and new ones."""

    everything: bool
    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt, read after its task was locked."""

    task_id: UUID
    attempt: int
    token_sha256: bytes
    started_at: datetime
    state_revision: int | None
    timed_out_at: datetime | None
    ended_at: datetime | None
    body_sha256: bytes | None
    result: dict[str, Any] | None
    base: int | None = None
    scopes: dict[str, Any] | None = None  # by output index
    rebases: int = 0

    def announced(self, output_index: int) -> Announced:
        given = (self.scopes or {})[str(output_index)]
        return Announced(given["everything"], tuple(scope_of(scope) for scope in given["scopes"]))


@dataclass(frozen=True, slots=True)
class Ending:
    """An attempt becomes final and its task moves."""

    state: TaskState
    outcome: AttemptOutcome
    run_status: RunStatus
    failures: int
    error_class: str | None = None
    error_message: str | None = None
    retry_in: timedelta | None = None  # of a task that is queued again
    waits: Waits = Waits.RETRY         # of a task that is queued again: what for


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a report and, if the report changes anything, the ending."""

    answer: CompletionAnswer
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """How long a failed task waits: doubling from the first pause up to the longest, each shortened by up to half at random."""

    first: timedelta
    longest: timedelta

    def after(self, failures: int) -> timedelta:
        doubled = self.first * 2 ** min(max(failures - 1, 0), 30)
        return min(doubled, self.longest) * random.uniform(0.5, 1)  # noqa: S311 spreading load, not keeping secrets


def body_sha256(report: Completion) -> bytes:
    """What makes two reports of one attempt the same."""
    return hashlib.sha256(wire_json.encode(report.model_dump(mode="json", exclude={"fence"}), sort_keys=True)).digest()


def lease_token_sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def refusal(task_id: UUID, result: CompletionResult, error: TracelakeError) -> CompletionAnswer:
    posted: list[UUID] = error.extra.get("posted", [])
    return CompletionAnswer(task_id=task_id, result=result, status=error.status, code=error.code, detail=error.detail, posted=posted)


def judge(task: LockedTask | None, attempt: AttemptRow | None, report: Completion, body: bytes, *, max_attempts: int, backoff: RetryDelay) -> Verdict:
    """Duplicate first, then the fence, then the state table; a refused report changes nothing."""
    id = report.fence.task_id
    if task is None or attempt is None or not hmac.compare_digest(attempt.token_sha256, lease_token_sha256(report.fence.lease_token)):
        return Verdict(refusal(id, CompletionResult.STALE, StaleAttempt()))
    if attempt.body_sha256 is not None and attempt.result is not None:
        if attempt.body_sha256 == body:
            return Verdict(CompletionAnswer.model_validate(attempt.result))
        return Verdict(refusal(id, CompletionResult.CONFLICT, CompletionConflict()))
    if task.attempt != attempt.attempt:
        return Verdict(refusal(id, CompletionResult.STALE, StaleAttempt()))
    state = TaskState(task.state)
    if state is TaskState.CANCELED:
        if report.outcome is not Outcome.CANCELED:
            return Verdict(refusal(id, CompletionResult.CANCELED, TaskCanceled()))
        after(state, Move.STOPPED)
        return Verdict(_taken(id, CompletionResult.CANCELED, state))
    if attempt.ended_at is not None:
        return Verdict(refusal(id, CompletionResult.STALE, AttemptFinal()))
    if report.outcome is Outcome.CANCELED and task.cancel_asked_at is None:
        return Verdict(refusal(id, CompletionResult.REFUSED, IllegalTransition("This task was not canceled; report its real outcome.")))
    ending = _ending(task, attempt, report, state, max_attempts, backoff)
    result = CompletionResult.CANCELED if ending.state is TaskState.CANCELED else CompletionResult.DONE
    return Verdict(_taken(id, result, ending.state), ending)


def _taken(id: UUID, result: CompletionResult, state: TaskState) -> CompletionAnswer:
    return CompletionAnswer(task_id=id, result=result, status=200, task_state=state)


def _ending(task: LockedTask, attempt: AttemptRow, report: Completion, state: TaskState, max_attempts: int, backoff: RetryDelay) -> Ending:
    if task.cancel_asked_at is not None:
        return stopped(state, task.failures)
    match report.outcome:
        case Outcome.SUCCEEDED:
            return Ending(after(state, Move.FINISH), AttemptOutcome.SUCCEEDED, RunStatus.SUCCESS, task.failures)
        case Outcome.GIVEN_BACK:
            return Ending(
                after(state, Move.RETRY),
                AttemptOutcome.GIVEN_BACK,
                RunStatus.FAILED,
                task.failures,
                report.error.error_class if report.error else "given_back",
                report.error.message if report.error else "The worker stopped before it ran.",
                retry_in=timedelta(0),
            )
        case _:
            # A timeout that the reaper counted is the same failure, not a second one.
            failures = task.failures + (0 if attempt.timed_out_at else 1)
            error_class = report.error.error_class if report.error else "failed"
            message = report.error.message if report.error else "The operator failed and gave no reason."
            if failures < max_attempts and (report.error is None or report.error.retry):
                return Ending(
                    after(state, Move.RETRY), AttemptOutcome.FAILED, RunStatus.FAILED, failures, error_class, message, retry_in=backoff.after(failures)
                )
            return Ending(after(state, Move.FAIL), AttemptOutcome.FAILED, RunStatus.FAILED, failures, error_class, message)


def stopped(state: TaskState, failures: int) -> Ending:
    """The end of an attempt whose task a person canceled."""
    return Ending(after(state, Move.STOPPED), AttemptOutcome.CANCELED, RunStatus.FAILED, failures, "canceled", "Canceled on request.")


def superseded(task: LockedTask, what: str = STATE_CHANGED) -> Ending:
    """The attempt's base had changed: its result is discarded, without counting as a failure."""
    return Ending(
        after(TaskState(task.state), Move.RETRY), AttemptOutcome.SUPERSEDED, RunStatus.FAILED, task.failures, "superseded", what, retry_in=timedelta(0)
    )


def allowed(task: LockedTask) -> Ending:
    """Decided: the commit follows, and nothing can stop it."""
    return Ending(after(TaskState(task.state), Move.ALLOW), AttemptOutcome.SUCCEEDED, RunStatus.SUCCESS, task.failures)


def blocked(task: LockedTask, reason: str) -> Ending:
    """Refused by the gate: final, never retried."""
    return Ending(after(TaskState(task.state), Move.BLOCK), AttemptOutcome.FAILED, RunStatus.BLOCKED, task.failures, "blocked", reason)
