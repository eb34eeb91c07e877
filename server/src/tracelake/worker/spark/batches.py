"""Batches: parts of a running task's work that are published before the task ends.

An operator renames a finished batch into its folder; here its files are sealed and it is posted. The same name is the same batch, so
a batch whose answer was lost is posted again.
"""

import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import structlog

from tracelake.storage.contract import Storage
from tracelake.storage.paths import UnsafePath
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.retry_until_answered import passes
from tracelake.worker.spark.orders import below_table, check_files, read_reported
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.backoff import Backoff
from tracelake_sdk.errors import StorageUnavailable, TracelakeError, Unavailable
from tracelake_sdk.tasks import Batch, BatchAnswer, ClaimedTask, PostRequest, StagedOutput
from tracelake_sdk.tasks.operator_files import BatchReady

_log = structlog.get_logger()

_AT_ONCE = 50
_AWAY = frozenset({429, 500, 502, 503, 504})  # a later try may succeed
_BACKOFF = Backoff(first=0.1, longest=5.0)


class BatchPoster:
    """The batches of one attempt; `run_once()` posts what is ready, in the order of names, in one call."""

    def __init__(
        self, task: ClaimedTask, folder: Path, *, control: TaskClient, storage: Storage, watch: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._task: ClaimedTask = task
        self._folder: Path = folder
        self._control: TaskClient = control
        self._storage: Storage = storage
        self._watch: Callable[[str], None] = watch
        self._clock: Callable[[], float] = clock
        self._staged: dict[int, StagedOutput] = {output.index: output.staged for output in task.payload.outputs if output.staged}
        self._ready: dict[str, Batch] = {}
        self._seen: set[str] = set()
        self._failures: int = 0
        self._not_before: float = 0
        self.ids: list[UUID] = []
        self.files: list[tuple[int, str]] = []
        self.failed: OperatorFailed | None = None

    @property
    def waiting(self) -> bool:
        """Whether a finished batch is not posted yet."""
        return self.failed is None and bool(self._ready or self._new())

    def run_once(self) -> None:
        """A permanent failure is kept in `failed`; a temporary one is retried after a pause."""
        if self.failed is not None or self._clock() < self._not_before:
            return
        try:
            for name in self._new():
                self._ready[name] = self._sealed(name)
                self._seen.add(name)
            batches = [self._ready[name] for name in sorted(self._ready)][:_AT_ONCE]
            if batches:
                self._post(batches)
            self._failures = 0
        except OperatorFailed as failed:
            self.failed = failed
        except TracelakeError as error:
            if not passes(error) and not isinstance(error, StorageUnavailable):
                raise
            self._failures += 1
            pause = _BACKOFF.after(self._failures)
            self._not_before = self._clock() + pause
            _log.warning("a batch is not posted yet", task_id=str(self._task.fence.task_id), code=error.code, again_in_seconds=round(pause, 2))

    def _new(self) -> list[str]:
        found = [path.stem for path in self._folder.iterdir() if path.suffix == ".json" and not path.name.startswith(".")]
        return sorted(name for name in found if name not in self._seen)

    def _sealed(self, name: str) -> Batch:
        ready = read_reported(self._folder / f"{name}.json", BatchReady, what="batch")
        if ready is None or ready.name != name or ready.output not in self._staged:
            raise OperatorFailed("batch_invalid", "The name of the operator's batch differs from its file name, or the order does not have its output.", retry=False)
        if ready.name in self._task.payload.posted:
            raise OperatorFailed("batch_invalid", "The operator posted a batch that an earlier attempt already posted.", retry=False)
        check_files(ready.files, "batch")
        if not ready.files or set(self.files) & {(ready.output, file) for file in ready.files}:
            raise OperatorFailed("batch_invalid", "The operator's batch has no file, or a file of an earlier batch.", retry=False)
        staged = self._staged[ready.output]
        paths = [below_table(staged, file) for file in ready.files]
        self._seal([f"{staged.location}/{path}" for path in paths])
        self.files += [(ready.output, file) for file in ready.files]
        try:
            return Batch(fence=self._task.fence, name=ready.name, output=ready.output, files=paths, state=ready.state)
        except ValueError:
            raise OperatorFailed("batch_invalid", "The operator's batch has an invalid name, or too many files.", retry=False) from None

    def _seal(self, paths: list[str]) -> None:
        try:
            sealed = self._storage.seal(paths)
        except UnsafePath:
            sealed = {}
        if len(sealed) != len(paths):
            raise OperatorFailed("batch_invalid", "The operator's batch names a file that does not exist.", retry=False)

    def _post(self, batches: list[Batch]) -> None:
        answer = self._control.post(PostRequest(batches=batches))
        for batch, result in zip(batches, answer.results, strict=True):
            self._answered(batch, result)
        if self.failed is None:
            self._watch("batch_posted")
        if any(result.status in _AWAY for result in answer.results):
            raise Unavailable

    def _answered(self, batch: Batch, result: BatchAnswer) -> None:
        if result.id is not None:
            del self._ready[batch.name]
            self.ids.append(result.id)
            _log.info("posted", task_id=str(self._task.fence.task_id), batch=batch.name, files=len(batch.files))
        elif result.status not in _AWAY and self.failed is None:
            # Irrelevant for an attempt that is no longer ours; for any other, the same files would be refused again.
            self.failed = OperatorFailed(result.code or "batch_refused", result.detail or "Control refused the batch.", retry=False)
