"""The drainer: takes due outbox entries, performs each with its sender, and marks it.

After a crash between performing and marking, the entry is performed again under the same id, by which the receiver recognizes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from tracelake.control.database.transactions import Database, Watch, no_watch
from tracelake.control.outbox import store
from tracelake.control.outbox.store import Errand

Sender = Callable[[Errand], None]
_log = structlog.get_logger()


class SendingFailed(Exception):
    """The receiver refused it; `final` if a retry cannot help."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final: bool = final


@dataclass(frozen=True)
class Drainer:
    """Performs what the outbox holds."""

    database: Database
    senders: dict[str, Sender]
    longest_send: timedelta
    batch: int = 5
    most_tries: int = 20
    watch: Watch = no_watch

    def run_once(self) -> int:
        """Takes one batch; returns how many entries it tried."""
        # Longer than the whole batch can take: no other process takes an entry that is still being sent.
        lease = self.batch * self.longest_send + timedelta(seconds=10)
        with self.database.transaction("outbox_take") as tx:
            errands = store.take(tx, room=self.batch, lease=lease)
        for errand in errands:
            self._perform(errand)
        return len(errands)

    def _perform(self, errand: Errand) -> None:
        try:
            self.watch("outbox_send:before")
            self.senders[errand.kind](errand)
            self.watch("outbox_send:after")
        except SendingFailed as failure:
            give_up = failure.final or errand.tries >= self.most_tries
            delay = timedelta(seconds=min(2.0**errand.tries, 3600))
            with self.database.transaction("outbox_mark_failed") as tx:
                store.mark_failed(tx, errand.id, error=str(failure)[:500], delay=delay, give_up=give_up)
            _log.warning("a notification was not delivered", errand=str(errand.id), kind=errand.kind, tries=errand.tries, given_up=give_up)
        else:
            with self.database.transaction("outbox_mark") as tx:
                store.mark_sent(tx, errand.id)
