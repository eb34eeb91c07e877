"""Posting: a finished batch of a running task is stored and becomes a small task that adopts it.

The batch is measured, decided and committed separately, so that a long-running source publishes while it runs and one attempt
still has one decision. A batch is named within its task: posted twice, by any attempt, it is stored once.
"""

import hmac
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.dags.store import Job, Output
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.completions import store
from tracelake.control.tasks.judgement import lease_token_sha256
from tracelake.control.tasks.notifications import WakePools
from tracelake.control.tasks.routing import look_and_lock, until_routing_holds
from tracelake.control.tasks.rows import NewTask, PostedBatch
from tracelake.control.tasks.task_state import FINAL
from tracelake.storage.paths import UnsafePath, plain, staging_folder
from tracelake_sdk.dags import UpdateStrategy
from tracelake_sdk.errors import BatchConflict, Invalid, StaleAttempt, TaskCanceled, TracelakeError
from tracelake_sdk.tasks import Batch, BatchAnswer, TaskState, TriggerKind


@dataclass(frozen=True)
class Posting:
    database: Database
    wake: WakePools

    def post(self, caller: Caller, batches: list[Batch]) -> list[BatchAnswer]:
        """One answer per batch, in order; an invalid batch does not affect the others."""
        return [self._answer(caller, batch) for batch in batches]

    def _answer(self, caller: Caller, batch: Batch) -> BatchAnswer:
        try:
            id, pools = until_routing_holds(lambda: self._post(caller, batch))
        except TracelakeError as error:
            return BatchAnswer(status=error.status, code=error.code, detail=error.detail)
        self.wake(pools)
        return BatchAnswer(status=200, id=id)

    def _post(self, caller: Caller, batch: Batch) -> tuple[UUID, set[UUID]]:
        with self.database.transaction("post") as tx:
            keys = task_store.keys_of(tx, org=caller.org_id, tasks=[batch.fence.task_id])
            if not keys:
                raise StaleAttempt
            generation = keys[0].generation_id
            routing = look_and_lock(tx, [generation], emitting=())
            task = task_store.lock(tx, org=caller.org_id, tasks=[batch.fence.task_id])[batch.fence.task_id]
            attempt = task_store.attempts(tx, [(task.id, batch.fence.attempt)]).get((task.id, batch.fence.attempt))
            if attempt is None or not hmac.compare_digest(attempt.token_sha256, lease_token_sha256(batch.fence.lease_token)):
                raise StaleAttempt
            earlier = {posted.name: posted for posted in task_store.batches_of_task(tx, task.id)}.get(batch.name)
            if earlier is not None:
                return _same(earlier, batch), set()
            if task.attempt != batch.fence.attempt or attempt.ended_at is not None or TaskState(task.state) in FINAL:
                raise StaleAttempt
            if task.cancel_asked_at is not None:
                raise TaskCanceled
            job = routing.jobs[generation]
            _check(job, routing.outputs[generation], batch)
            posted = PostedBatch(new_id(), task.id, batch.fence.attempt, batch.name, batch.output, batch.files, batch.state, new_id())
            store.add_batch(tx, posted, org=caller.org_id)
            return posted.id, _make_task(tx, caller.org_id, job, posted)


def _same(earlier: PostedBatch, batch: Batch) -> UUID:
    # A later attempt wrote the batch again in its own folder: it is the same batch, and the first files are used.
    if earlier.output_index != batch.output or (earlier.attempt == batch.fence.attempt and earlier.files != batch.files):
        raise BatchConflict(f"The batch {batch.name!r} was posted before with other files; give a new batch a new name.")
    return earlier.id


def _check(job: Job, outputs: list[Output], batch: Batch) -> None:
    if batch.output >= len(outputs) or not outputs[batch.output].has_files:
        raise Invalid(f"The job has no output {batch.output} with files.")
    if job.stored.update_strategy is not UpdateStrategy.APPEND or len(outputs) != 1:
        raise Invalid("Only a job that appends to one output can post batches: a replace is published as a whole.")
    folder = f"{staging_folder(batch.fence.task_id, batch.fence.attempt)}/"
    for path in batch.files:
        try:
            plain(path)
        except UnsafePath as unsafe:
            raise Invalid(f"A file of the batch has an invalid name: {unsafe}.") from None
        if not path.startswith(folder):
            raise Invalid("The batch names a file outside its attempt's own staging folder.")


def _make_task(tx: Transaction, org: UUID, job: Job, posted: PostedBatch) -> set[UUID]:
    """It needs no turn and ignores a pause: its producer may hold the only turn, and continues while its job is paused."""
    task = NewTask(
        posted.task_id, job.dag_id, job.generation_id, job.pool_id, TriggerKind.BATCH, posted.id, scope=None, request=None, ordinal=None, waits=None
    )
    task_store.add(tx, org=org, tasks=[task])
    return {job.pool_id}
