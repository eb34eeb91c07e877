"""Claim: the one atomic step from queued to running. No operator code runs without it."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.pools import store as pools
from tracelake.control.run_history import store as run_history
from tracelake.control.run_history.store import FinishedAttempt
from tracelake.control.tasks.claims import store
from tracelake.control.tasks.claims.assignments import Assignment
from tracelake.control.tasks.claims.long_polls import Poll, WaitingRoom
from tracelake.control.tasks.claims.payloads import PayloadMaker, Wire
from tracelake.control.tasks.claims.revoked_access import RevokedTask, RevokedTasks, revoked_tasks
from tracelake.control.tasks.claims.rows import ClosedAttempt, NewAttempt, QueuedTask, TaskFacts
from tracelake.control.tasks.claims.unchanged import UnchangedTasks
from tracelake.control.tasks.claims.watermarks import Watermarks, next_low
from tracelake.control.tasks.judgement import lease_token_sha256
from tracelake.control.tasks.routing import Routes
from tracelake_sdk.dags import Runtime
from tracelake_sdk.errors import NotFound
from tracelake_sdk.tasks import MAX_BATCH, ClaimRequest
from tracelake_sdk.tasks.runs import RunStatus

TIMED_OUT = "The lease expired without a report."


@dataclass(frozen=True)
class _Claimed:
    """What one transaction claimed. All tasks are running; only `tasks` go to the worker."""

    tasks: list[Wire] = field(default_factory=list)
    unchanged: list[TaskFacts] = field(default_factory=list)   # their result already exists
    revoked: list[RevokedTask] = field(default_factory=list)   # they lack a permission


@dataclass(frozen=True)
class Claims:
    database: Database
    waiting: WaitingRoom
    lease: timedelta
    unchanged: UnchangedTasks
    revoked: RevokedTasks
    max_unrecorded: int = 100  # unrecorded places of a line before its tasks are held back
    watermarks: Watermarks = field(default_factory=Watermarks)
    clock: Callable[[], float] = time.monotonic
    known_pools: dict[tuple[UUID, str, str], UUID] = field(default_factory=dict)
    routes: Routes = field(default_factory=Routes)

    def claim(self, caller: Caller, request: ClaimRequest, *, poll: Poll | None = None, now: datetime | None = None) -> list[Wire]:
        """Tasks for the worker, at once or within `wait_s`; a worker that disconnected gets none, so that no task waits for its lease to expire."""
        poll = poll or Poll()
        deadline = self.clock() + request.wait_s
        pool_ids = self._pools(caller, request)
        while True:
            seen = self.waiting.counters(list(pool_ids))
            claimed = self._claim_now(caller, request, pool_ids, now)
            if claimed.unchanged:
                self.unchanged.end(claimed.unchanged)
            if claimed.revoked:
                self.revoked.end(claimed.revoked)
            if (claimed.unchanged or claimed.revoked) and not claimed.tasks:
                continue  # the room is still free
            left = deadline - self.clock()
            if claimed.tasks or left <= 0 or self.waiting.closed:
                return claimed.tasks
            self.waiting.wait(poll, list(pool_ids), seen, left)
            if poll.gone:
                return []

    def _claim_now(self, caller: Caller, request: ClaimRequest, pool_ids: dict[UUID, int], now: datetime | None) -> _Claimed:
        """One transaction; a repeated claim returns the tasks it already holds."""
        claim_sha256 = hashlib.sha256(request.claim_id.encode()).digest()
        learned: dict[UUID, int | None] = {}
        with self.database.transaction("claim") as tx:
            store.lock_claim(tx, claim_sha256)
            facts = store.held_by_claim(tx, org=caller.org_id, claim=claim_sha256)
            if facts:
                claimed = self._repeat(tx, request, facts)
            else:
                for pool, room in pool_ids.items():
                    taken, learned[pool] = self._take(tx, pool, room, now, writes_files=request.runtime != Runtime.DISPATCHER.value)
                    facts += taken
                claimed = self._start(tx, request, claim_sha256, facts, now) if facts else _Claimed()
        self.routes.remember(caller.org_id, {fact.id: fact.generation_id for fact in facts})
        for pool, low in learned.items():
            self.watermarks.learn(pool, low)
            if low is not None and sum(1 for fact in facts if fact.pool_id == pool) >= pool_ids[pool]:
                self.waiting.wake(pool)  # there may be more tasks than this worker could take
        return claimed

    def _repeat(self, tx: Transaction, request: ClaimRequest, facts: list[TaskFacts]) -> _Claimed:
        maker = self._payloads(tx, facts)
        return _Claimed(_wire_tasks(request, maker, [fact for fact in facts if fact.open], maker.assignments.stored(facts)))

    def _start(self, tx: Transaction, request: ClaimRequest, claim_sha256: bytes, facts: list[TaskFacts], now: datetime | None) -> _Claimed:
        maker = self._payloads(tx, facts)
        planned = maker.assignments.plan(facts)
        revoked = revoked_tasks(tx, facts, maker.jobs, maker.inputs, maker.locations)
        permitted = [fact for fact in facts if fact not in [one.fact for one in revoked]]
        unchanged = [fact for fact in permitted if fact.id in planned and maker.is_unchanged(fact, planned[fact.id])]
        assigned = [fact for fact in permitted if fact not in unchanged]
        self._close_overtaken(tx, facts, maker, now)
        # Tasks that go to no worker do not count: the same claim may take others instead.
        for claim, started in ((claim_sha256, assigned), (secrets.token_bytes(32), [fact for fact in facts if fact not in assigned])):
            if started:
                attempts = [_new_attempt(fact, _lease_token(request, fact), maker) for fact in started]
                store.add_attempts(tx, attempts, claim=claim, worker=request.worker, now=now)
        maker.assignments.store(facts, planned)
        return _Claimed(_wire_tasks(request, maker, assigned, planned), unchanged, revoked)

    def fetch(self, caller: Caller, task: UUID) -> Wire:
        """The payload as a claim would return it, without changes."""
        with self.database.transaction("fetch") as tx:
            fact = store.for_payload(tx, org=caller.org_id, task=task, pools=sorted(caller.pools) if caller.pools is not None else None)
            return self._payloads(tx, [fact]).payload(fact, claimed=False)

    def _pools(self, caller: Caller, request: ClaimRequest) -> dict[UUID, int]:
        """The ids of the pools that the request has room for; they never change, so each is looked up once."""
        found: dict[UUID, int] = {}
        for name, room in sorted(request.room.items()):
            caller.require_pool(name)
            key = (caller.org_id, request.runtime, name)
            if key not in self.known_pools:
                with self.database.transaction("find_pool") as tx:
                    id = pools.find(tx, org=caller.org_id, runtime=request.runtime, name=name)
                if id is None:
                    raise NotFound(f"Pool {name!r} for runtime {request.runtime!r} was not found in this org.")
                self.known_pools[key] = id
            if room > 0:
                found[self.known_pools[key]] = min(room, MAX_BATCH)
        return found

    def _take(self, tx: Transaction, pool: UUID, room: int, now: datetime | None, *, writes_files: bool) -> tuple[list[TaskFacts], int | None]:
        """Queued tasks from the watermark on; if other claims hold some of a full batch, the next query continues after it."""
        low, learned, found = self.watermarks.low(pool), None, list[TaskFacts]()
        while len(found) < room:
            wanted = room - len(found)
            queued = store.queued(tx, pool=pool, low=low, room=wanted)
            ready = self._ready(tx, queued) if writes_files and queued else queued
            taken = store.claim(tx, [task.id for task in ready], lease=self.lease, now=now) if ready else {}
            found += [taken[task.id] for task in ready if task.id in taken]
            learned = next_low(ready, taken) if learned is None else learned
            if len(queued) < wanted:
                break
            low = queued[-1].seq + 1
        return found, learned

    def _ready(self, tx: Transaction, queued: list[QueuedTask]) -> list[QueuedTask]:
        """The tasks that can run now; the others leave the queue and record what they wait for."""
        held = store.held_back(tx, [task.id for task in queued], max_unrecorded=self.max_unrecorded)
        if held:
            store.hold_back(tx, held)
        return [task for task in queued if task.id not in held]

    def _payloads(self, tx: Transaction, facts: list[TaskFacts]) -> PayloadMaker:
        return PayloadMaker(tx, facts, lease_seconds=self.lease.total_seconds())

    @staticmethod
    def _close_overtaken(tx: Transaction, facts: list[TaskFacts], maker: PayloadMaker, now: datetime | None) -> None:
        """Closes earlier attempts of these tasks that never reported."""
        overtaken = {fact.id: fact for fact in facts if fact.attempt > 1}
        if overtaken:
            closed = store.close_overtaken(tx, [(fact.id, fact.attempt - 1) for fact in overtaken.values()], message=TIMED_OUT, now=now)
            run_history.append(tx, [_timed_out(overtaken[attempt.task_id], attempt) for attempt in closed], maker.outputs, now=now)


def _new_attempt(fact: TaskFacts, token: str, maker: PayloadMaker) -> NewAttempt:
    job = maker.jobs[fact.generation_id]
    return NewAttempt(
        fact.id, fact.attempt, lease_token_sha256(token), maker.state_revision(fact.generation_id), job.stored.timeout_seconds, job.dag_version
    )


def _lease_token(request: ClaimRequest, fact: TaskFacts) -> str:
    """Derived from the claim's own 256 random bits: a repeated claim gets the same token, and the database keeps only hashes."""
    mac = hmac.new(request.claim_id.encode(), f"{fact.id}:{fact.attempt}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def _wire_tasks(request: ClaimRequest, maker: PayloadMaker, facts: list[TaskFacts], assignments: dict[UUID, Assignment]) -> list[Wire]:
    """Each is a `ClaimedTask` as it goes over the wire."""
    return [
        {
            "fence": {"task_id": fact.id, "attempt": fact.attempt, "lease_token": _lease_token(request, fact)},
            "lease_expires_at": fact.lease_expires_at,
            "payload": maker.payload(fact, claimed=True, assignment=assignments.get(fact.id)),
        }
        for fact in facts
    ]


def _timed_out(fact: TaskFacts, attempt: ClosedAttempt) -> FinishedAttempt:
    return FinishedAttempt(
        fact.org_id,
        fact.id,
        attempt.attempt,
        fact.generation_id,
        RunStatus.FAILED,
        attempt.started_at,
        TIMED_OUT,
        f"{fact.trigger_kind}:{fact.trigger_id}",
    )
