"""Sweep: staging of attempts that ended long ago loses the files that no table names; what a table ever named stays."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from tracelake.control.database.transactions import Database
from tracelake.control.tasks import store
from tracelake.control.tasks.rows import SweepableAttempt
from tracelake.control.versions import store as versions
from tracelake.storage.contract import Storage, Watch
from tracelake.storage.paths import staging_folder, table_location

_log = structlog.get_logger()

BATCH = 50


@dataclass(frozen=True)
class Sweeper:
    """`retention`: how long the files of an ended attempt are left alone, so that whatever still reads them is done."""

    database: Database
    storage: Storage
    retention: timedelta
    watch: Watch

    def run_once(self, *, now: datetime | None = None) -> int:
        """How many attempts were swept. An attempt is swept when it has ended, its task is not being committed, and no batch of it waits."""
        with self.database.transaction("look_to_sweep") as tx:
            found = store.to_sweep(tx, retention=self.retention, room=BATCH, now=now)
        for attempt in found:
            self._sweep(attempt)
        if found:
            with self.database.transaction("sweep") as tx:
                store.mark_swept(tx, sorted({(attempt.task_id, attempt.attempt) for attempt in found}))
        return len(found)

    def _sweep(self, attempt: SweepableAttempt) -> None:
        location = table_location(attempt.org_id, attempt.dataset_id, attempt.dataset_version_id)
        files = self.storage.list(f"{location}/{staging_folder(attempt.task_id, attempt.attempt)}")
        paths = {file.path.removeprefix(f"{location}/"): file.path for file in files}
        self.watch("sweep:marked")
        unnamed = self._unnamed(attempt.dataset_version_id, list(paths))
        half = len(unnamed) // 2
        self.storage.delete([paths[path] for path in unnamed[:half]])
        self.watch("sweep:half")
        self.storage.delete([paths[path] for path in unnamed[half:]])
        if unnamed:
            _log.info("swept", task_id=str(attempt.task_id), attempt=attempt.attempt, files=len(unnamed))

    def _unnamed(self, dataset_version: UUID, paths: list[str]) -> list[str]:
        """Read after the list was made: a file that a table comes to name is named before its attempt can be swept."""
        if not paths:
            return []
        with self.database.transaction("named_files") as tx:
            named = versions.named_files(tx, dataset_version=dataset_version, paths=paths)
        return [path for path in paths if path not in named]
