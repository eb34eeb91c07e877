"""The index in memory: views of the log of one process. Each view is loaded at its first use, from a snapshot if there is one."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, NamedTuple, Protocol

from tracelake_sdk.records.repository.embedded.layout import FIRST, LogPosition
from tracelake_sdk.records.repository.embedded.segments import RecordLog

Pair = tuple[str, tuple[str, str, str]]  # kind, and key of the target

_HASH, _ID = 32, 16
_ROW = _HASH + _HASH + _ID


class Entry(NamedTuple):
    """The line of one record in the log; ids and hashes in hexadecimal digits."""

    id: str
    identity: str
    content: str
    kind: str
    target: tuple[str, str, str]
    target_extras: dict[str, Any]
    produced: str  # in the format of `layout.moment`
    producer_id: str
    job_id: str | None
    run_id: str | None
    path: str

    def fields(self) -> dict[str, Any]:
        """The fields of its line."""
        return self._asdict()

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "Entry | None":
        """None for a line of another type."""
        if "identity" not in fields:
            return None
        return cls(
            fields["id"], fields["identity"], fields["content"], fields["kind"], tuple(fields["target"]), fields["target_extras"],
            fields["produced"], fields["producer_id"], fields["job_id"], fields["run_id"], fields["path"],
        )  # fmt: skip


class Listed(NamedTuple):
    """A record in the catalog; the greatest is the newest."""

    produced: str
    id: str
    path: str
    producer_id: str
    job_id: str | None
    run_id: str | None


class Latest(NamedTuple):
    """The newest record of a pair."""

    produced: str
    id: str
    path: str
    target_extras: dict[str, Any]


class View(Protocol):
    """A view that is updated from the log."""

    def take_in(self, entry: Entry) -> None: ...


@dataclass
class NewestRecords:
    """The newest record of each kind and target."""

    pairs: dict[Pair, Latest] = field(default_factory=dict)
    since: int = 0  # records added since the snapshot

    def take_in(self, entry: Entry) -> None:
        self.since += 1
        pair = (entry.kind, entry.target)
        latest = self.pairs.get(pair)
        if latest is None or (latest.produced, latest.id) < (entry.produced, entry.id):
            self.pairs[pair] = Latest(entry.produced, entry.id, entry.path, entry.target_extras)


@dataclass
class Identities:
    """The identities of all records, also of compacted ones: a sorted table, and those added since."""

    table: bytes = b""  # rows of identity, content hash and id
    fresh: dict[str, tuple[str, str]] = field(default_factory=dict)

    def take_in(self, entry: Entry) -> None:
        self.fresh.setdefault(entry.identity, (entry.content, entry.id))

    def find(self, identity: str) -> tuple[str, str] | None:
        """Content hash and id of the record with this identity."""
        if (found := self.fresh.get(identity)) is not None or not self.table:
            return found
        wanted = bytes.fromhex(identity)
        at = bisect_left(range(len(self.table) // _ROW), wanted, key=lambda row: self.table[row * _ROW : row * _ROW + _HASH]) * _ROW
        row = self.table[at : at + _ROW]
        return (row[_HASH:-_ID].hex(), row[-_ID:].hex()) if row[:_HASH] == wanted else None

    def __len__(self) -> int:
        return len(self.table) // _ROW + len(self.fresh)

    def merged(self) -> bytes:
        """All of them as one table."""
        rows = [self.table[at : at + _ROW] for at in range(0, len(self.table), _ROW)]
        rows += [bytes.fromhex(identity + content + id) for identity, (content, id) in self.fresh.items()]
        rows.sort()
        return b"".join(rows)


@dataclass
class RecordCatalog:
    """Every record, by kind and target, oldest first."""

    pairs: dict[Pair, list[Listed]] = field(default_factory=dict)

    def take_in(self, entry: Entry) -> None:
        listed = Listed(entry.produced, entry.id, entry.path, entry.producer_id, entry.job_id, entry.run_id)
        found = self.pairs.setdefault((entry.kind, entry.target), [])
        if not found or found[-1] < listed:
            found.append(listed)
        else:
            insort(found, listed)

    def newest_first(self, pairs: Iterable[Pair], before: tuple[str, str] | None) -> Iterator[tuple[Pair, Listed]]:
        """The records of some pairs, after a page token."""
        return merge(*(self._of(pair, before) for pair in pairs), key=lambda found: found[1][:2], reverse=True)

    def _of(self, pair: Pair, before: tuple[str, str] | None) -> Iterator[tuple[Pair, Listed]]:
        found = self.pairs[pair]
        end = len(found) if before is None else bisect_left(found, before, key=lambda listed: listed[:2])
        return ((pair, found[at]) for at in range(end - 1, -1, -1))


class Follower:
    """Reads new log entries and updates all views in one pass."""

    def __init__(self, log: RecordLog) -> None:
        self._log: RecordLog = log
        self._views: list[View] = []
        self.position: LogPosition = FIRST  # up to which all views are updated

    def poll(self) -> None:
        """Reads everything that any process has logged so far."""
        while (chunk := self._log.read(self.position)).end != self.position:
            self.advance([entry for line in chunk.lines if (entry := Entry.of(line.fields)) is not None], chunk.end)

    def advance(self, entries: Iterable[Entry], end: LogPosition) -> None:
        """Adds entries that this process logged itself, without reading them back."""
        for entry in entries:
            for view in self._views:
                view.take_in(entry)
        self.position = end

    def add(self, view: View, position: LogPosition) -> None:
        """Adds a view that is updated up to a position, and updates it to where the others are."""
        if not self._views:
            self._views, self.position = [view], position
            self.poll()
            return
        self.poll()  # a snapshot may be ahead of what this process has read
        while position < self.position:
            chunk = self._log.read(position)
            for line in chunk.lines:
                if line.behind <= self.position and (entry := Entry.of(line.fields)) is not None:
                    view.take_in(entry)
            position = chunk.end
        self._views.append(view)
