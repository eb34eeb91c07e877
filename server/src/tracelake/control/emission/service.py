"""The emitter of the platform's own facts: reads runs and decisions in the order of their commits, and stores them as records.

The tables of facts are the outbox: tasks write nothing extra for it. After a crash between storing and moving the offset,
the same records are stored again, and the repository answers `same`.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import structlog

from tracelake.control.database.clock import read_clock
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database, Transaction, Watch, no_watch
from tracelake.control.emission import store
from tracelake.control.emission.facts import Emitted, Installation, ResultFact, of_decision, of_result, of_run
from tracelake.control.emission.store import Offset
from tracelake.control.emission.storing import Storing
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records.subscribers import NOT_NOW

_log = structlog.get_logger()
_REST = 9            # pause as a multiple of the duration of a batch
_LONGEST_REST = 0.5  # seconds


@dataclass
class Emission:
    """Emits the facts after the offset of each stream; any number of processes run one."""

    database: Database
    storing: Storing
    installation: Installation
    batch: int = 500
    lease: timedelta = timedelta(seconds=30)
    watch: Watch = no_watch
    holder: UUID = field(default_factory=new_id)
    lag: timedelta = timedelta(0)  # how old the last fact was when it was emitted

    def run_once(self) -> int:
        """Emits one batch of each stream with new facts; returns how many."""
        with self.database.transaction("emission_look") as tx:
            streams = store.waiting(tx)
        return sum(self._emit(stream) for stream in streams)

    def _emit(self, stream: str) -> int:
        with self.database.transaction("emission_take") as tx:
            after = store.take(tx, stream, holder=self.holder, lease=self.lease)
            if after is None:
                return 0
            facts, records, end = self._read(tx, stream, after)
        refused = self._store(records) if records else []
        with self.database.transaction("emission_move_on") as tx:
            if refused:
                store.refuse(tx, refused)
            store.move_on(tx, stream, holder=self.holder, to=end)
            if records:
                self.lag = read_clock(tx) - records[-1].record.produced_at
        return facts

    def _read(self, tx: Transaction, stream: str, after: Offset) -> tuple[int, list[Emitted], Offset]:
        if stream == store.RUNS:
            runs = store.runs(tx, after=after, limit=self.batch)
            end = Offset(runs[-1].xid, runs[-1].seq) if runs else after
            return len(runs), [of_run(run, self.installation) for run in runs], end
        decisions = store.decisions(tx, after=after, limit=self.batch)
        results: dict[UUID, list[ResultFact]] = defaultdict(list)
        for result in store.results(tx, [decision.id for decision in decisions]) if decisions else []:
            results[result.promotion_id].append(result)
        records = [
            emitted
            for decision in decisions
            for emitted in (*(of_result(result, decision, self.installation) for result in results[decision.id]), of_decision(decision, self.installation))
        ]
        return len(decisions), records, Offset(decisions[-1].xid, decisions[-1].seq) if decisions else after

    def _store(self, records: list[Emitted]) -> list[tuple[str, str, str]]:
        """Returns the refused records; raises if the repository does not answer, and then nothing changes."""
        self.watch("emission_store:before")
        try:
            results = self.storing(records)
        except TracelakeError as error:
            if isinstance(error, NOT_NOW):
                raise
            # A wrong token or tenant: nothing is lost, and emission continues when that is fixed.
            _log.error("the repository refused the token of the platform", code=error.code, detail=error.detail)
            raise RepositoryUnavailable(f"The repository refused the token of the platform: {error.detail}") from error
        self.watch("emission_store:after")
        refused = [
            (emitted.record.kind, emitted.fact, str((result.problem or {}).get("code", result.result)))
            for emitted, result in zip(records, results, strict=True)
            if not result.accepted
        ]
        for kind, fact, code in refused:
            _log.error("a record of the platform itself was refused", kind=kind, fact=fact, code=code)
        return refused


@dataclass(frozen=True)
class ThrottledEmission:
    """Emission that yields to other work: it uses a tenth of the time while records are fresh, and all of it when they are late."""

    emission: Emission
    old: timedelta = timedelta(seconds=10)

    def run_once(self) -> int:
        began = time.monotonic()
        emitted = self.emission.run_once()
        if emitted and self.emission.lag < self.old:
            time.sleep(min(_REST * (time.monotonic() - began), _LONGEST_REST))
        return emitted
