"""Partitions of records, created before their first record."""

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tracelake.control.database.transactions import Database
from tracelake.control.records import store

_AHEAD = timedelta(hours=1)  # a partition for now also covers the next hour


def made_at(id: UUID) -> datetime:
    """The time in a UUIDv7."""
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)


@dataclass
class Partitions:
    database: Database
    _reach: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)  # by class: up to when partitions exist
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ensure(self, retention_class: str, first: UUID, last: UUID) -> None:
        """In a separate transaction, so that no other process waits for a long one."""
        start, end = made_at(first), made_at(last)
        known = self._reach.get(retention_class)
        if known is not None and known[0] <= start and end < known[1]:
            return
        with self._lock, self.database.transaction("record_partitions") as tx:
            store.ensure_partition(tx, retention_class=retention_class, moment=start)
            below = store.ensure_partition(tx, retention_class=retention_class, moment=end + _AHEAD)
            self._reach[retention_class] = (start, below)
