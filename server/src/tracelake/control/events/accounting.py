"""Accounting: verifies, step by step, that the ledger has a line for every event and subscriber, and records missing lines."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tracelake.control.database.ids import first_id_of
from tracelake.control.database.transactions import Database
from tracelake.control.events import store

# An event is verified when no transaction that began before it can still add one with an earlier id.
SETTLED = timedelta(minutes=15)
BATCH = 10_000
PAUSE_SECONDS = 30.0


@dataclass(frozen=True)
class Accounting:
    database: Database

    def run_once(self, *, now: datetime | None = None) -> int:
        """Verifies one batch of events; returns 1 if there was one."""
        before = first_id_of((now or datetime.now(UTC)) - SETTLED)
        with self.database.transaction("verify_events") as tx:
            verified = store.lock_accounting(tx)
            last = store.last_to_verify(tx, verified=verified, before=before, room=BATCH) if verified else None
            if verified is None or last is None:
                return 0
            store.verify(tx, last=last)
            return 1
