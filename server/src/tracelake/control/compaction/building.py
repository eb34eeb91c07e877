"""Builds the compactor of a process from its settings, and runs it where nobody else runs loops."""

import threading
from datetime import timedelta

import structlog

from tracelake.control.compaction.service import Compactor
from tracelake.control.compaction.spark_program import compact_by_spark
from tracelake.control.database.transactions import Database, Watch
from tracelake.settings import Settings
from tracelake.storage.contract import Storage
from tracelake_sdk.errors import StorageUnavailable, Unavailable

LOOK_SECONDS = 60.0
_log = structlog.get_logger()


def build_compactor(settings: Settings, database: Database, storage: Storage, watch: Watch) -> Compactor:
    return Compactor(
        database,
        storage,
        settings.home / "scratch",
        compact_by_spark(settings.home / "logs" / "compaction.log"),
        every=timedelta(hours=settings.records.compact_every_hours),
        watch=watch,
    )


class CompactionLoop:
    """A thread that looks now and then whether a run is due."""

    def __init__(self, compactor: Compactor) -> None:
        self._compactor: Compactor = compactor
        self._stopping: threading.Event = threading.Event()
        self._thread: threading.Thread = threading.Thread(target=self._repeat, name="compaction", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What Spark is at ends with this process, and is begun again by the next."""
        self._stopping.set()
        self._thread.join(timeout=5)

    def _repeat(self) -> None:
        while not self._stopping.is_set():
            try:
                self._compactor.run_once()
            except (Unavailable, StorageUnavailable) as error:
                _log.warning("a loop waits", loop="compaction", error=error.code)
            self._stopping.wait(LOOK_SECONDS)
