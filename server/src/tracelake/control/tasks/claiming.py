"""Claim: the one atomic step from queued to running. No operator code runs without it."""

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.pools import store as pools
from tracelake.control.run_history import store as run_history
from tracelake.control.run_history.store import FinishedAttempt
from tracelake.control.tasks import store
from tracelake.control.tasks.barring import Barred, barred
from tracelake.control.tasks.judgement import lease_token_sha256
from tracelake.control.tasks.payloads import PayloadMaker, Wire
from tracelake.control.tasks.routing import Routes
from tracelake.control.tasks.rows import Candidate, ClosedAttempt, NewAttempt, TaskFacts
from tracelake.control.tasks.waiting import Poll, WaitingRoom
from tracelake_sdk.dags import Runtime
from tracelake_sdk.errors import NotFound
from tracelake_sdk.tasks import MAX_BATCH, ClaimRequest
from tracelake_sdk.tasks.runs import RunStatus

TIMED_OUT = "The lease expired without a report."
_WITHOUT_HINT_SECONDS = 5.0


@dataclass
class Watermarks:
    """Per pool the least `seq` that may still be queued: a hint that spares reading what was claimed long ago.

    It never passes a row that was seen queued, locked or not. What it cannot see (a transaction that drew an earlier
    number and commits late) is found by the claim that runs without it every few seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _low: dict[UUID, int] = field(default_factory=dict)
    _looked: dict[UUID, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def low(self, pool: UUID) -> int:
        with self._lock:
            if self.clock() - self._looked.get(pool, float("-inf")) >= _WITHOUT_HINT_SECONDS:
                self._looked[pool] = self.clock()
                return 0
            return self._low.get(pool, 0)

    def learn(self, pool: UUID, low: int | None) -> None:
        """`low` None: the look found nothing, so it says nothing."""
        if low is not None:
            with self._lock:
                self._low[pool] = low


def next_low(candidates: Sequence[Candidate], taken: Collection[UUID]) -> int | None:
    """After a look: the first candidate that somebody else holds, else just past the last one. Pure."""
    for candidate in candidates:
        if candidate.id not in taken:
            return candidate.seq
    return candidates[-1].seq + 1 if candidates else None


@dataclass(frozen=True)
class Claims:
    database: Database
    waiting: WaitingRoom
    lease: timedelta
    unchanged: Callable[[list[TaskFacts]], None]  # ends tasks whose result is there already
    barring: Callable[[list[Barred]], None]       # ends tasks that may not use what they need
    max_unrecorded: int = 100                     # places of a line that may wait to be recorded before its tasks are held back
    watermarks: Watermarks = field(default_factory=Watermarks)
    clock: Callable[[], float] = time.monotonic
    known_pools: dict[tuple[UUID, str, str], UUID] = field(default_factory=dict)
    routes: Routes = field(default_factory=Routes)

    def claim(self, caller: Caller, request: ClaimRequest, *, poll: Poll | None = None, now: datetime | None = None) -> list[Wire]:
        """What the worker gets, at once or within `wait_s`; one that hung up gets nothing, so that nothing waits for its lease."""
        poll = poll or Poll()
        deadline = self.clock() + request.wait_s
        pool_ids = self._pools(caller, request)
        while True:
            seen = self.waiting.counters(list(pool_ids))
            claimed, unchanged, lapsed = self.claim_now(caller, request, pool_ids, now=now)
            if unchanged:
                self.unchanged(unchanged)
            if lapsed:
                self.barring(lapsed)
            if (unchanged or lapsed) and not claimed:
                continue  # the room is still free
            left = deadline - self.clock()
            if claimed or left <= 0 or self.waiting.closed:
                return claimed
            self.waiting.wait(poll, list(pool_ids), seen, left)
            if poll.gone:
                return []

    def claim_now(
        self, caller: Caller, request: ClaimRequest, pool_ids: dict[UUID, int], *, now: datetime | None = None
    ) -> tuple[list[Wire], list[TaskFacts], list[Barred]]:
        """One transaction; a claim that is repeated returns what it holds. Each is a `ClaimedTask` as it goes over the wire.

        Beside them come tasks whose result is there already, and tasks that may not use what they need: they run, and nobody is handed them.
        """
        claim_sha256 = hashlib.sha256(request.claim_id.encode()).digest()
        learned: dict[UUID, int | None] = {}
        with self.database.transaction("claim") as tx:
            store.lock_claim(tx, claim_sha256)
            facts = store.held_by_claim(tx, org=caller.org_id, claim=claim_sha256)
            fresh = not facts
            if fresh:
                for pool, room in pool_ids.items():
                    taken, learned[pool] = self._take(tx, pool, room, now, writes_files=request.runtime != Runtime.DISPATCHER.value)
                    facts += taken
            claimed: list[Wire] = []
            unchanged: list[TaskFacts] = []
            lapsed: list[Barred] = []
            if facts:
                maker = PayloadMaker(tx, facts, lease_seconds=self.lease.total_seconds())
                tokens = {fact.id: _lease_token(request, fact) for fact in facts}
                handed = maker.handing_out.plan(facts) if fresh else maker.handing_out.again(facts)
                kept: list[TaskFacts] = []
                if fresh:
                    lapsed = barred(tx, facts, maker.jobs, maker.inputs, maker.locations)
                    kept = [one.fact for one in lapsed]
                    unchanged = [
                        fact for fact in facts if fact.id in handed and fact not in kept and maker.is_unchanged(fact, handed[fact.id])
                    ]
                    kept += unchanged
                    self._start_attempts(tx, request.worker, claim_sha256, tokens, facts, maker, kept, now)
                    maker.handing_out.give(facts, handed)
                ours = [fact for fact in facts if fact.open and fact not in kept]
                claimed = [_handed_out(fact, tokens[fact.id], maker.payload(fact, claimed=True, handing=handed.get(fact.id))) for fact in ours]
        self.routes.remember(caller.org_id, {fact.id: fact.generation_id for fact in facts})
        for pool, low in learned.items():
            self.watermarks.learn(pool, low)
            if low is not None and sum(1 for fact in facts if fact.pool_id == pool) >= pool_ids[pool]:
                self.waiting.wake(pool)  # there may be more than this worker could take
        return claimed, unchanged, lapsed

    def fetch(self, caller: Caller, task: UUID) -> Wire:
        """The payload as a claim would hand it out, changing nothing."""
        with self.database.transaction("fetch") as tx:
            fact = store.for_payload(tx, org=caller.org_id, task=task, pools=sorted(caller.pools) if caller.pools is not None else None)
            return PayloadMaker(tx, [fact], lease_seconds=self.lease.total_seconds()).payload(fact, claimed=False)

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
        """Candidates from the watermark on; where others hold some of a full look, the next look goes behind it."""
        low, learned, found = self.watermarks.low(pool), None, list[TaskFacts]()
        while len(found) < room:
            wanted = room - len(found)
            candidates = store.candidates(tx, pool=pool, low=low, room=wanted)
            ready = self._ready(tx, candidates) if writes_files and candidates else candidates
            taken = store.claim(tx, [candidate.id for candidate in ready], lease=self.lease, now=now) if ready else {}
            found += [taken[candidate.id] for candidate in ready if candidate.id in taken]
            learned = next_low(ready, taken) if learned is None else learned
            if len(candidates) < wanted:
                break
            low = candidates[-1].seq + 1
        return found, learned

    def _ready(self, tx: Transaction, candidates: list[Candidate]) -> list[Candidate]:
        """Those that can run now; the others leave the queue and say what they wait for."""
        held = store.held_back(tx, [candidate.id for candidate in candidates], max_unrecorded=self.max_unrecorded)
        if held:
            store.hold_back(tx, held)
        return [candidate for candidate in candidates if candidate.id not in held]

    def _start_attempts(
        self,
        tx: Transaction,
        worker: str,
        claim_sha256: bytes,
        tokens: dict[UUID, str],
        facts: list[TaskFacts],
        maker: PayloadMaker,
        kept: list[TaskFacts],
        now: datetime | None,
    ) -> None:
        overtaken = [(fact.id, fact.attempt - 1) for fact in facts if fact.attempt > 1]
        if overtaken:
            by_id = {fact.id: fact for fact in facts}
            closed = store.close_overtaken(tx, overtaken, message=TIMED_OUT, now=now)
            run_history.append(tx, [_timed_out(by_id[attempt.task_id], attempt) for attempt in closed], maker.outputs, now=now)
        # What nobody is handed is not the claim's: the same claim may take other tasks in its place.
        for claim, started in ((claim_sha256, [f for f in facts if f not in kept]), (secrets.token_bytes(32), kept)):
            if started:
                store.add_attempts(tx, [_new_attempt(fact, tokens[fact.id], maker) for fact in started], claim=claim, worker=worker, now=now)


def _new_attempt(fact: TaskFacts, token: str, maker: PayloadMaker) -> NewAttempt:
    job = maker.jobs[fact.generation_id]
    return NewAttempt(
        fact.id, fact.attempt, lease_token_sha256(token), maker.state_revision(fact.generation_id), job.spec["timeout_seconds"], job.dag_version
    )


def _lease_token(request: ClaimRequest, fact: TaskFacts) -> str:
    """Derived from the claim's own 256 random bits: a repeated claim gets the same token, and the database keeps only hashes."""
    mac = hmac.new(request.claim_id.encode(), f"{fact.id}:{fact.attempt}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def _handed_out(fact: TaskFacts, token: str, payload: Wire) -> Wire:
    fence = {"task_id": fact.id, "attempt": fact.attempt, "lease_token": token}
    return {"fence": fence, "lease_expires_at": fact.lease_expires_at, "payload": payload}


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
