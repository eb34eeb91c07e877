"""The drainer: takes due errands, performs each with its sender, and marks it.

A crash between performing and marking performs the errand again under the same id; the receiver recognizes it by that id.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from tracelake.control.database.transactions import Database, Watch, nobody_watches
from tracelake.control.outbox import store
from tracelake.control.outbox.store import Errand

Sender = Callable[[Errand], None]
_log = structlog.get_logger()


class SendingFailed(Exception):
    """The receiver did not take it; `final` when asking again cannot help."""

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
    watch: Watch = nobody_watches

    def run_once(self) -> int:
        """Takes one batch and says how many errands it tried."""
        # Longer than the whole batch can take: nobody else takes an errand that is still being sent.
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
