"""The worker of runtime `spark`: it has the tokens and runs operator programs without tokens, as many at a time as it has slots.

A free slot claims one task and nothing is prefetched; the slot's thread runs the attempt to its end. An attempt that only waits
leaves its slot to another thread: it may wait for a task that this slot must run.
"""

import random
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from tracelake.loops import Loop, Loops
from tracelake.storage.contract import Storage
from tracelake.storage.operator_credentials import OperatorCredentials
from tracelake.storage.private_places import PrivatePlaces
from tracelake.worker.leases import Leases
from tracelake.worker.retry_until_answered import REFUSED, Retries
from tracelake.worker.spark.attempts import AttemptRun, Equipment
from tracelake.worker.spark.guard import Guard
from tracelake.worker.spark.measuring_process import MeasuringProcess
from tracelake.worker.spark.operator_processes import OperatorProcesses
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.dags import DEFAULT_POOL, Runtime
from tracelake_sdk.tasks import ClaimedTask, ClaimRequest

_log = structlog.get_logger()

STOP_SECONDS = 5.0           # how long running operators may continue after the worker was stopped
_EARLY_SECONDS = 0.25        # an empty answer sooner than this was not a long poll
_LONGEST_PAUSE = 1.0         # then a pause keeps the worker from polling in a tight loop
_LOOK_SECONDS = 0.05
_CLAIM_SECONDS = 0.8         # how long a stop waits for the answer to a claim in flight
_MOST_WAITING = 16           # attempts beside the slots that wait for a final answer of control
_FORGOTTEN_SECONDS = 86400   # age at which a scratch folder is removed


class SparkWorker:
    """`run_once()` is one slot's turn: one task claimed, run and reported. `watch` is called at named moments, for the chaos suite."""

    def __init__(
        self,
        control: TaskClient,
        *,
        name: str,
        slots: int,
        poll_seconds: float,
        storage: Storage,
        operators: OperatorProcesses,
        credentials: OperatorCredentials,
        measuring: MeasuringProcess,
        scratch: Path,
        private: PrivatePlaces,
        watch: Callable[[str], None] = lambda moment: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control: TaskClient = control
        self._name: str = name
        self._slots: int = slots
        self._poll_seconds: float = poll_seconds
        self._operators: OperatorProcesses = operators
        self._measuring: MeasuringProcess = measuring
        self._scratch: Path = scratch
        self._clock: Callable[[], float] = clock
        self._stopping: threading.Event = threading.Event()
        self._retries: Retries = Retries(self._stopping, clock=clock)
        self.leases: Leases = Leases(control, name, clock=clock)
        self.guard: Guard = Guard(self.leases, clock=clock)
        self._equipment: Equipment = Equipment(
            control=control, storage=storage, operators=operators, credentials=credentials, measuring=measuring, guard=self.guard, retries=self._retries,
            stopping=self._stopping, scratch=scratch, private=private, watch=watch, clock=clock,
        )  # fmt: skip
        self._failures: list[Exception] = []
        self.loops: Loops = Loops()
        self.loops.add([self.leases.loop, self.guard.loop])
        self._lock: threading.Lock = threading.Lock()
        self._claiming: int = 0
        self._working: int = 0
        self._waiting: int = 0

    @property
    def polling(self) -> bool:
        """Whether it waits for work and holds no task."""
        return self._working == 0

    def stop(self) -> None:
        """Makes `run()` return: no more tasks are claimed; running ones have a moment to finish, then they are ended and given back."""
        self.guard.stop_in(STOP_SECONDS)
        self._stopping.set()
        # Else a poll in flight could get the task that another slot gives back.
        self._control.hang_up()

    def run(self) -> None:
        """Runs until it is stopped; raises control's refusal of this worker."""
        if not self._operators.able:
            _log.warning("Spark is not installed", remedy="install the package tracelake-spark to run tasks of runtime spark", worker=self._name)
            self._stopping.wait()
            return
        self._forget_old_folders()
        self.leases.start()
        self.guard.start()
        try:
            for _ in range(self._slots):
                self._open_slot()
            self._stopping.wait()
            # A claim without an answer is abandoned: a task that it may have got is handed out again when its lease ends.
            patience = self._clock() + _CLAIM_SECONDS
            while self._working or (self._claiming and self._clock() < patience):
                time.sleep(_LOOK_SECONDS)
        finally:
            self.close()
        if self._failures:
            raise self._failures[0]

    def run_once(self, on_wait: Callable[[], None] = lambda: None) -> bool:
        """One turn of a slot; whether there was a task."""
        self._operators.stop_idle()
        with self._counted_as_claiming():
            task, pause = self._claim()
        if task is None:
            self._stopping.wait(pause)
            return False
        try:
            self.leases.run_once()  # updates the state of the lease
            attempt = AttemptRun(task, self._equipment, on_wait=on_wait)
            if self._stopping.is_set():
                attempt.give_back()
            else:
                attempt.run()
        finally:
            self.leases.release([task.fence.task_id])
            with self._lock:
                self._working -= 1
        return True

    def close(self) -> None:
        """Ends everything it started."""
        self._operators.close()
        self._measuring.close()
        self.guard.close()
        self.leases.close()
        self._control.close()

    def _open_slot(self) -> None:
        """A slot is a loop, until the worker stops or another slot has taken its place."""
        left = False

        def leave() -> None:
            nonlocal left
            with self._lock:
                if left or self._waiting >= _MOST_WAITING or self._stopping.is_set():
                    return
                left = True
                self._waiting += 1
            self._open_slot()

        def turn() -> None:
            try:
                self.run_once(leave)
            except REFUSED as error:  # raised again by `run`
                self._failures.append(error)
                self.stop()
                raise
            finally:
                if left or self._stopping.is_set():
                    slot.ask_to_stop()
                if left:
                    with self._lock:
                        self._waiting -= 1

        slot = Loop("slot", turn, ends_on=REFUSED)
        self.loops.start(slot)

    def _claim(self) -> tuple[ClaimedTask | None, float]:
        """A task, or how long to pause before the next claim."""
        # 256 random bits a claim: the attempt's token derives from it.
        claim_id = secrets.token_urlsafe(32)
        request = ClaimRequest(worker=self._name, claim_id=claim_id, runtime=Runtime.SPARK.value, room={DEFAULT_POOL: 1}, wait_s=self._poll_seconds)
        sent = self._clock()
        answered = self._retries.claim(self._control.claim, request)
        if answered is None or not answered.value.claimed:
            early = self._clock() - sent < _EARLY_SECONDS
            return None, random.uniform(0.2, 1) * _LONGEST_PAUSE if early else 0  # noqa: S311 spreading load, not keeping secrets
        [task] = answered.value.claimed
        with self._lock:
            self._working += 1
        # The lease began somewhere in the poll, so it is counted from the poll's start.
        self.leases.hold([task], since=answered.sent)
        return task, 0

    @contextmanager
    def _counted_as_claiming(self) -> Generator[None]:
        with self._lock:
            self._claiming += 1
        try:
            yield
        finally:
            with self._lock:
                self._claiming -= 1

    def _forget_old_folders(self) -> None:
        """Scratch folders of attempts whose worker was killed."""
        with suppress(FileNotFoundError):
            for folder in self._scratch.iterdir():
                if time.time() - folder.stat().st_mtime > _FORGOTTEN_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
