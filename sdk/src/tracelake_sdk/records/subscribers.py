"""Subscribers of the bus: the loop that each of them runs, and those that store records and count them.

A failing subscriber does not stop the others: each has its own offset. A message that cannot be handled is set aside, in a
topic of the subscriber, with the error, and the subscriber continues with the next one.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from tracelake_sdk.errors import Forbidden, TracelakeError, Unauthenticated, Unavailable
from tracelake_sdk.errors.records import BusUnavailable, OffsetUnknown, RecordRefused, RepositoryUnavailable
from tracelake_sdk.records.bus import STORED, Bus, Message, Received, Subscription
from tracelake_sdk.records.record import MetadataContext, MetadataRecord, StoredRecord
from tracelake_sdk.records.repository.bulk import store_each
from tracelake_sdk.records.repository.contract import MetadataRepository

RepositoryOf = Callable[[str], MetadataRepository]  # by tenant
Problem = dict[str, Any]
Refused = tuple[Received, Problem]
Handle = Callable[[Sequence[Received]], Sequence[Refused]]  # returns what can never be handled; raises if a retry may help

NOT_NOW = (Unavailable, RepositoryUnavailable, BusUnavailable)  # the message is not to blame


def to_message(record: MetadataRecord, context: MetadataContext) -> Message:
    """A record as a message of `metadata.events`; records of one target stay in order."""
    body = {"record": record.model_dump(mode="json"), "context": context.model_dump(mode="json")}
    return Message(body, key="/".join(record.target.key))


def from_message(message: Received) -> tuple[MetadataRecord, MetadataContext]:
    """The record of a message; raises RecordRefused if it is not valid."""
    try:
        return MetadataRecord.model_validate(message.body.get("record")), MetadataContext.model_validate(message.body.get("context"))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise RecordRefused(f"The message is not a valid record with its context: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


class Subscriber:
    """Reads, handles and commits, a batch at a time; call `run_once` in a loop."""

    def __init__(self, bus: Bus, topic: str, name: str, handle: Handle, *, batch: int = 500, tries: int = 5) -> None:
        self.name: str = name
        self.handled: int = 0
        self.set_aside: int = 0
        self._bus: Bus = bus
        self._subscription: Subscription = bus.subscribe(topic, name)
        self._handle: Handle = handle
        self._batch: int = batch
        self._tries: int = tries
        self._failures: Counter[str] = Counter()  # by offset

    @property
    def aside(self) -> str:
        """The topic of what this subscriber set aside."""
        return f"{self._subscription.topic}.{self.name}.aside"

    def run_once(self) -> int:
        """Returns how many messages were processed. Raises temporary errors; then no message is lost."""
        messages = self._subscription.read(self._batch)
        if not messages:
            return 0
        try:
            refused = self._handle(messages)
        except NOT_NOW:
            raise
        except Exception:  # one by one shows which message fails
            return self._one_by_one(messages)
        self._done(messages, refused)
        return len(messages)

    def close(self) -> None:
        self._subscription.close()

    def _one_by_one(self, messages: Sequence[Received]) -> int:
        for number, message in enumerate(messages):
            try:
                refused = self._handle([message])
            except NOT_NOW:
                raise
            except Exception as error:
                self._failures[message.offset] += 1
                if self._failures[message.offset] < self._tries:
                    return number  # later messages wait, to keep the order
                refused = [(message, _problem(error))]
            self._done([message], refused)
        return len(messages)

    def _done(self, messages: Sequence[Received], refused: Sequence[Refused]) -> None:
        if refused:
            # First: a crash in between sets it aside twice, and never loses it.
            self._bus.publish(self.aside, [Message({"offset": message.offset, "problem": problem, "body": message.body}, message.key) for message, problem in refused])
        self._subscription.commit(messages)
        self.handled += len(messages) - len(refused)
        self.set_aside += len(refused)
        for message in messages:
            del self._failures[message.offset]


def _problem(error: Exception) -> Problem:
    """The error as stored; the text of an unexpected error may contain anything, so only its class is named."""
    return error.problem() if isinstance(error, TracelakeError) else {"code": "internal", "title": type(error).__name__}


def storing(repository_of: RepositoryOf) -> Handle:
    """The repository as a subscriber of `metadata.events`: duplicates are `same`, refused records are set aside."""

    def handle(messages: Sequence[Received]) -> Sequence[Refused]:
        refused: list[Refused] = []
        tenants: dict[str, list[tuple[Received, tuple[MetadataRecord, MetadataContext]]]] = defaultdict(list)
        for message in messages:
            try:
                record, context = from_message(message)
            except RecordRefused as error:
                refused.append((message, error.problem()))
            else:
                tenants[context.tenant].append((message, (record, context)))
        for tenant, items in tenants.items():
            try:
                results = store_each(repository_of(tenant), [item for _, item in items])
            except (Forbidden, Unauthenticated) as error:  # the token is wrong, not the message
                raise RepositoryUnavailable(f"The repository refused the token of this subscriber: {error.detail}") from error
            refused += [(message, result.problem or {"code": result.result}) for (message, _), result in zip(items, results, strict=True) if not result.accepted]
        return refused

    return handle


@dataclass
class RecordCounts:
    """How many records were emitted, by kind and outcome; itself a subscriber."""

    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, messages: Sequence[Received]) -> Sequence[Refused]:
        refused: list[Refused] = []
        counted: Counter[tuple[str, str]] = Counter()
        for message in messages:
            try:
                record, _ = from_message(message)
            except RecordRefused as error:
                refused.append((message, error.problem()))
            else:
                counted[record.kind, _outcome(record.payload)] += 1
        with self._lock:
            self._counts.update(counted)
        return refused

    def now(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self._counts)


_OUTCOMES = ("outcome", "status", "verdict", "allowed")  # what the kinds call it
_LONGEST = 40


def _outcome(payload: dict[str, Any]) -> str:
    """One word if the kind has one; never free text, which would create a new series each time."""
    found = next((payload[name] for name in _OUTCOMES if name in payload), None)
    match found:
        case bool():
            return "allowed" if found else "blocked"
        case str() if found.isidentifier() and len(found) <= _LONGEST:
            return found.lower()
        case _:
            return ""


class Offsets(Protocol):
    """Where relays stopped, by name."""

    def kept(self, name: str) -> str | None: ...

    def keep(self, name: str, offset: str) -> None: ...


class MemoryOffsets(dict[str, str]):
    """Offsets that are lost with their process: the relay then starts over and publishes again."""

    def kept(self, name: str) -> str | None:
        return self.get(name)

    def keep(self, name: str, offset: str) -> None:
        self[name] = offset


class StoredRelay:
    """Publishes on `metadata.stored` what one tenant's repository accepted, in order and with its offset."""

    def __init__(self, bus: Bus, repository: MetadataRepository, context: MetadataContext, offsets: Offsets, *, batch: int = 500) -> None:
        self._bus: Bus = bus
        self._repository: MetadataRepository = repository
        self._context: MetadataContext = context
        self._offsets: Offsets = offsets
        self._batch: int = batch

    def run_once(self) -> int:
        name = f"{STORED} {self._context.tenant}"
        before = self._offsets.kept(name)
        try:
            page = self._repository.tail(self._context, before, limit=self._batch)
        except OffsetUnknown:
            # The repository was restored or replaced. All of it is published again: subscribers know a record by its id, and none is missed.
            before = None
            page = self._repository.tail(self._context, before, limit=self._batch)
        if not page.items:
            return 0
        # A repository returns only the offset after a page. Inside the page the offset before it is safe: a tail from there misses nothing.
        offsets = [before] * (len(page.items) - 1) + [page.offset]
        self._bus.publish(STORED, [_accepted(stored, offset) for stored, offset in zip(page.items, offsets, strict=True)])
        self._offsets.keep(name, page.offset)
        return len(page.items)


def _accepted(stored: StoredRecord, offset: str | None) -> Message:
    return Message({"stored": stored.model_dump(mode="json"), "offset": offset}, key="/".join(stored.record.target.key))
