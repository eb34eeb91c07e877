"""An emitter in front of any repository: `emit` writes to disk and returns, and a background thread delivers."""

import atexit
import logging
import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelake_sdk.errors.records import SpoolFull
from tracelake_sdk.records.emitter.courier import Courier
from tracelake_sdk.records.emitter.delivery import Delivered
from tracelake_sdk.records.emitter.spool import Spool
from tracelake_sdk.records.record import MetadataContext, MetadataRecord
from tracelake_sdk.records.repository.contract import MetadataRepository
from tracelake_sdk.wording import counted, plural

_AT_EXIT = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmitterStatus:
    """The state of the records that this process emitted."""

    waiting: int
    waiting_bytes: int
    stored: int
    same: int
    refused: int                     # set aside, with their problems, in `refused/` of the spool folder
    problem: dict[str, Any] | None   # why nothing is delivered now


class Emitter:
    """Accepts records at once and delivers them in order when the repository answers.

    One folder is for one repository; several processes may share it. Entries that a process leaves behind are delivered by the next emitter on
    the folder, or by `tracelake record flush`. Safe to call from any thread and from async code. A forked child writes its own spool;
    whether it may use a repository that was opened before the fork depends on the repository.
    """

    def __init__(
        self, repository: MetadataRepository, spool_folder: Path | str, *,
        fsync: bool = False, most_bytes: int = 1024**3, segment_bytes: int = 8 * 1024**2,
    ) -> None:
        self._repository: MetadataRepository = repository
        self._folder: Path = Path(spool_folder)
        self._fsync: bool = fsync  # without it, emitted records survive a kill; with it, also a power loss
        self._most_bytes: int = most_bytes
        self._segment_bytes: int = segment_bytes
        self._opening: threading.Lock = threading.Lock()
        self._courier: Courier | None = None
        self._before: Delivered = Delivered()  # by closed couriers
        self._last_context: tuple[MetadataContext | None, bytes] = (None, b"")
        _of_this_process.add(self)

    def emit(self, record: MetadataRecord, context: MetadataContext) -> None:
        """The record is on disk when this returns. Raises SpoolFull, and never an error of the repository."""
        last, spelt = self._last_context
        if last is not context:
            spelt = context.model_dump_json().encode()
            self._last_context = (context, spelt)
        body = record.model_dump_json().encode()
        courier = self._opened()
        while not courier.spool.append(spelt, body):
            courier = self._opened()  # the courier was closed in between
        courier.wake()

    def flush(self, timeout: float = 30.0) -> bool:
        """Whether all records emitted so far are delivered or set aside."""
        courier = self._courier
        return courier is None or courier.wait_for(courier.spool.emitted, timeout)

    def status(self) -> EmitterStatus:
        courier, total = self._courier, self._before
        if courier is None:
            return EmitterStatus(0, 0, total.stored, total.same, total.refused, None)
        spool, total = courier.spool, total + courier.total
        return EmitterStatus(spool.emitted - spool.done, spool.waiting_bytes, total.stored, total.same, total.refused, courier.problem)

    def close(self, timeout: float = 5.0) -> EmitterStatus:
        """Delivers records while the repository answers; the rest stays in the folder. Refused records are also logged as a warning."""
        with self._opening:
            courier, self._courier = self._courier, None
        if courier is None:
            return self.status()
        courier.wait_for(courier.spool.emitted, timeout, until_problem=True)
        courier.stop(timeout)
        with self._opening:
            self._before += courier.total
        atexit.unregister(self.close)
        waiting, waiting_bytes = courier.spool.emitted - courier.spool.done, courier.spool.waiting_bytes
        if refused := courier.total.refused:
            _log.warning(
                "%s %s refused and set aside in %s; `tracelake record refused --spool %s` lists them with the reasons.",
                counted(refused, "record"), plural(refused, "was", "were"), self._folder / "refused", self._folder,
            )  # fmt: skip
        return EmitterStatus(waiting, waiting_bytes, self._before.stored, self._before.same, self._before.refused, courier.problem)

    def __enter__(self) -> "Emitter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> Courier:
        if (courier := self._courier) is not None:
            return courier
        with self._opening:
            if self._courier is None:
                try:
                    spool = Spool(self._folder, segment_bytes=self._segment_bytes, most_bytes=self._most_bytes, fsync=self._fsync)
                except OSError as error:
                    raise SpoolFull(f"The spool cannot be opened: {error.strerror or error}.") from error
                self._courier = Courier(self._repository, spool)
                atexit.register(self.close, _AT_EXIT)
                self._courier.start()
            return self._courier

    def after_fork(self) -> None:
        """In a forked child: it opens its own spool and thread with the first record that it emits."""
        courier, self._courier = self._courier, None
        self._opening = threading.Lock()
        self._before = Delivered()
        if courier is not None:
            courier.spool.leave_to_parent()


_of_this_process: "weakref.WeakSet[Emitter]" = weakref.WeakSet()


def _after_fork() -> None:
    for emitter in list(_of_this_process):
        emitter.after_fork()


os.register_at_fork(after_in_child=_after_fork)
