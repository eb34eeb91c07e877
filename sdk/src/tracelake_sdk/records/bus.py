"""The bus: messages by topic, read by independent subscribers, each at its own pace.

Delivery is at least once: a subscriber that dies before it commits reads the same again, so handling a
message twice must have the effect of handling it once. The in-process bus is here; Postgres and Kafka are in the server.
"""

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

EVENTS = "metadata.events"  # records before they are stored
STORED = "metadata.stored"  # records that a repository accepted, with their offsets


@dataclass(frozen=True)
class Message:
    """A message to publish; messages with the same key stay in order."""

    body: dict[str, Any]
    key: str | None = None


@dataclass(frozen=True)
class Received:
    """A message with its offset in the topic."""

    offset: str  # opaque
    body: dict[str, Any]
    key: str | None = None


class Subscription(Protocol):
    """One subscriber's position in one topic. Several processes may share it: each message takes effect once."""

    @property
    def topic(self) -> str: ...

    @property
    def name(self) -> str: ...

    def read(self, limit: int = 100) -> list[Received]:
        """The messages after the last commit, oldest first; repeated until they are committed."""
        ...

    def commit(self, done: Sequence[Received]) -> None:
        """Marks these messages, the first that were read, as processed."""
        ...

    def close(self) -> None: ...


class Bus(Protocol):
    def publish(self, topic: str, messages: Sequence[Message]) -> None:
        """Returns when the messages are durable; raises BusUnavailable, and then some of them may still arrive."""
        ...

    def subscribe(self, topic: str, name: str) -> Subscription:
        """Continues where this name stopped; a new name begins at the oldest message that is kept."""
        ...

    def close(self) -> None: ...


class MemoryBus:
    """A bus in the memory of this process."""

    def __init__(self) -> None:
        self._topics: defaultdict[str, list[Message]] = defaultdict(list)
        self._offsets: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._lock: threading.Lock = threading.Lock()

    def publish(self, topic: str, messages: Sequence[Message]) -> None:
        with self._lock:
            self._topics[topic].extend(messages)

    def subscribe(self, topic: str, name: str) -> Subscription:
        return _MemorySubscription(self, topic, name)

    def close(self) -> None:
        """Nothing to close."""

    def behind(self, topic: str, name: str, limit: int) -> list[Received]:
        with self._lock:
            start = self._offsets[topic, name]
            found = self._topics[topic][start : start + limit]
        return [Received(str(index), message.body, message.key) for index, message in enumerate(found, start)]

    def moved(self, topic: str, name: str, last: str) -> None:
        with self._lock:
            self._offsets[topic, name] = max(self._offsets[topic, name], int(last) + 1)


@dataclass(frozen=True)
class _MemorySubscription:
    bus: MemoryBus
    topic: str
    name: str

    def read(self, limit: int = 100) -> list[Received]:
        return self.bus.behind(self.topic, self.name, limit)

    def commit(self, done: Sequence[Received]) -> None:
        if done:
            self.bus.moved(self.topic, self.name, done[-1].offset)

    def close(self) -> None:
        """Nothing to close."""
