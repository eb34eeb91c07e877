"""The bus on Postgres: messages are rows, read in the order in which they were committed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from tracelake import wire_json
from tracelake.control.bus import store
from tracelake.control.bus.store import TopicOffset
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database
from tracelake_sdk.errors import Unavailable
from tracelake_sdk.errors.records import BusUnavailable
from tracelake_sdk.records.bus import Message, Received, Subscription

_MOST_DROPPED = 5000


@dataclass(frozen=True)
class PostgresBus:
    """Messages are kept for at least `keep`, and until every subscriber of their topic has read them."""

    database: Database
    keep: timedelta = timedelta(days=7)
    lease: timedelta = timedelta(seconds=30)

    def publish(self, topic: str, messages: Sequence[Message]) -> None:
        if not messages:
            return
        try:
            with self.database.transaction("bus_publish") as tx:
                store.publish(tx, topic, keys=[message.key for message in messages], bodies=[wire_json.text(message.body) for message in messages])
        except Unavailable as error:
            raise BusUnavailable from error

    def subscribe(self, topic: str, name: str) -> Subscription:
        with self.database.transaction("bus_subscribe") as tx:
            store.subscribe(tx, topic, name)
        return _PostgresSubscription(self.database, topic, name, self.lease)

    def close(self) -> None:
        """Does not close the database: its owner does."""

    def run_once(self) -> int:
        """Removes messages that are older than `keep` and read by every subscriber; returns how many."""
        with self.database.transaction("bus_drop_old") as tx:
            return store.drop_old(tx, keep=self.keep, most=_MOST_DROPPED)


@dataclass(frozen=True)
class _PostgresSubscription:
    database: Database
    topic: str
    name: str
    lease: timedelta
    holder: UUID = field(default_factory=new_id)

    def read(self, limit: int = 100) -> list[Received]:
        with self.database.transaction("bus_look") as tx:
            if not store.waits(tx, self.topic, self.name):
                return []
        with self.database.transaction("bus_read") as tx:
            behind = store.hold(tx, self.topic, self.name, holder=self.holder, lease=self.lease)
            rows = store.read(tx, self.topic, behind=behind, limit=limit) if behind else []
        return [Received(row.place, wire_json.decode(row.body), row.key) for row in rows]

    def commit(self, done: Sequence[Received]) -> None:
        if done:
            xid, _, seq = done[-1].offset.partition(".")
            with self.database.transaction("bus_commit") as tx:
                store.commit(tx, self.topic, self.name, holder=self.holder, to=TopicOffset(xid, int(seq)))

    def close(self) -> None:
        """Another process may continue at once."""
        with self.database.transaction("bus_release") as tx:
            store.release(tx, self.topic, self.name, holder=self.holder)


@dataclass(frozen=True)
class PostgresOffsets:
    """The stored offsets of relays."""

    database: Database

    def kept(self, name: str) -> str | None:
        with self.database.transaction("relay_read") as tx:
            return store.relay(tx, name)

    def keep(self, name: str, offset: str) -> None:
        with self.database.transaction("relay_keep") as tx:
            store.keep_relay(tx, name, offset)
