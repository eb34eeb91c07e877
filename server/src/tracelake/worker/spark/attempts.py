"""One attempt at a task that writes files: its order, its operator, its measurement, and its reports until control has given a final answer."""

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from tracelake.storage.contract import Storage
from tracelake.storage.operator_credentials import OperatorCredentials
from tracelake.storage.private_places import PrivatePlaces
from tracelake.worker.measuring.contract import OutputToMeasure
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.retry_until_answered import REFUSED, Retries, is_broken
from tracelake.worker.spark.attempt_credentials import AttemptCredentials, prefixes_of
from tracelake.worker.spark.batches import BatchPoster
from tracelake.worker.spark.guard import Ended, Guard
from tracelake.worker.spark.measurement import Measurement
from tracelake.worker.spark.measuring_process import MeasuringProcess
from tracelake.worker.spark.operator_processes import OperatorProcesses
from tracelake.worker.spark.orders import check_locations, check_outcome, make_order, read_reported, staging_path, write_order
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.backoff import Backoff
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.errors import BatchesDiffer, StorageUnavailable, TracelakeError
from tracelake_sdk.tasks import ClaimedTask, CompleteRequest, Completion, CompletionAnswer, CompletionResult, Fence, OperatorError, Outcome
from tracelake_sdk.tasks.operator_files import OperatorOutcome

_log = structlog.get_logger()

_LOOK_SECONDS = 0.05
_LAST_REPORTS_SECONDS = 5.0  # how long a stopping worker keeps trying to report
_TURNS = Backoff(first=0.05, longest=1.0)         # between two reports if control answers `wait`
_STORE_LOOKS = Backoff(first=0.05, longest=5.0)  # between two checks of a store that does not answer
_PROGRESS_SECONDS = 5.0
_PROBE = "_probe"
_GIVES_UP = frozenset({Ended.CANCELED, Ended.LOST, Ended.TIMED_OUT, Ended.STOPPED})


@dataclass(frozen=True)
class Equipment:
    """What every attempt of a worker uses."""

    control: TaskClient
    storage: Storage
    operators: OperatorProcesses
    credentials: OperatorCredentials
    measuring: MeasuringProcess
    guard: Guard
    retries: Retries
    stopping: threading.Event
    scratch: Path                     # each attempt has its own folder below it
    private: PrivatePlaces            # locations may not overlap them
    watch: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic


class _Stopped(Exception):
    """The attempt may not continue."""

    def __init__(self, why: Ended) -> None:
        super().__init__(why.value)
        self.why: Ended = why


class AttemptRun:
    """`run()` is the whole attempt. `on_wait` is called when the attempt only waits: for its turn, or for the batches that it posted."""

    def __init__(self, task: ClaimedTask, equipment: Equipment, *, on_wait: Callable[[], None] = lambda: None) -> None:
        self._task: ClaimedTask = task
        self._on_wait: Callable[[], None] = on_wait
        self._fence: Fence = task.fence
        self._equipment: Equipment = equipment
        self._name: str = f"{task.fence.task_id}-{task.fence.attempt}"
        self._folder: Path = equipment.scratch / self._name
        self._deadline: float = equipment.clock() + task.payload.job.timeout_seconds
        self._poster: BatchPoster | None = None
        self._measurement: Measurement | None = None
        self._started: bool = False  # whether its work began
        self._operator_summary: list[str] = []
        self._progress_at: float = float("-inf")
        self._waits: int = 0
        self._log: Any = _log.bind(task_id=str(task.fence.task_id), attempt=task.fence.attempt)

    def run(self) -> None:
        try:
            report = self._work()
            while report is not None:
                report = self._reported(report)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def give_back(self) -> None:
        """Reports that it was not run, so that another worker can claim it at once."""
        self._reported(Completion(fence=self._fence, outcome=Outcome.GIVEN_BACK))

    def _work(self) -> Completion | None:
        """The first report; None if the attempt no longer belongs to this worker."""
        return self._guarded(self._adopt if self._task.payload.batch else self._operate)

    def _guarded(self, step: Callable[[], Completion]) -> Completion | None:
        """The step's report, or the report of its failure."""
        try:
            self._check_may_continue(sparing_lease=False)
            self._started = True
            return step()
        except _Stopped as stopped:
            return self._stopped(stopped.why)
        except OperatorFailed as failed:
            # A canceled or lost attempt fails in many ways; the reason for its end is what counts.
            why = self._equipment.guard.why_not(self._fence.task_id, self._deadline)
            return self._stopped(why) if why is not None and why in _GIVES_UP else self._broken_off(failed.error_class, failed.message, retry=failed.retry)
        except REFUSED:
            raise
        except Exception as error:
            id = secrets.token_hex(8)
            self._log.exception("an attempt raised", id=id, operator=self._task.payload.job.operator)
            return self._broken_off(type(error).__name__, f"The worker raised {type(error).__name__}; see its log under id {id}.", retry=True)

    def _broken_off(self, error_class: str, message: str, *, retry: bool) -> Completion | None:
        """Reports a failure; but if the store does not answer, the task is given back once it does, and no attempt is used up."""
        if not retry or self._store_answers():
            return self._failed(error_class, message, retry=retry)
        self._log.warning("the store does not answer; the task is given back when it does", error_class=error_class)
        try:
            self._wait_for_store()
        except _Stopped as stopped:
            if stopped.why in (Ended.CANCELED, Ended.LOST):
                return self._stopped(stopped.why)
        away = OperatorError(error_class=StorageUnavailable.code, message="The store did not answer or refused a file while the task ran; no failure is counted.", retry=True)
        return Completion(fence=self._fence, outcome=Outcome.GIVEN_BACK, error=away, posted=self._posted())

    def _store_answers(self) -> bool:
        """Tests what every attempt needs: listing its folders and writing a file in them, with the platform's own key.

        A store that lists files and refuses every write counts as unavailable. If it accepts this write and refused the operator's, the failure is the task's.
        """
        storage, probes = self._equipment.storage, [f"{staging_path(output.staged)}/{_PROBE}" for output in self._task.payload.outputs if output.staged]
        try:
            storage.seal(probes)
            for probe in probes:
                storage.replace(probe, b"")
        except StorageUnavailable:
            return False
        with suppress(StorageUnavailable):  # a file that stays there is swept with the attempt
            storage.delete(probes)
        return True

    def _wait_for_store(self) -> None:
        """Waits until the store answers; raises _Stopped if the attempt may not wait."""
        for looks in count(1):
            if self._equipment.stopping.wait(_STORE_LOOKS.after(looks)):
                raise _Stopped(Ended.STOPPED)
            self._check_may_continue(sparing_lease=True)
            if self._store_answers():
                return

    def _check_may_continue(self, *, sparing_lease: bool) -> None:
        why = self._equipment.guard.why_not(self._fence.task_id, self._deadline)
        # A lease that expires while control is not reachable ends operators; finished work is still reported.
        if why is not None and not (sparing_lease and why is Ended.LEASE):
            raise _Stopped(why)

    def _adopt(self) -> Completion:
        """A posted batch: no operator, exactly its files."""
        self._make_folder()
        self._measurement = Measurement.of_batch(self._task.payload)
        return self._succeeded(OperatorOutcome())

    def _operate(self) -> Completion:
        payload, equipment = self._task.payload, self._equipment
        check_locations(payload.locations, equipment.private, equipment.storage)
        process = equipment.operators.of(payload.job.operator)
        self._make_folder()
        credentials = self._credentials()
        order = make_order(payload, equipment.storage, self._folder, credentials.profile)
        path = write_order(order, self._folder)
        poster = self._poster = BatchPoster(
            self._task, Path(order.batches), control=equipment.control, storage=equipment.storage, watch=equipment.watch, clock=equipment.clock
        )
        run = process.start(path, self._name, self._say_progress, credentials.environment(seconds=payload.job.timeout_seconds))
        try:
            equipment.watch("operator_started")
            with equipment.guard.watching(self._fence.task_id, run, self._deadline - equipment.clock()) as watched:
                while not run.wait(_LOOK_SECONDS):
                    poster.run_once()
                    credentials.renew()
                    if poster.failed is not None:
                        run.end()
        finally:
            run.end()
        equipment.watch("operator_ended")
        if watched.ended is not None:
            raise _Stopped(watched.ended)
        self._post_the_rest(poster)
        outcome = read_reported(Path(order.outcome), OperatorOutcome, what="outcome")
        if outcome is None:
            raise run.why_never_ready() or OperatorFailed("no_outcome", f"The operator's program ended{_with(run.exit_code)} without an outcome; see its log.", retry=True)
        if outcome.error is not None:
            raise OperatorFailed(outcome.error.error_class, outcome.error.message, retry=outcome.error.retry)
        check_outcome(outcome, payload, poster.files)
        self._measurement = Measurement.of_outcome(payload, outcome)
        return self._succeeded(outcome)

    def _credentials(self) -> AttemptCredentials:
        equipment = self._equipment
        folder = self._folder / "credentials"
        folder.mkdir(mode=0o700)
        return AttemptCredentials(equipment.credentials, self._name, prefixes_of(self._task.payload, equipment.storage), folder, clock=equipment.clock)

    def _post_the_rest(self, poster: BatchPoster) -> None:
        """Also after an operator failed: its finished batches are valid."""
        while poster.waiting:
            self._check_may_continue(sparing_lease=True)
            poster.run_once()
            if poster.waiting:
                time.sleep(_LOOK_SECONDS)
        if poster.failed is not None:
            raise poster.failed

    def _succeeded(self, outcome: OperatorOutcome) -> Completion:
        measured = self._measure()
        self._operator_summary = outcome.summary
        return Completion(
            fence=self._fence, outcome=Outcome.SUCCEEDED, state=outcome.state, custom=outcome.custom, base=self._task.payload.base,
            outputs=measured.outputs, posted=self._posted(), summary=[*self._operator_summary, *measured.summary],
        )  # fmt: skip

    def _measure(self) -> Measurement:
        """Measures everything that is not measured yet."""
        self._check_may_continue(sparing_lease=True)
        if self._measurement is None:
            raise OperatorFailed("unmeasurable", "Nothing to measure.", retry=False)
        if self._measurement.complete:
            return self._measurement
        guard, task = self._equipment.guard, self._fence.task_id
        scratch = self._folder / "measuring"
        scratch.mkdir(exist_ok=True)

        def measure(outputs: Sequence[OutputToMeasure]) -> list[OutputMeasured]:
            return self._equipment.measuring.measure(self._name, outputs, scratch=scratch, give_up=lambda: guard.why_not(task, self._deadline) in _GIVES_UP)

        while not self._measurement.complete:
            try:
                self._measurement = self._measurement.done(measure)
            except OperatorFailed as failed:
                if failed.error_class != StorageUnavailable.code:
                    raise
                # Finished work of the operator is kept until the store answers again.
                self._log.warning("the store does not answer; staged files are measured when it does")
                self._wait_for_store()
        self._equipment.watch("measured")
        return self._measurement

    def _reported(self, report: Completion) -> Completion | None:
        """Sends a report; returns the next one if the answer requires one."""
        self._equipment.watch("complete_sent")
        request = CompleteRequest(items=[report])
        lease = self._task.payload.limits.lease_seconds
        try:
            answered = self._equipment.retries.until_answered(lambda: self._equipment.control.complete(request), after_stop=_LAST_REPORTS_SECONDS, broken_for=lease)
        except REFUSED:
            raise
        except TracelakeError as error:
            self._log.error("control cannot accept a report", code=error.code, detail=error.detail, error_id=error.id)
            return self._instead(report, error.code, error.detail, retry=is_broken(error))
        if answered is None:
            self._log.warning("stopped without an answer to the last report")
            return None
        self._equipment.watch("complete_answered")
        return self._next(report, answered.value.results[0])

    def _next(self, report: Completion, answer: CompletionAnswer) -> Completion | None:
        match answer.result:
            case CompletionResult.BASE_MOVED | CompletionResult.MEASURE if report.outcome is Outcome.SUCCEEDED:
                return self._guarded(lambda: self._measured_again(report, answer))
            case CompletionResult.WAIT:
                return self._waited(report)
            case CompletionResult.CANCELED if report.outcome is not Outcome.CANCELED:
                return Completion(fence=self._fence, outcome=Outcome.CANCELED)
            case CompletionResult.REFUSED:
                self._log.error("refused", code=answer.code, detail=answer.detail)
                if missing := _unlisted(report, answer):
                    return report.model_copy(update={"posted": [*report.posted, *missing]})
                return self._instead(report, answer.code or "refused", answer.detail or "Control refused the report.", retry=False)
            case _:
                self._log.info("reported", outcome=report.outcome.value, result=answer.result.value, code=answer.code)
                return None

    def _measured_again(self, report: Completion, answer: CompletionAnswer) -> Completion:
        """The report measured against changes, or with rules, that were added meanwhile."""
        if self._measurement is None:
            raise OperatorFailed("unmeasurable", "Nothing to measure again.", retry=True)
        self._log.info("measuring again", why=answer.result.value, base=answer.base)
        self._measurement = self._measurement.moved(answer.moved)
        self._measurement = self._measure().missing(answer.measure)
        measured = self._measure()
        base = report.base if answer.base is None else answer.base
        return report.model_copy(update={"outputs": measured.outputs, "base": base, "summary": [*self._operator_summary, *measured.summary]})

    def _waited(self, report: Completion) -> Completion | None:
        self._on_wait()
        self._waits += 1
        self._equipment.stopping.wait(_TURNS.after(self._waits))
        if self._equipment.stopping.is_set():
            time.sleep(_LOOK_SECONDS)
        if report.outcome is Outcome.SUCCEEDED:
            return self._guarded(lambda: report)
        return report

    def _stopped(self, why: Ended) -> Completion | None:
        match why:
            case Ended.CANCELED:
                return Completion(fence=self._fence, outcome=Outcome.CANCELED)
            case Ended.LOST:
                self._log.info("lost")
                return None
            case Ended.STOPPED:
                broken_off = OperatorError(error_class=Outcome.GIVEN_BACK.value, message="The worker stopped before it finished.", retry=True)
                return Completion(fence=self._fence, outcome=Outcome.GIVEN_BACK, error=broken_off if self._started else None, posted=self._posted())
            case Ended.LEASE:
                return self._failed("lease_ended", "The worker could not reach control in time and stopped the operator before its lease ended.", retry=True)
            case Ended.TIMED_OUT:
                seconds = self._task.payload.job.timeout_seconds
                return self._failed("timed_out", f"The attempt took longer than the {seconds} seconds that its job allows (`timeout_seconds`).", retry=True)

    def _failed(self, error_class: str, message: str, *, retry: bool) -> Completion:
        error = OperatorError(error_class=error_class, message=message, retry=retry)
        return Completion(fence=self._fence, outcome=Outcome.FAILED, error=error, posted=self._posted())

    def _instead(self, report: Completion, code: str, detail: str, *, retry: bool) -> Completion | None:
        """The failure to report if control refused a success. Any other refused report is dropped: its lease expires, and control retries the task."""
        return self._failed(code, detail, retry=retry) if report.outcome is Outcome.SUCCEEDED else None

    def _posted(self) -> list[UUID]:
        return self._poster.ids if self._poster else []

    def _make_folder(self) -> None:
        """Creates a new folder; folders of earlier attempts at this task are removed."""
        task = str(self._fence.task_id)
        self._equipment.scratch.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, self._fence.attempt + 1):
            shutil.rmtree(self._equipment.scratch / f"{task}-{attempt}", ignore_errors=True)
        self._folder.mkdir(mode=0o700)

    def _say_progress(self, progress: Mapping[str, Any]) -> None:
        """Logs progress rarely, and only values that cannot be data."""
        now = self._equipment.clock()
        if now - self._progress_at >= _PROGRESS_SECONDS:
            self._progress_at = now
            counts = {name: value for name, value in progress.items() if name.isidentifier() and isinstance(value, (int, float))}
            self._log.info("progress", **{f"so_far_{name}": value for name, value in counts.items()})


def _unlisted(report: Completion, answer: CompletionAnswer) -> list[UUID]:
    """Batches of earlier attempts that the report lacks; empty if control lacks one that was posted here, because the report cannot be corrected then."""
    if answer.code != BatchesDiffer.code or not set(report.posted) <= set(answer.posted):
        return []
    return [id for id in answer.posted if id not in report.posted]


def _with(exit_code: int | None) -> str:
    return "" if exit_code is None else f" with exit code {exit_code}"
