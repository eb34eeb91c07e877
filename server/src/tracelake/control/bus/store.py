"""The tables of the bus, one function per query."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "bus.sql")


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """Everything up to and including this message is processed."""

    xid: str
    seq: int


@dataclass(frozen=True, slots=True)
class MessageRow:
    place: str
    key: str | None
    body: str


@dataclass(frozen=True, slots=True)
class SubscriberRow:
    topic: str
    subscriber: str
    unread_since: datetime | None  # None: no unread message


def publish(tx: Transaction, topic: str, *, keys: list[str | None], bodies: list[str]) -> None:
    tx.run(sql["publish"], topic=topic, keys=keys, bodies=bodies)


def subscribe(tx: Transaction, topic: str, subscriber: str) -> None:
    tx.run(sql["subscribe"], topic=topic, subscriber=subscriber)


def waits(tx: Transaction, topic: str, subscriber: str) -> bool:
    return bool(tx.value(sql["waits"], topic=topic, subscriber=subscriber))


def hold(tx: Transaction, topic: str, subscriber: str, *, holder: UUID, lease: timedelta) -> TopicOffset | None:
    """The offset to continue from; None while another process reads for this subscriber."""
    return tx.find(TopicOffset, sql["hold"], topic=topic, subscriber=subscriber, holder=holder, lease=lease)


def read(tx: Transaction, topic: str, *, behind: TopicOffset, limit: int) -> list[MessageRow]:
    return tx.all(MessageRow, sql["read"], topic=topic, xid=behind.xid, seq=behind.seq, limit=limit)


def commit(tx: Transaction, topic: str, subscriber: str, *, holder: UUID, to: TopicOffset) -> None:
    tx.run(sql["commit"], topic=topic, subscriber=subscriber, holder=holder, xid=to.xid, seq=to.seq)


def release(tx: Transaction, topic: str, subscriber: str, *, holder: UUID) -> None:
    tx.run(sql["release"], topic=topic, subscriber=subscriber, holder=holder)


def drop_old(tx: Transaction, *, keep: timedelta, most: int) -> int:
    return tx.touched(sql["drop_old"], keep=keep, most=most)


def subscribers(tx: Transaction) -> list[SubscriberRow]:
    return tx.all(SubscriberRow, sql["subscribers"])


def forget(tx: Transaction, topic: str, subscriber: str) -> bool:
    """Whether the subscriber existed."""
    return tx.touched(sql["forget"], topic=topic, subscriber=subscriber) == 1


def bus_name(tx: Transaction) -> str:
    return tx.value(sql["bus_name"])


def hold_relay(tx: Transaction, name: str, *, holder: UUID, lease: timedelta) -> bool:
    """Whether this holder has the lease."""
    return tx.touched(sql["hold_relay"], name=name, holder=holder, lease=lease) == 1


def relay(tx: Transaction, name: str) -> str | None:
    return next(iter(tx.values(sql["relay"], name=name)), None)


def keep_relay(tx: Transaction, name: str, behind: str) -> None:
    tx.run(sql["keep_relay"], name=name, behind=behind)


def tenants(tx: Transaction) -> list[str]:
    return tx.values(sql["tenants"])
