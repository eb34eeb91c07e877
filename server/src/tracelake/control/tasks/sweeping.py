"""Sweep: staging of attempts that ended long ago loses the files that no table names; what a table ever named stays."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

import structlog

from tracelake.control.database.transactions import Database
from tracelake.control.tasks import store
from tracelake.control.tasks.rows import SweepableAttempt
from tracelake.control.versions import store as versions
from tracelake.loops import log_failure
from tracelake.storage.contract import Storage, Watch
from tracelake.storage.paths import staging_folder, table_location
from tracelake_sdk.errors import StorageUnavailable, Unavailable

_log = structlog.get_logger()

BATCH = 50
_POSTPONED = timedelta(hours=1)  # an attempt that cannot be swept


@dataclass(frozen=True)
class Sweeper:
    """`retention`: how long the files of an ended attempt are kept, so that remaining readers can finish."""

    database: Database
    storage: Storage
    retention: timedelta
    watch: Watch

    def run_once(self, *, now: datetime | None = None) -> int:
        """How many attempts were swept. An attempt is swept when it has ended, its task is not being committed, and no batch of it waits."""
        with self.database.transaction("look_to_sweep") as tx:
            found = store.to_sweep(tx, retention=self.retention, room=BATCH, now=now)
        swept = [key for key, outputs in groupby(found, key=lambda output: (output.task_id, output.attempt)) if self._swept(key, outputs)]
        if swept:
            with self.database.transaction("sweep") as tx:
                store.mark_swept(tx, sorted(swept))
        return len(swept)

    def _swept(self, key: tuple[UUID, int], outputs: Iterable[SweepableAttempt]) -> bool:
        """Whether the attempt was swept completely; a failure of one attempt must not stop the others."""
        try:
            for output in outputs:
                self._sweep(output)
        except (StorageUnavailable, Unavailable):
            raise
        except Exception as error:
            log_failure("an attempt cannot be swept", error, task_id=str(key[0]), attempt=key[1])
            with self.database.transaction("postpone_sweep") as tx:
                store.postpone_sweep(tx, *key, pause=_POSTPONED)
            return False
        return True

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
        """Read after the files were listed: a table names its files before their attempt can be swept."""
        nameable = [path for path in paths if _is_text(path)]
        if not nameable:
            return paths
        with self.database.transaction("named_files") as tx:
            named = versions.named_files(tx, dataset_version=dataset_version, paths=nameable)
        return [path for path in paths if path not in named]


def _is_text(path: str) -> bool:
    """Whether a table can name it: an operator may give a file a name that is not UTF-8, which no log entry can hold."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
