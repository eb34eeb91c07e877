"""Delivers the spool of one process in a background thread, with backoff while the repository accepts nothing."""

import threading
import time
from typing import Any

from tracelake_sdk.backoff import Backoff
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.records.emitter.delivery import Delivered, Delivery, NotAccepting
from tracelake_sdk.records.emitter.draining import flush_folder
from tracelake_sdk.records.emitter.refusals import RefusedFile
from tracelake_sdk.records.emitter.spool import Spool
from tracelake_sdk.records.repository.contract import MetadataRepository

_FIRST_WAIT = 0.2
_LONGEST_WAIT = 30.0
_BACKOFF = Backoff(_FIRST_WAIT, _LONGEST_WAIT, shortened=0.5)
_LOOKS_UP = 1.0  # seconds until it notices a stop


class Courier:
    """One spool, its thread, and the results of its entries."""

    def __init__(self, repository: MetadataRepository, spool: Spool) -> None:
        self.spool: Spool = spool
        self.total: Delivered = Delivered()
        self.problem: dict[str, Any] | None = None
        self._repository: MetadataRepository = repository
        self._delivery: Delivery = Delivery(repository, RefusedFile(spool.folder, spool.owner))
        self._adopted: bool = False  # entries of dead processes are delivered
        self._tried: dict[str, Delivery] = {}
        self._waits: int = 0         # in a row
        self._flushing: int = 0      # number of callers that wait for a flush
        self._progress: threading.Condition = threading.Condition()
        self._work: threading.Event = threading.Event()
        self._stopping: threading.Event = threading.Event()
        self._thread: threading.Thread = threading.Thread(target=self._run, name="tracelake-emitter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._work.set()

    def run_once(self) -> bool:
        """Delivers one batch; returns whether there was one. Entries of dead processes come first."""
        try:
            if not self._adopted:
                self._adopt()
            segment = self.spool.next()
            done = self._delivery.run_once(segment) if segment is not None else Delivered()
        except NotAccepting as waits:
            return self._waits_for_better(waits.problem)
        except Exception as error:  # a full disk, for example: the thread must survive until it is fixed
            return self._waits_for_better(TracelakeError(f"The spool cannot be delivered: {type(error).__name__}.").problem())
        with self._progress:
            self.problem, self._waits = None, 0
            self.total += done
            self.spool.settle(done.entries)
            self._progress.notify_all()
        return bool(done.entries)

    def _waits_for_better(self, problem: dict[str, Any]) -> bool:
        with self._progress:
            self.problem = problem
            self._waits += 1
            self._progress.notify_all()
        return False

    def wait_for(self, number: int, timeout: float, *, until_problem: bool = False) -> bool:
        """Whether this many entries are delivered or set aside; tries at once, until the timeout or a failure."""
        until = time.monotonic() + timeout
        with self._progress:
            self._flushing += 1
            waits = self._waits
            self._progress.notify_all()
            self._work.set()
            try:
                while self.spool.done < number and (left := until - time.monotonic()) > 0 and not (until_problem and self._waits > waits):
                    self._progress.wait(left)
            finally:
                self._flushing -= 1
        return self.spool.done >= number

    def stop(self, timeout: float) -> None:
        """Undelivered entries stay on disk."""
        self._stopping.set()
        self._work.set()
        with self._progress:
            self._progress.notify_all()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self.spool.close()  # otherwise the thread is inside a call, and the kernel closes the files at exit

    def _adopt(self) -> None:
        report = flush_folder(self.spool.folder, self._repository, stopping=self._stopping.is_set, tried=self._tried)
        if report.problem is not None:
            raise NotAccepting(report.problem)
        self._adopted = True

    def _run(self) -> None:
        while True:
            self._work.clear()
            if self._stopping.is_set():  # after the clearing: otherwise it could clear a stop that was just set
                return
            if not self.run_once():
                self._pause()

    def _pause(self) -> None:
        """Waits for work: with backoff while nothing is accepted, and shortly while a caller waits for a flush."""
        if self.problem is None:
            self._work.wait(_LONGEST_WAIT)
            return
        until = time.monotonic() + _BACKOFF.after(self._waits)
        with self._progress:
            while not self._stopping.is_set() and not self._flushing and (left := until - time.monotonic()) > 0:
                self._progress.wait(min(left, _LOOKS_UP))
        if self._flushing:
            self._stopping.wait(_FIRST_WAIT)
