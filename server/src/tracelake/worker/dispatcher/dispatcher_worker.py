"""The worker of runtime `dispatcher`: it prefetches tasks, runs their operators in process and reports a batch in one call.

Its operators are platform code over events and ranges; no code, SQL or expression of a user runs here, and no row is read. While
there is work, one call both reports a batch and claims the next.
"""

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog

from tracelake.loops import Loop, Loops
from tracelake.worker.dispatcher.operators.contract import Operator, OperatorResult
from tracelake.worker.dispatcher.operators.registry import OPERATOR_FUNCTIONS, operator_for
from tracelake.worker.leases import Leases, Standing
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.retry_until_answered import REFUSED, Retries, is_broken
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.dags import DEFAULT_POOL, Runtime
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.tasks import (
    MAX_EVENTS,
    ClaimedTask,
    ClaimRequest,
    CompleteRequest,
    Completion,
    CompletionAnswer,
    CompletionResult,
    OperatorError,
    Outcome,
    TaskPayload,
)

_log = structlog.get_logger()

_LAST_REPORTS_SECONDS = 5.0   # how long a stopping worker keeps trying to report
_EARLY_SECONDS = 0.25         # an empty answer sooner than this was not a long poll
_LONGEST_PAUSE = 1.0          # then a pause keeps the worker from polling in a tight loop


class DispatcherWorker:
    """`run_once()` is one batch: claimed, run, reported. `watch` is called at named moments, for the chaos suite."""

    def __init__(
        self,
        control: TaskClient,
        *,
        name: str,
        prefetch: int,
        poll_seconds: float,
        watch: Callable[[str], None] = lambda moment: None,
        operators: Mapping[tuple[str, str], Operator] = OPERATOR_FUNCTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control: TaskClient = control
        self._name: str = name
        self._prefetch: int = prefetch
        self._poll_seconds: float = poll_seconds
        self._watch: Callable[[str], None] = watch
        self._operators: Mapping[tuple[str, str], Operator] = operators
        self._clock: Callable[[], float] = clock
        self._stopping: threading.Event = threading.Event()
        self._retries: Retries = Retries(self._stopping, clock=clock)
        self.leases: Leases = Leases(control, name, clock=clock)
        self._loop: Loop = Loop("dispatcher", self._batch_or_pause, ends_on=REFUSED)
        self.loops: Loops = Loops()
        self.loops.add([self.leases.loop, self._loop])
        self._claimed: list[ClaimedTask] = []
        self._pause: float = 0
        self._polling: bool = False

    @property
    def polling(self) -> bool:
        """Whether it waits for work and holds no task."""
        return self._polling

    def stop(self) -> None:
        """Makes `run()` return: running tasks are finished, tasks that were only claimed are given back."""
        self._stopping.set()
        self._control.hang_up()

    def run(self) -> None:
        self.leases.start()
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self._loop.take_turn())
            self.give_back()
        finally:
            self.leases.close()
            self._control.close()

    def run_once(self) -> int:
        """One batch, with a long poll if there is none; returns the number of its tasks."""
        batch = self._claimed or self._claim()
        self._claimed = []
        portions = self._portions(batch)
        portion = next(portions, None)
        while portion is not None:
            following = next(portions, None)
            self._report(portion, claims_next=following is None)
            portion = following
        return len(batch)

    def _batch_or_pause(self) -> None:
        try:
            busy = self.run_once()
        except Exception:
            # They are no longer worked on: their leases must expire, so that control hands them out again.
            self._claimed = []
            self.leases.release_all()
            raise
        if not busy:
            self._stopping.wait(self._pause)

    def give_back(self) -> None:
        """Gives back tasks that were claimed and not run, so that another worker can claim them at once."""
        if self._claimed:
            _log.info("giving back", tasks=len(self._claimed))
            self._report([Completion(fence=task.fence, outcome=Outcome.GIVEN_BACK) for task in self._claimed], claims_next=False)
            self._claimed = []

    def _claim(self) -> list[ClaimedTask]:
        request = self._claim_request(self._poll_seconds)
        sent = self._clock()
        self._polling = True
        try:
            answered = self._retries.claim(self._control.claim, request)
        finally:
            self._polling = False
        if answered is None:
            return []
        claimed = answered.value.claimed
        early = not claimed and self._clock() - sent < _EARLY_SECONDS
        self._pause = random.uniform(0.2, 1) * _LONGEST_PAUSE if early else 0  # noqa: S311 spreading load, not keeping secrets
        self._take(claimed, answered.since)
        return claimed

    def _take(self, claimed: list[ClaimedTask], since: float) -> None:
        if claimed:
            self.leases.hold(claimed, since=since)
            self._watch("worker_claimed")

    def _claim_request(self, wait_s: float) -> ClaimRequest:
        # 256 random bits a claim: the attempts' tokens derive from it.
        return ClaimRequest(
            worker=self._name, claim_id=secrets.token_urlsafe(32), runtime=Runtime.DISPATCHER.value, room={DEFAULT_POOL: self._prefetch}, wait_s=wait_s
        )

    def _portions(self, batch: Sequence[ClaimedTask]) -> Iterator[list[Completion]]:
        """Runs the tasks in order and yields their reports, as many at a time as one call may carry events."""
        portion: list[Completion] = []
        events = 0
        for task in batch:
            report = self._run(task)
            if report is None:
                self.leases.release([task.fence.task_id])
                continue
            if events + len(report.events) > MAX_EVENTS and portion:
                yield portion
                portion, events = [], 0
            portion.append(report)
            events += len(report.events)
        if portion:
            yield portion

    def _run(self, task: ClaimedTask) -> Completion | None:
        """The report of one attempt; None if the attempt no longer belongs to this worker."""
        fence = task.fence
        match self.leases.standing(fence.task_id):
            case Standing.LOST:
                _log.info("lost", task_id=str(fence.task_id), attempt=fence.attempt)
                return None
            case Standing.CANCELED:
                return Completion(fence=fence, outcome=Outcome.CANCELED)
            case Standing.PASSED:
                _log.warning("the lease expired before the task ran", task_id=str(fence.task_id), attempt=fence.attempt)
                return Completion(fence=fence, outcome=Outcome.GIVEN_BACK)
            case Standing.HELD if self._stopping.is_set():
                return Completion(fence=fence, outcome=Outcome.GIVEN_BACK)
            case Standing.HELD:
                return self._outcome(task)

    def _outcome(self, task: ClaimedTask) -> Completion:
        try:
            result = self._operate(task.payload)
        except OperatorFailed as failed:
            return _failed(task, failed.error_class, failed.message, retry=failed.retry)
        except Exception as error:
            id = secrets.token_hex(8)
            _log.exception("an operator raised", id=id, task_id=str(task.fence.task_id), operator=task.payload.job.operator)
            return _failed(task, type(error).__name__, f"The operator raised {type(error).__name__}; see the worker's log under id {id}.", retry=True)
        return Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, events=result.events, state=result.state)

    def _operate(self, payload: TaskPayload) -> OperatorResult:
        operator = operator_for(payload, self._operators)
        return operator(payload)

    def _report(self, reports: list[Completion], *, claims_next: bool) -> None:
        """One call for all; a report that was refused is sent again as a failure."""
        self._watch("worker_ran")
        reports = [self._unless_canceled(report) for report in reports]
        claim = self._claim_request(0) if claims_next and not self._stopping.is_set() else None
        self._watch("worker_completing")
        refused: list[Completion] = []
        for report, answer in self._complete(reports, claim, broken_for=self.leases.longest):
            if answer.result is CompletionResult.REFUSED:
                _log.error("refused", task_id=str(answer.task_id), attempt=report.fence.attempt, code=answer.code, detail=answer.detail)
                refused += _as_failure(report, answer.code or "refused", answer.detail or "Control refused the report.", retry=False)
            elif answer.status != 200 or answer.result is CompletionResult.SUPERSEDED:
                _log.info("report not accepted", task_id=str(answer.task_id), attempt=report.fence.attempt, result=answer.result.value, code=answer.code)
        for report, answer in self._complete(refused, None, broken_for=0) if refused else ():
            if answer.status != 200:
                _log.error("the report of a failure was refused", task_id=str(answer.task_id), attempt=report.fence.attempt, result=answer.result.value, code=answer.code)

    def _unless_canceled(self, report: Completion) -> Completion:
        """A cancel that arrived while the operator ran replaces its result. A lost lease does not: a slow worker may finish late."""
        if self.leases.standing(report.fence.task_id) is Standing.CANCELED:
            return Completion(fence=report.fence, outcome=Outcome.CANCELED)
        return report

    def _complete(self, reports: list[Completion], claim: ClaimRequest | None, *, broken_for: float) -> list[tuple[Completion, CompletionAnswer]]:
        """Each report with its answer. A call that control cannot accept is split in halves until the report that causes it is found."""
        request = CompleteRequest(items=reports, claim=claim)
        try:
            answered = self._retries.until_answered(lambda: self._control.complete(request), after_stop=_LAST_REPORTS_SECONDS, broken_for=broken_for)
        except REFUSED:
            raise
        except TracelakeError as error:
            if len(reports) == 1:
                return self._give_up(reports[0], error)
            half = len(reports) // 2
            return self._complete(reports[:half], None, broken_for=0) + self._complete(reports[half:], None, broken_for=0)
        # Before the next tasks are added: one of them may be the next attempt of one of these.
        self.leases.release(report.fence.task_id for report in reports)
        if answered is None:
            _log.warning("stopped without an answer to the last reports", tasks=len(reports))
            return []
        self._watch("worker_completed")
        self._claimed += answered.value.claimed
        self._take(answered.value.claimed, answered.since)
        return list(zip(reports, answered.value.results, strict=True))

    def _give_up(self, report: Completion, error: TracelakeError) -> list[tuple[Completion, CompletionAnswer]]:
        """The report that control cannot accept becomes a failure; if control itself failed on it, a failure that may be retried."""
        _log.error("control cannot accept a report", task_id=str(report.fence.task_id), code=error.code, detail=error.detail, error_id=error.id)
        failure = _as_failure(report, error.code, error.detail, retry=is_broken(error))
        if failure:
            return self._complete(failure, None, broken_for=0)
        self.leases.release([report.fence.task_id])  # its lease expires, and control retries the task
        return []


def _as_failure(report: Completion, code: str, detail: str, *, retry: bool) -> list[Completion]:
    """The report of a failure instead of this report; empty if the report already is a failure."""
    if report.outcome is not Outcome.SUCCEEDED:
        return []
    return [Completion(fence=report.fence, outcome=Outcome.FAILED, error=OperatorError(error_class=code, message=detail, retry=retry))]


def _failed(task: ClaimedTask, error_class: str, message: str, *, retry: bool) -> Completion:
    error = OperatorError(error_class=error_class, message=message, retry=retry)
    return Completion(fence=task.fence, outcome=Outcome.FAILED, error=error)
