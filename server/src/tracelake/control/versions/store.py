"""The tables of versions, files, scopes and changes, one function per query."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.versions.spans import scope_of, span_of, stored
from tracelake_sdk.datasets.measurements import StagedFile, TableFile
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.tasks.events import EventKind

sql = load(__name__, "versions.sql")


@dataclass(frozen=True, slots=True)
class Line:
    """The progress of the changes of one generation."""

    generation_id: UUID
    decided: int
    frozen: int
    recorded: int
    stopped_at: datetime | None
    stopped_reason: str | None
    turn_task_id: UUID | None
    turn_attempt: int | None
    reserved_task_id: UUID | None

    @property
    def turn(self) -> tuple[UUID, int] | None:
        """The attempt that has the turn; other completions wait for it."""
        return (self.turn_task_id, self.turn_attempt) if self.turn_task_id is not None and self.turn_attempt is not None else None


@dataclass(frozen=True, slots=True)
class CurrentVersion:
    """The state of a table that readers see now."""

    dataset_version_id: UUID
    dataset_id: UUID
    version: int
    table_schema: dict[str, Any]
    row_count: int


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as of the newest decided place of its line."""

    dataset_version_id: UUID
    place: int
    table_schema: dict[str, Any]
    schema_hash: str
    row_count: int


@dataclass(frozen=True, slots=True)
class ScopeNow:
    """A current scope, with the place of the change that wrote it last."""

    scope: Scope
    place: int


@dataclass(frozen=True, slots=True)
class FileToRemove:
    path: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileAdded:
    dataset_version_id: UUID
    place: int
    file: StagedFile
    schema_hash: str


@dataclass(frozen=True, slots=True)
class FileRemoved:
    dataset_version_id: UUID
    place: int
    path: str


@dataclass(frozen=True, slots=True)
class ScopeMoved:
    """A scope written at this place; `drops` are the scopes that it replaces."""

    dataset_version_id: UUID
    place: int
    scope: Scope
    drops: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class NewChange:
    generation_id: UUID
    place: int
    task_id: UUID
    attempt: int
    base: int
    custom: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewChangeOutput:
    generation_id: UUID
    place: int
    dataset_version_id: UUID
    promotion_id: UUID
    table_schema: dict[str, Any]
    schema_hash: str
    row_count: int
    fingerprint: str
    written: tuple[tuple[Scope, EventKind], ...]


@dataclass(frozen=True, slots=True)
class NewVersion:
    org_id: UUID
    dataset_id: UUID
    version: int
    generation_id: UUID
    dataset_version_id: UUID
    delta_version: int
    first_place: int
    last_place: int
    places: list[int]
    table_schema: dict[str, Any]
    schema_hash: str
    row_count: int
    promoted_at: datetime
    promoted_by: str


@dataclass(frozen=True, slots=True)
class NewMaterialization:
    id: UUID
    task_id: UUID
    attempt: int
    scope: Scope
    custom: dict[str, Any]


def lines(tx: Transaction, generations: list[UUID]) -> dict[UUID, Line]:
    return send_lines(tx, generations).result()


def send_lines(tx: Transaction, generations: list[UUID]) -> Pending[dict[UUID, Line]]:
    return tx.send(Line, sql["lines"], generations=generations).then(lambda lines: {line.generation_id: line for line in lines})


def current_versions(tx: Transaction, dataset_versions: list[UUID]) -> dict[UUID, CurrentVersion]:
    return {row.dataset_version_id: row for row in tx.all(CurrentVersion, sql["current_versions"], dataset_versions=dataset_versions)}


def schema_of_version(tx: Transaction, dataset: UUID, version: int) -> dict[str, Any]:
    return tx.value(sql["schema_of_version"], dataset=dataset, version=version)


def files_of_version(tx: Transaction, *, dataset_version: UUID, version: int) -> list[TableFile]:
    return _files(tx.tuples(sql["files_of_version"], dataset_version=dataset_version, version=version))


def files_at_place(tx: Transaction, *, dataset_version: UUID, place: int, without: Sequence[Scope]) -> list[TableFile]:
    return _files(tx.tuples(sql["files_at_place"], dataset_version=dataset_version, place=place, without=[span_of(scope) for scope in without]))


def table_states(tx: Transaction, dataset_versions: list[UUID]) -> dict[UUID, TableState]:
    return send_table_states(tx, dataset_versions).result()


def send_table_states(tx: Transaction, dataset_versions: list[UUID]) -> Pending[dict[UUID, TableState]]:
    return tx.send(TableState, sql["table_states"], dataset_versions=dataset_versions).then(lambda rows: {row.dataset_version_id: row for row in rows})


def scopes_now(tx: Transaction, *, dataset_version: UUID, touching: Sequence[Scope]) -> list[ScopeNow]:
    return send_scopes_now(tx, dataset_version=dataset_version, touching=touching).result()


def send_scopes_now(tx: Transaction, *, dataset_version: UUID, touching: Sequence[Scope]) -> Pending[list[ScopeNow]]:
    rows = tx.send_tuples(sql["scopes_now"], dataset_version=dataset_version, spans=[span_of(scope) for scope in touching])
    return rows.then(lambda found: [ScopeNow(scope_of(scope), place) for scope, place in found])


def fingerprints_now(tx: Transaction, *, dataset_version: UUID, touching: Sequence[Scope]) -> list[tuple[Scope, str]]:
    rows = tx.tuples(sql["fingerprints_now"], dataset_version=dataset_version, spans=[span_of(scope) for scope in touching])
    return [(scope_of(scope), fingerprint) for scope, fingerprint in rows]


def send_scopes_since(tx: Transaction, *, dataset_version: UUID, base: int) -> Pending[list[Scope]]:
    rows = tx.send_tuples(sql["scopes_since"], dataset_version=dataset_version, base=base)
    return rows.then(lambda found: [scope_of(scope) for (scope,) in found])


def send_added_since(tx: Transaction, *, dataset_version: UUID, base: int) -> Pending[list[TableFile]]:
    return tx.send_tuples(sql["added_since"], dataset_version=dataset_version, base=base).then(_files)


def send_removed_since(tx: Transaction, *, dataset_version: UUID, base: int) -> Pending[list[str]]:
    return tx.send_tuples(sql["removed_since"], dataset_version=dataset_version, base=base).then(lambda found: [path for (path,) in found])


def to_remove(tx: Transaction, *, dataset_version: UUID, scopes: Sequence[Scope]) -> list[FileToRemove]:
    return tx.all(FileToRemove, sql["to_remove"], dataset_version=dataset_version, spans=[span_of(scope) for scope in scopes])


def add_files(tx: Transaction, added: list[FileAdded]) -> None:
    tx.run(
        sql["add_files"],
        dataset_versions=[a.dataset_version_id for a in added],
        paths=[a.file.path for a in added],
        scopes=[_json(stored(a.file.scope)) for a in added],
        spans=[span_of(a.file.scope) for a in added],
        places=[a.place for a in added],
        sizes=[a.file.size for a in added],
        rows=[a.file.rows for a in added],
        statistics=[a.file.statistics.model_dump_json() for a in added],
        schema_hashes=[a.schema_hash for a in added],
        seals=[a.file.seal for a in added],
        key_mins=[_json(a.file.key_min) for a in added],
        key_maxs=[_json(a.file.key_max) for a in added],
        hashes=[a.file.hashes for a in added],
    )


def remove_files(tx: Transaction, removed: list[FileRemoved]) -> None:
    tx.run(
        sql["remove_files"],
        dataset_versions=[r.dataset_version_id for r in removed],
        paths=[r.path for r in removed],
        places=[r.place for r in removed],
    )


def move_scopes(tx: Transaction, moved: list[ScopeMoved]) -> None:
    """Drops first: a scope replaces those that it covers."""
    dropped = [(m.dataset_version_id, scope) for m in moved for scope in m.drops]
    if dropped:
        tx.run(sql["drop_scopes"], dataset_versions=[version for version, _ in dropped], spans=[span_of(scope) for _, scope in dropped])
    tx.run(
        sql["add_scopes"],
        dataset_versions=[m.dataset_version_id for m in moved],
        scopes=[_json(stored(m.scope)) for m in moved],
        spans=[span_of(m.scope) for m in moved],
        places=[m.place for m in moved],
    )


def add_changes(tx: Transaction, changes: list[NewChange], *, decided_at: datetime) -> None:
    tx.run(
        sql["add_changes"],
        decided_at=decided_at,
        generations=[c.generation_id for c in changes],
        places=[c.place for c in changes],
        tasks=[c.task_id for c in changes],
        attempts=[c.attempt for c in changes],
        bases=[c.base for c in changes],
        customs=[_json(c.custom) for c in changes],
    )


def add_change_outputs(tx: Transaction, outputs: list[NewChangeOutput]) -> None:
    tx.run(
        sql["add_change_outputs"],
        generations=[o.generation_id for o in outputs],
        places=[o.place for o in outputs],
        dataset_versions=[o.dataset_version_id for o in outputs],
        promotions=[o.promotion_id for o in outputs],
        schemas=[_json(o.table_schema) for o in outputs],
        schema_hashes=[o.schema_hash for o in outputs],
        row_counts=[o.row_count for o in outputs],
        fingerprints=[o.fingerprint for o in outputs],
    )
    written = [(o, scope, kind) for o in outputs for scope, kind in o.written]
    tx.run(
        sql["add_change_scopes"],
        dataset_versions=[o.dataset_version_id for o, _, _ in written],
        places=[o.place for o, _, _ in written],
        scopes=[_json(stored(scope)) for _, scope, _ in written],
        spans=[span_of(scope) for _, scope, _ in written],
        kinds=[kind.value for _, _, kind in written],
    )


def move_line(tx: Transaction, *, generation: UUID, decided: int) -> None:
    tx.run(sql["move_line"], generation=generation, decided=decided)


def give_turn(tx: Transaction, *, generation: UUID, task: UUID | None, attempt: int | None) -> None:
    """None removes the turn."""
    tx.run(sql["give_turn"], generation=generation, task=task, attempt=attempt)


def reserve(tx: Transaction, *, generation: UUID, task: UUID) -> None:
    tx.run(sql["reserve"], generation=generation, task=task)


def add_version(tx: Transaction, new: NewVersion) -> None:
    """Adds the version, its changes, and its number on their files."""
    tx.run(
        sql["add_version"],
        dataset=new.dataset_id,
        version=new.version,
        org=new.org_id,
        dataset_version=new.dataset_version_id,
        delta_version=new.delta_version,
        snapshot_ref=f"delta:{new.dataset_version_id}@{new.delta_version}",
        table_schema=_json(new.table_schema),
        schema_hash=new.schema_hash,
        row_count=new.row_count,
        promoted_at=new.promoted_at,
        promoted_by=new.promoted_by,
    )
    tx.run(
        sql["add_members"],
        dataset=new.dataset_id, version=new.version, generation=new.generation_id, dataset_version=new.dataset_version_id, places=new.places,
    )
    tx.run(sql["number_files"], version=new.version, dataset_version=new.dataset_version_id, first=new.first_place, last=new.last_place)


def add_materializations(tx: Transaction, version: NewVersion, made: list[NewMaterialization]) -> None:
    """With the pins of their attempts, which become their lineage."""
    facts = {"ids": [m.id for m in made], "tasks": [m.task_id for m in made], "attempts": [m.attempt for m in made]}
    tx.run(
        sql["add_materializations"],
        org=version.org_id,
        dataset=version.dataset_id,
        dataset_version=version.dataset_version_id,
        version=version.version,
        at=version.promoted_at,
        scopes=[_json(stored(m.scope)) for m in made],
        spans=[span_of(m.scope) for m in made],
        customs=[_json(m.custom) for m in made],
        **facts,
    )
    tx.run(sql["add_materialization_inputs"], **facts)


def named_files(tx: Transaction, *, dataset_version: UUID, paths: list[str]) -> set[str]:
    return set(tx.values(sql["named_files"], dataset_version=dataset_version, paths=paths))


def _files(rows: list[tuple[Any, ...]]) -> list[TableFile]:
    return [
        TableFile(path=path, size=size, rows=count, scope=scope_of(scope), key_min=key_min, key_max=key_max, hashes=hashes)
        for path, size, count, scope, key_min, key_max, hashes in rows
    ]


def _json(value: Any) -> str | None:
    return None if value is None else wire_json.text(value)
