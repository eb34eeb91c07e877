"""The line and its log entries, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.versions.spans import scope_of
from tracelake_sdk.datasets.measurements import FileStatistics
from tracelake_sdk.datasets.scopes import Scope

sql = load(__name__, "commits.sql")


@dataclass(frozen=True, slots=True)
class LockedLine:
    generation_id: UUID
    decided: int
    frozen: int
    recorded: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class OutputOfPlace:
    place: int
    dataset_version_id: UUID
    table_schema: dict[str, Any]
    schema_hash: str
    promotion_id: UUID
    run_id: str
    created_at: datetime     # of the table
    dataset_id: UUID
    org_id: UUID
    output_index: int


@dataclass(frozen=True, slots=True)
class TableBefore:
    """A table before the next log entry."""

    id: UUID
    delta_version: int         # of that entry
    schema_hash: str | None    # None: it is the first


@dataclass(frozen=True, slots=True)
class AddedByPlace:
    dataset_version_id: UUID
    place: int
    path: str
    size: int
    rows: int
    statistics: dict[str, Any]

    def read_statistics(self) -> FileStatistics:
        return FileStatistics.model_validate(self.statistics)


@dataclass(frozen=True, slots=True)
class RemovedByPlace:
    dataset_version_id: UUID
    place: int
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class FrozenEntry:
    """The exact bytes of one log entry, for one exact Delta version."""

    dataset_version_id: UUID
    delta_version: int
    first_place: int
    last_place: int
    body: bytes
    sha256: bytes
    written_as: datetime
    dataset_id: UUID
    org_id: UUID


@dataclass(frozen=True, slots=True)
class EntryToRecord:
    """A log entry that was put and is not yet recorded as a version."""

    dataset_version_id: UUID
    delta_version: int
    first_place: int
    last_place: int
    dataset_id: UUID
    org_id: UUID


def lines_to_move(tx: Transaction, *, room: int) -> list[UUID]:
    return tx.values(sql["lines_to_move"], room=room)


def send_lock_line(tx: Transaction, generation: UUID) -> Pending[LockedLine | None]:
    """None if nothing is left to do; a later decision calls it again."""
    return tx.send(LockedLine, sql["lock_line"], generation=generation).then(lambda found: found[0] if found else None)


def send_times_of_places(tx: Transaction, generation: UUID, *, most: int) -> Pending[dict[int, datetime]]:
    """By place: when it was decided."""
    return tx.send_tuples(sql["times_of_places"], generation=generation, most=most).then(dict)


def send_outputs_of_places(tx: Transaction, generation: UUID, *, most: int) -> Pending[list[OutputOfPlace]]:
    return tx.send(OutputOfPlace, sql["outputs_of_places"], generation=generation, most=most)


def send_scopes_of_places(tx: Transaction, generation: UUID, *, most: int) -> Pending[list[tuple[UUID, int, Scope]]]:
    rows = tx.send_tuples(sql["scopes_of_places"], generation=generation, most=most)
    return rows.then(lambda found: [(dataset_version, place, scope_of(scope)) for dataset_version, place, scope in found])


def send_added_by_places(tx: Transaction, generation: UUID, *, most: int) -> Pending[list[AddedByPlace]]:
    return tx.send(AddedByPlace, sql["added_by_places"], generation=generation, most=most)


def send_removed_by_places(tx: Transaction, generation: UUID, *, most: int) -> Pending[list[RemovedByPlace]]:
    return tx.send(RemovedByPlace, sql["removed_by_places"], generation=generation, most=most)


def send_tables_before(tx: Transaction, generation: UUID, *, most: int) -> Pending[dict[UUID, TableBefore]]:
    rows = tx.send(TableBefore, sql["tables_before"], generation=generation, most=most)
    return rows.then(lambda found: {table.id: table for table in found})


def freeze(tx: Transaction, generation: UUID, entry: FrozenEntry) -> None:
    tx.run(
        sql["freeze"],
        generation=generation,
        dataset_version=entry.dataset_version_id,
        delta_version=entry.delta_version,
        first=entry.first_place,
        last=entry.last_place,
        body=entry.body,
        sha256=entry.sha256,
        written_as=entry.written_as,
    )


def move_frozen(tx: Transaction, *, generation: UUID, frozen: int) -> None:
    tx.run(sql["move_frozen"], generation=generation, frozen=frozen)


def to_put(tx: Transaction, generation: UUID) -> list[FrozenEntry]:
    return tx.all(FrozenEntry, sql["to_put"], generation=generation)


def send_to_record(tx: Transaction, *, generation: UUID, last: int) -> Pending[list[EntryToRecord]]:
    """The entries of the places up to this one that are not recorded."""
    return tx.send(EntryToRecord, sql["to_record"], generation=generation, last=last)


def recorded(tx: Transaction, *, generation: UUID, place: int) -> None:
    """The line is recorded up to this place: earlier bodies are cleared, their hashes stay."""
    tx.run(sql["recorded"], generation=generation, place=place)
    tx.run(sql["move_recorded"], generation=generation, place=place)


def stop_line(tx: Transaction, *, generation: UUID, reason: str) -> None:
    tx.run(sql["stop_line"], generation=generation, reason=reason)


def start_line(tx: Transaction, generation: UUID) -> None:
    tx.run(sql["start_line"], generation=generation)
