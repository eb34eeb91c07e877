"""A state machine of claim, heartbeat, expire, complete, cancel and retry, walked by hypothesis against the real database.

The model is a few lines of plain Python. After every step the database must agree with it.
"""

import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.controls import ControlPlane, failed, running_control, settings_for, succeeded
from support.databases import fresh_database
from support.sizes import size

from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake_sdk.errors import AlreadyFinal
from tracelake_sdk.tasks import ClaimedTask, Completion, HeartbeatRequest, Outcome

MAX_ATTEMPTS = 3
LEASE = timedelta(seconds=30)


@dataclass
class Modelled:
    """What the model believes of one task."""

    id: UUID
    state: str = "queued"
    due: datetime | None = None  # of a retry that waits
    failures: int = 0
    cancel_asked: bool = False
    lease_end: datetime | None = None
    claims: list[ClaimedTask] = field(default_factory=list)
    timed_out: bool = False       # the current attempt
    open: bool = False            # the current attempt has no end yet
    ended: int = 0                # attempts that are final
    taken: dict[int, Completion] = field(default_factory=dict)


class TaskMachine(RuleBasedStateMachine):
    control_plane: ClassVar[ControlPlane]

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime.now(UTC)
        self.tasks: dict[UUID, Modelled] = {}
        for table in ("task_attempt", "task", "outbox"):
            self.control_plane.query(f"DELETE FROM {table}")
        self.control_plane.query("ALTER TABLE run_history DISABLE TRIGGER ALL")
        self.control_plane.query("DELETE FROM run_history")
        self.control_plane.query("ALTER TABLE run_history ENABLE ALWAYS TRIGGER append_only")

    def _pick(self, data: st.DataObject, which=lambda task: True) -> Modelled | None:
        found = [task for task in self.tasks.values() if which(task)]
        return data.draw(st.sampled_from(found)) if found else None

    @rule()
    def ask_for_a_run(self):
        if len(self.tasks) < 6:
            id = self.control_plane.run_source()
            self.tasks[id] = Modelled(id)

    @rule(seconds=st.sampled_from([1, 20, 31, 400]))
    def time_passes(self, seconds: int):
        self.now += timedelta(seconds=seconds)

    @rule(room=st.integers(1, 3))
    def claim(self, room: int):
        claimed = self.control_plane.claim(room=room, now=self.now)
        claimable = [task for task in self.tasks.values() if task.state == "queued" and task.due is None]
        assert len(claimed) == min(room, len(claimable))
        for got in claimed:
            task = self.tasks[got.fence.task_id]
            assert task.state == "queued"
            assert task.due is None
            if task.open:
                task.ended += 1  # overtaken: the attempt that never reported is final now
            task.claims.append(got)
            assert got.fence.attempt == len(task.claims)
            task.state, task.open, task.timed_out, task.lease_end = "running", True, False, self.now + LEASE

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject):
        task = self._pick(data, lambda task: task.claims)
        if task is None:
            return
        got = data.draw(st.sampled_from(task.claims))
        request = HeartbeatRequest(worker="w1", fences=[got.fence])
        answer = self.control_plane.services.tasks.heartbeats.beat(self.control_plane.worker, request, now=self.now)
        current = got.fence.attempt == len(task.claims)
        alive = current and task.state == "running" and not task.timed_out
        assert (task.id in answer.expires_at) == alive
        assert (task.id in answer.cancel) == (current and (task.state == "canceled" or (task.state == "running" and task.cancel_asked)))
        assert (task.id in answer.lost) == (not alive and task.id not in answer.cancel)
        if alive and task.lease_end is not None:
            task.lease_end = max(task.lease_end, self.now + LEASE)

    @rule()
    def reap(self):
        self.control_plane.services.tasks.reaper.run_once(now=self.now)
        for task in self.tasks.values():
            if task.state == "running" and task.lease_end is not None and task.lease_end <= self.now:
                self._expire(task)
        due = dict(self.control_plane.query("SELECT id, due_at FROM task WHERE waits = 'retry'"))
        for task in self.tasks.values():
            if task.state == "queued":
                task.due = due.get(task.id)
                assert task.due is None or task.due > self.now

    def _expire(self, task: Modelled) -> None:
        if task.cancel_asked:
            self._end(task, "canceled")
        elif task.timed_out:
            self._end(task, "failed")
        elif task.failures + 1 < MAX_ATTEMPTS:
            task.state, task.timed_out, task.failures, task.lease_end = "queued", True, task.failures + 1, None
        else:
            task.timed_out, task.failures, task.lease_end = True, task.failures + 1, self.now + LEASE

    def _end(self, task: Modelled, state: str) -> None:
        task.state, task.open, task.lease_end, task.due = state, False, None, None
        task.ended += 1

    @rule(data=st.data(), how=st.sampled_from(["succeeded", "failed", "failed for good", "canceled", "given back"]))
    def complete(self, data: st.DataObject, how: str):
        task = self._pick(data, lambda task: task.claims)
        if task is None:
            return
        got = data.draw(st.sampled_from(task.claims))
        attempt, current = got.fence.attempt, got.fence.attempt == len(task.claims)
        report = {
            "succeeded": lambda: succeeded(got),
            "failed": lambda: failed(got),
            "failed for good": lambda: failed(got, retry=False),
            "canceled": lambda: Completion(fence=got.fence, outcome=Outcome.CANCELED),
            "given back": lambda: Completion(fence=got.fence, outcome=Outcome.GIVEN_BACK),
        }[how]()
        [answer] = self.control_plane.complete(report, now=self.now)
        if attempt in task.taken:
            assert answer.status == (200 if task.taken[attempt] == report else 409)
        elif not current:
            assert (answer.status, answer.code) == (409, "stale_attempt")
        elif task.state == "canceled":
            assert answer.status == (200 if how == "canceled" else 409)
        elif not task.open:
            assert (answer.status, answer.code) == (409, "attempt_final")
        elif how == "canceled" and not task.cancel_asked:
            assert (answer.status, answer.code) == (409, "illegal_transition")
        else:
            assert answer.status == 200
            task.taken[attempt] = report
            self._take(task, how)
            assert answer.task_state == task.state

    def _take(self, task: Modelled, how: str) -> None:
        if task.cancel_asked:
            return self._end(task, "canceled")
        if how == "succeeded":
            return self._end(task, "completed")
        if how == "given back":
            return self._end(task, "queued")
        task.failures += 0 if task.timed_out else 1
        if how == "failed" and task.failures < MAX_ATTEMPTS:
            self._end(task, "queued")
            task.due = self.control_plane.one("SELECT due_at FROM task WHERE id = %s", task.id)
            return None
        return self._end(task, "failed")

    @rule(data=st.data())
    def cancel(self, data: st.DataObject):
        task = self._pick(data)
        if task is None:
            return
        if task.state in {"completed", "failed"}:
            with pytest.raises(AlreadyFinal):
                self.control_plane.services.tasks.cancels.cancel(self.control_plane.admin, task.id)
            return
        self.control_plane.services.tasks.cancels.cancel(self.control_plane.admin, task.id)
        if task.state == "running":
            task.cancel_asked = True
        elif task.state == "queued":
            if task.open:
                self._end(task, "canceled")
            task.state, task.due = "canceled", None

    @precondition(lambda self: self.tasks)
    @invariant()
    def the_database_agrees(self):
        rows: dict[UUID, tuple[Any, ...]] = {
            row[0]: row[1:] for row in self.control_plane.query("SELECT id, state, attempt, failures, cancel_asked_at IS NOT NULL FROM task")
        }
        assert rows == {task.id: (task.state, len(task.claims), task.failures, task.cancel_asked) for task in self.tasks.values()}
        runs = dict(self.control_plane.query("SELECT task_id, count(*) FROM run_history GROUP BY 1"))
        ended = dict(self.control_plane.query("SELECT task_id, count(*) FROM task_attempt WHERE ended_at IS NOT NULL GROUP BY 1"))
        assert runs == ended == {task.id: task.ended for task in self.tasks.values() if task.ended}


@pytest.mark.proves("T3.4")
@pytest.mark.proves("T3.5")
@pytest.mark.proves("G1.6")
def test_the_database_follows_the_model_of_a_task(postgres: EmbeddedPostgres):
    with fresh_database(postgres) as database, tempfile.TemporaryDirectory() as home:
        tasks = {"housekeeping_seconds": 60, "lease_seconds": LEASE.total_seconds(), "backoff_seconds": 10, "max_backoff_seconds": 20}
        with running_control(settings_for(database, Path(home), tasks=tasks), database) as control_plane:
            control_plane.deploy(max_attempts=MAX_ATTEMPTS)
            TaskMachine.control_plane = control_plane
            machine = TaskMachine.TestCase
            machine.settings = settings(
                max_examples=size(25, 200), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
            )
            machine("runTest").runTest()
