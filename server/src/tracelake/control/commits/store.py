"""The line and its log entries, one function a query."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake.control.versions.spans import scope_of
from tracelake_sdk.measurements import FileStatistics
from tracelake_sdk.scopes import Scope

sql = load(__name__, "commits.sql")


@dataclass(frozen=True, slots=True)
class LockedLine:
    generation_id: UUID
    decided: int
    frozen: int
    recorded: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class DecidedPlace:
    place: int
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class OutputOfPlace:
    place: int
    dataset_version_id: UUID
    table_schema: dict[str, Any]
    schema_hash: str
    promotion_id: UUID
    run_id: str
    created_at: datetime     # of the table


@dataclass(frozen=True, slots=True)
class AddedByPlace:
    place: int
    path: str
    size: int
    rows: int
    statistics: dict[str, Any]

    def read_statistics(self) -> FileStatistics:
        return FileStatistics.model_validate(self.statistics)


@dataclass(frozen=True, slots=True)
class RemovedByPlace:
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


def lines_to_move(tx: Transaction, *, room: int) -> list[UUID]:
    return tx.values(sql["lines_to_move"], room=room)


def lock_line(tx: Transaction, generation: UUID) -> LockedLine | None:
    """None where nothing is left to do; whoever decides something later tells of it."""
    return tx.find(LockedLine, sql["lock_line"], generation=generation)


def places(tx: Transaction, *, generation: UUID, after: int, most: int) -> list[DecidedPlace]:
    return tx.all(DecidedPlace, sql["places"], generation=generation, after=after, most=most)


def outputs_of_places(tx: Transaction, *, generation: UUID, first: int, last: int) -> list[OutputOfPlace]:
    return tx.all(OutputOfPlace, sql["outputs_of_places"], generation=generation, first=first, last=last)


def scopes_of_places(tx: Transaction, dataset_versions: list[UUID], *, first: int, last: int) -> list[tuple[UUID, int, Scope]]:
    rows = tx.tuples(sql["scopes_of_places"], dataset_versions=dataset_versions, first=first, last=last)
    return [(dataset_version, place, scope_of(scope)) for dataset_version, place, scope in rows]


def schema_before(tx: Transaction, *, dataset_version: UUID, place: int) -> str | None:
    return tx.value(sql["schema_before"], dataset_version=dataset_version, place=place)


def added_by_places(tx: Transaction, *, dataset_version: UUID, first: int, last: int) -> list[AddedByPlace]:
    return tx.all(AddedByPlace, sql["added_by_places"], dataset_version=dataset_version, first=first, last=last)


def removed_by_places(tx: Transaction, *, dataset_version: UUID, first: int, last: int) -> list[RemovedByPlace]:
    return tx.all(RemovedByPlace, sql["removed_by_places"], dataset_version=dataset_version, first=first, last=last)


def next_delta_version(tx: Transaction, dataset_version: UUID) -> int:
    return tx.value(sql["next_delta_version"], dataset_version=dataset_version)


def freeze(
    tx: Transaction, *, generation: UUID, dataset_version: UUID, delta_version: int, first: int, last: int, body: bytes, sha256: bytes, written_as: datetime
) -> None:
    tx.run(
        sql["freeze"],
        generation=generation,
        dataset_version=dataset_version,
        delta_version=delta_version,
        first=first,
        last=last,
        body=body,
        sha256=sha256,
        written_as=written_as,
    )


def move_frozen(tx: Transaction, *, generation: UUID, frozen: int) -> None:
    tx.run(sql["move_frozen"], generation=generation, frozen=frozen)


def to_put(tx: Transaction, generation: UUID) -> list[FrozenEntry]:
    return tx.all(FrozenEntry, sql["to_put"], generation=generation)


def recorded(tx: Transaction, *, generation: UUID, place: int) -> None:
    """The line has come to this place: the bodies behind it are cleared, their hashes stay."""
    tx.run(sql["recorded"], generation=generation, place=place)
    tx.run(sql["move_recorded"], generation=generation, place=place)


def stop_line(tx: Transaction, *, generation: UUID, reason: str) -> None:
    tx.run(sql["stop_line"], generation=generation, reason=reason)


def start_line(tx: Transaction, generation: UUID) -> None:
    tx.run(sql["start_line"], generation=generation)
