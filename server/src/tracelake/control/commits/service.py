"""The line: decided places are frozen as exact bytes, and these bytes are put where Delta readers look.

Any number of processes do this at once. Whoever wakes up, even a year later, writes the same bytes at the same version: nothing
happens. There is no rebase of a commit, no retry at another version, no giving up after freeze.
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
from tracelake.control.commits.log_entries import AddedFile, LogChange, LogPart, LogTable, RemovedFile, entry
from tracelake.control.commits.store import AddedByPlace, DecidedPlace, FrozenEntry, OutputOfPlace, RemovedByPlace
from tracelake.control.database.transactions import Database, Role, Transaction
from tracelake.storage.contract import PutResult, Storage
from tracelake.storage.paths import log_entry_path, table_location
from tracelake_sdk.scopes import Scope

_log = structlog.get_logger()

MOST_PLACES = 200  # in one log entry

FOREIGN_WRITER = (
    "Another program wrote version {version} of table {table}; nobody but Tracelake may commit there."
    " Nothing of this line becomes visible until that entry is gone and the line is started again."
)


@dataclass(frozen=True)
class Commits:
    database: Database
    storage: Storage

    def freeze(self, generation: UUID) -> list[FrozenEntry]:
        """The entries that are to be put now: frozen earlier and not recorded, or frozen by this call."""
        with self.database.transaction("freeze", role=Role.DECIDE) as tx:
            line = store.lock_line(tx, generation)
            if line is None or line.stopped:
                return []
            if line.frozen == line.recorded and line.decided > line.frozen:
                _freeze(tx, generation, line.frozen)
            return store.to_put(tx, generation)

    def put(self, generation: UUID, entries: list[FrozenEntry]) -> bool:
        """Whether all are there; a foreign writer's entry stops the line. No transaction is open meanwhile."""
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


Record = Callable[[UUID, int], int]  # records a generation's places up to the last one whose entries are there; how many


@dataclass(frozen=True)
class Committer:
    """`run_once()` moves every line that can move; `move` moves one."""

    commits: Commits
    record: Record
    checkpoint: Callable[[FrozenEntry], None]

    def run_once(self) -> int:
        return sum(self.move(generation) for generation in self.commits.lines_to_move(room=100))

    def move(self, generation: UUID) -> int:
        """Freeze, put, record, until the line has nothing decided left; how many places were recorded."""
        moved = 0
        while entries := self.commits.freeze(generation):
            if not self.commits.put(generation, entries):
                break
            # Not further than what was put here: another one may have frozen more since, and that is not there yet.
            moved += self.record(generation, max(frozen.last_place for frozen in entries))
            for frozen in entries:
                self.checkpoint(frozen)
        return moved


def _freeze(tx: Transaction, generation: UUID, after: int) -> None:
    decided = store.places(tx, generation=generation, after=after, most=MOST_PLACES)
    first, last = decided[0].place, decided[-1].place
    outputs = store.outputs_of_places(tx, generation=generation, first=first, last=last)
    tables = sorted({output.dataset_version_id for output in outputs})
    added = {table: store.added_by_places(tx, dataset_version=table, first=first, last=last) for table in tables}
    removed = {table: store.removed_by_places(tx, dataset_version=table, first=first, last=last) for table in tables}
    scopes = store.scopes_of_places(tx, tables, first=first, last=last)
    taken = set(group([_place_of_group(place, outputs, scopes, removed) for place in decided]))
    for table in tables:
        parts = [output for output in outputs if output.dataset_version_id == table and output.place in taken]
        if parts:
            _freeze_table(
                tx,
                generation,
                parts,
                {place.place: place.decided_at for place in decided},
                [file for file in added[table] if file.place in taken],
                [file for file in removed[table] if file.place in taken],
            )
    store.move_frozen(tx, generation=generation, frozen=max(taken))


def _place_of_group(
    place: DecidedPlace, outputs: list[OutputOfPlace], scopes: list[tuple[UUID, int, Scope]], removed: dict[UUID, list[RemovedByPlace]]
) -> PlaceOfGroup:
    written: dict[UUID, list[Scope]] = defaultdict(list)
    for table, number, scope in scopes:
        if number == place.place:
            written[table].append(scope)
    return PlaceOfGroup(
        place.place,
        {table: tuple(found) for table, found in written.items()},
        {output.dataset_version_id: output.schema_hash for output in outputs if output.place == place.place},
        removes=any(file.place == place.place for files in removed.values() for file in files),
    )


def _freeze_table(
    tx: Transaction,
    generation: UUID,
    parts: list[OutputOfPlace],
    decided_at: dict[int, datetime],
    added: list[AddedByPlace],
    removed: list[RemovedByPlace],
) -> None:
    """One table's next log entry; its times are those of the decisions, so that the same change is always the same bytes."""
    table, last = parts[0], parts[-1]
    version = store.next_delta_version(tx, table.dataset_version_id)
    before = store.schema_before(tx, dataset_version=table.dataset_version_id, place=parts[0].place)
    written_as = max(decided_at[part.place] for part in parts)
    body = entry(
        LogChange(
            table=LogTable(table.dataset_version_id, table.created_at),
            delta_version=version,
            table_schema=last.table_schema,
            schema_changed=before != last.schema_hash,
            adds=tuple(AddedFile(file.path, file.size, file.rows, file.read_statistics(), decided_at[file.place]) for file in added),
            removes=tuple(RemovedFile(file.path, file.size) for file in removed),
            decided_at=written_as,
            parts=tuple(LogPart(part.place, part.run_id, str(part.promotion_id)) for part in parts),
            operation="REPLACE" if removed else "WRITE",
        )
    )
    store.freeze(
        tx,
        generation=generation,
        dataset_version=table.dataset_version_id,
        delta_version=version,
        first=parts[0].place,
        last=last.place,
        body=body,
        sha256=hashlib.sha256(body).digest(),
        written_as=written_as,
    )
