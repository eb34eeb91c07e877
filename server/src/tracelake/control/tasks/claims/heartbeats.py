"""Heartbeats: a worker reports which attempts are alive; the answer says which to stop and which leases are lost."""

import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.transactions import Database
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.claims import store
from tracelake.control.tasks.judgement import AttemptRow, LockedTask, lease_token_sha256
from tracelake.control.worker_loops import store as worker_loops
from tracelake_sdk.tasks import Fence, HeartbeatAnswer, HeartbeatRequest, TaskState


@dataclass(frozen=True)
class Heartbeats:
    database: Database
    lease: timedelta

    def beat(self, caller: Caller, request: HeartbeatRequest, *, now: datetime | None = None) -> HeartbeatAnswer:
        fences = {fence.task_id: fence for fence in request.fences}
        with self.database.transaction("heartbeat") as tx:
            if request.failing is not None:
                worker_loops.replace(tx, org=caller.org_id, worker=request.worker, failing={failing.loop: failing.code for failing in request.failing})
            tasks = task_store.lock(tx, org=caller.org_id, tasks=list(fences))
            attempts = task_store.attempts(tx, [(fence.task_id, fence.attempt) for fence in fences.values()])
            mine = {id: fence for id, fence in fences.items() if _holds(fence, tasks.get(id), attempts.get((id, fence.attempt)))}
            cancel = [id for id in fences if _is_to_stop(tasks.get(id), attempts.get((id, fences[id].attempt)), fences[id])]
            expires = store.heartbeat(tx, list(mine), lease=self.lease, now=now) if mine else {}
            if mine:
                store.note_heartbeats(tx, [(fence.task_id, fence.attempt) for fence in mine.values()], now=now)
        lost: list[UUID] = [id for id in fences if id not in mine and id not in cancel]
        return HeartbeatAnswer(expires_at=expires, cancel=cancel, lost=lost)


def _genuine(fence: Fence, attempt: AttemptRow | None) -> bool:
    return attempt is not None and hmac.compare_digest(attempt.token_sha256, lease_token_sha256(fence.lease_token))


def _holds(fence: Fence, task: LockedTask | None, attempt: AttemptRow | None) -> bool:
    """Whether the lease is renewed: the current attempt, running, and not yet timed out."""
    if task is None or attempt is None or not _genuine(fence, attempt):
        return False
    return task.attempt == fence.attempt and task.state == TaskState.RUNNING.value and attempt.timed_out_at is None


def _is_to_stop(task: LockedTask | None, attempt: AttemptRow | None, fence: Fence) -> bool:
    if task is None or not _genuine(fence, attempt) or task.attempt != fence.attempt:
        return False
    return task.state == TaskState.CANCELED.value or (task.state == TaskState.RUNNING.value and task.cancel_asked_at is not None)
