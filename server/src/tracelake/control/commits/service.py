"""The line: decided places are frozen as exact bytes, and these bytes are put where Delta readers look.

Any number of processes do this at once. A process that wakes up a year later writes the same bytes at the same version, which
changes nothing. There is no rebase of a commit, no retry at another version, no giving up after freeze.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog

from tracelake.control.commits import store
from tracelake.control.commits.groups import PlaceOfGroup, group
from tracelake.control.commits.log_entries import AddAction, LogChange, LogPart, LogTable, RemoveAction, entry
from tracelake.control.commits.store import AddedByPlace, FrozenEntry, OutputOfPlace, RemovedByPlace, TableBefore
from tracelake.control.database.transactions import Database, DatabaseRole, Pending, Transaction
from tracelake.storage.contract import PutResult, Storage
from tracelake.storage.paths import log_entry_path, table_location
from tracelake_sdk.datasets.scopes import Scope

_log = structlog.get_logger()

MOST_PLACES = 200  # in one log entry

FOREIGN_WRITER = (
    "Another program wrote version {version} of table {table}; only Tracelake may commit there."
    " No further change of this line becomes visible until that entry is removed and the line is resumed."
)


@dataclass(frozen=True)
class Commits:
    database: Database
    storage: Storage

    def freeze(self, generation: UUID) -> "Frozen":
        """The entries to put now: frozen earlier and not recorded, or frozen by this call."""
        with self.database.transaction("freeze", role=DatabaseRole.DECIDE) as tx:
            pending_line, unfrozen = store.send_lock_line(tx, generation), _Unfrozen.load(tx, generation)
            line = pending_line.result()
            if line is None or line.stopped:
                return Frozen([], more=False)
            entries = store.to_put(tx, generation) if line.frozen > line.recorded else unfrozen.freeze(tx, generation)
            return Frozen(entries, more=line.decided > max(entry.last_place for entry in entries))

    def put(self, generation: UUID, entries: list[FrozenEntry]) -> bool:
        """Returns whether all entries are in the log; an entry of another writer stops the line. No transaction is open meanwhile."""
        for frozen in entries:
            location = table_location(frozen.org_id, frozen.dataset_id, frozen.dataset_version_id)
            result = self.storage.put_new(log_entry_path(location, frozen.delta_version), frozen.body, frozen.written_as)
            if result is PutResult.OTHER:
                self._stop(generation, FOREIGN_WRITER.format(version=frozen.delta_version, table=frozen.dataset_version_id))
                return False
        return True

    def lines_to_move(self, *, room: int) -> list[UUID]:
        with self.database.transaction("lines_to_move") as tx:
            return store.lines_to_move(tx, room=room)

    def _stop(self, generation: UUID, reason: str) -> None:
        with self.database.transaction("stop_line") as tx:
            store.stop_line(tx, generation=generation, reason=reason)
        _log.error("a line is stopped", generation=str(generation), reason=reason)


@dataclass(frozen=True)
class Frozen:
    """The entries to put now, and whether more changes are decided after them. A later decision calls it again."""

    entries: list[FrozenEntry]
    more: bool


Record = Callable[[UUID, int], int]  # records a generation's places up to the last one whose entries are in the log; returns how many


@dataclass(frozen=True)
class Committer:
    """`run_once()` moves every line that can move; `move` moves one."""

    commits: Commits
    record: Record
    checkpoint: Callable[[FrozenEntry], None]

    def run_once(self) -> int:
        return sum(self.move(generation) for generation in self.commits.lines_to_move(room=100))

    def move(self, generation: UUID) -> int:
        """Freezes, puts and records until no decided change is left; returns how many places were recorded."""
        moved, more = 0, True
        while more and (frozen := self.commits.freeze(generation)).entries and self.commits.put(generation, frozen.entries):
            # Only what this call put: another process may have frozen more since, which is not in the log yet.
            moved += self.record(generation, max(entry.last_place for entry in frozen.entries))
            for put in frozen.entries:
                self.checkpoint(put)
            more = frozen.more
        return moved


@dataclass(frozen=True)
class _Unfrozen:
    """The places that may be frozen next."""

    decided_at: Pending[dict[int, datetime]]
    outputs: Pending[list[OutputOfPlace]]
    added: Pending[list[AddedByPlace]]
    removed: Pending[list[RemovedByPlace]]
    scopes: Pending[list[tuple[UUID, int, Scope]]]
    tables: Pending[dict[UUID, TableBefore]]

    @staticmethod
    def load(tx: Transaction, generation: UUID) -> "_Unfrozen":
        return _Unfrozen(
            store.send_times_of_places(tx, generation, most=MOST_PLACES),
            store.send_outputs_of_places(tx, generation, most=MOST_PLACES),
            store.send_added_by_places(tx, generation, most=MOST_PLACES),
            store.send_removed_by_places(tx, generation, most=MOST_PLACES),
            store.send_scopes_of_places(tx, generation, most=MOST_PLACES),
            store.send_tables_before(tx, generation, most=MOST_PLACES),
        )

    def freeze(self, tx: Transaction, generation: UUID) -> list[FrozenEntry]:
        """The line's next entries, in the order of their outputs; each carries as many places as fit into one group."""
        decided_at, outputs, removed = self.decided_at.result(), self.outputs.result(), self.removed.result()
        taken = set(group(_places_of_group(list(decided_at), outputs, self.scopes.result(), removed)))
        parts: dict[UUID, list[OutputOfPlace]] = defaultdict(list)
        for output in outputs:
            if output.place in taken:
                parts[output.dataset_version_id].append(output)
        entries = [
            _entry(
                self.tables.result()[table],
                mine,
                decided_at,
                [file for file in self.added.result() if file.dataset_version_id == table and file.place in taken],
                [file for file in removed if file.dataset_version_id == table and file.place in taken],
            )
            for table, mine in sorted(parts.items(), key=lambda part: (part[1][0].place, part[1][0].output_index))
        ]
        for frozen in entries:
            store.freeze(tx, generation, frozen)
        store.move_frozen(tx, generation=generation, frozen=max(taken))
        return entries


def _places_of_group(
    places: list[int], outputs: list[OutputOfPlace], scopes: list[tuple[UUID, int, Scope]], removed: list[RemovedByPlace]
) -> list[PlaceOfGroup]:
    written: dict[int, dict[UUID, list[Scope]]] = {place: {} for place in places}
    schemas: dict[int, dict[UUID, str]] = {place: {} for place in places}
    for table, place, scope in scopes:
        written[place].setdefault(table, []).append(scope)
    for output in outputs:
        schemas[output.place][output.dataset_version_id] = output.schema_hash
    remove = {file.place for file in removed}
    return [
        PlaceOfGroup(place, {table: tuple(found) for table, found in written[place].items()}, schemas[place], removes=place in remove) for place in places
    ]


def _entry(
    before: TableBefore, parts: list[OutputOfPlace], decided_at: dict[int, datetime], added: list[AddedByPlace], removed: list[RemovedByPlace]
) -> FrozenEntry:
    """One table's next log entry; its times are those of the decisions, so that the same change always gives the same bytes."""
    table, last = parts[0], parts[-1]
    written_as = max(decided_at[part.place] for part in parts)
    body = entry(
        LogChange(
            table=LogTable(table.dataset_version_id, table.created_at),
            delta_version=before.delta_version,
            table_schema=last.table_schema,
            schema_changed=before.schema_hash != last.schema_hash,
            adds=tuple(AddAction(file.path, file.size, file.rows, file.read_statistics(), decided_at[file.place]) for file in added),
            removes=tuple(RemoveAction(file.path, file.size) for file in removed),
            decided_at=written_as,
            parts=tuple(LogPart(part.place, part.run_id, str(part.promotion_id)) for part in parts),
            operation="REPLACE" if removed else "WRITE",
        )
    )
    return FrozenEntry(
        dataset_version_id=table.dataset_version_id,
        delta_version=before.delta_version,
        first_place=table.place,
        last_place=last.place,
        body=body,
        sha256=hashlib.sha256(body).digest(),
        written_as=written_as,
        dataset_id=table.dataset_id,
        org_id=table.org_id,
    )
