"""Explaining: datasets, versions with their reasons, and why a dataset is as it is."""

from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access.callers import Caller, Right
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.explain import store
from tracelake.control.explain.reasons import Known, reasons
from tracelake.control.explain.store import DatasetRow, PartRow, VersionRow
from tracelake.control.versions.spans import scope_of
from tracelake_sdk.datasets import Column, Dataset, Explanation, PinnedVersion, Version, VersionPart
from tracelake_sdk.errors import NotFound
from tracelake_sdk.pages import Page


@dataclass(frozen=True)
class Explaining:
    database: Database

    def datasets(self, caller: Caller, *, after: UUID | None, limit: int) -> Page[Dataset]:
        caller.require(Right.READ)
        with self.database.transaction("datasets") as tx:
            rows = store.datasets(tx, org=caller.org_id, after=after, limit=limit + 1)
        return Page(items=[_dataset(row) for row in rows[:limit]], next=str(rows[limit - 1].id) if len(rows) > limit else None)

    def dataset(self, caller: Caller, name: str) -> Dataset:
        """By its name or its uuid."""
        caller.require(Right.READ)
        with self.database.transaction("dataset") as tx:
            return _dataset(_find(tx, caller, name))

    def versions(self, caller: Caller, name: str, *, before: int | None, limit: int) -> Page[Version]:
        caller.require(Right.READ)
        with self.database.transaction("versions") as tx:
            dataset = _find(tx, caller, name)
            rows = store.versions(tx, org=caller.org_id, dataset=dataset.id, before=before, version=None, limit=limit + 1)
            found = _versions(tx, dataset.id, rows[:limit])
        return Page(items=found, next=str(rows[limit - 1].version) if len(rows) > limit else None)

    def version(self, caller: Caller, name: str, number: int) -> Version:
        caller.require(Right.READ)
        with self.database.transaction("version") as tx:
            dataset = _find(tx, caller, name)
            rows = store.versions(tx, org=caller.org_id, dataset=dataset.id, before=None, version=number, limit=1)
            if not rows:
                newest = f"; its newest is {dataset.version}" if dataset.version else "; it has none yet"
                raise NotFound(f"The dataset {name} has no version {number}{newest}.")
            return _versions(tx, dataset.id, rows)[0]

    def explain(self, caller: Caller, name: str) -> Explanation:
        caller.require(Right.READ)
        with self.database.transaction("explain") as tx:
            row = _find(tx, caller, name)
            table = row.dataset_version_id
            last = store.parts(tx, dataset=row.id, versions=[row.version]) if row.version else []
            known = Known(
                dataset=row,
                line=store.line(tx, table) if table else None,
                work=store.work(tx, table) if table else [],
                candidate=store.newest_candidate(tx, row.id),
                run=store.newest_run(tx, row.id),
                inputs=store.inputs_now(tx, table) if table else [],
                last=last[-1] if last else None,
                read=_pins(tx, last[-1:])[last[-1].run_id] if last else [],
            )
        return Explanation(dataset=_dataset(row), reasons=reasons(known))


def _find(tx: Transaction, caller: Caller, name: str) -> DatasetRow:
    try:
        id, called = UUID(name), None
    except ValueError:
        id, called = None, name
    rows = store.datasets(tx, org=caller.org_id, name=called, id=id, limit=1)
    if not rows:
        raise NotFound(f"There is no dataset {name!r} in this org; `tracelake dataset list` names them.")
    return rows[0]


def _dataset(row: DatasetRow) -> Dataset:
    return Dataset(
        uuid=row.id,
        name=row.name,
        layer=row.layer,
        domain=row.domain,
        owner=row.owner,
        description=row.description,
        active=row.active,
        dag=row.dag,
        job=row.job,
        output_index=row.output_index,
        has_files=row.has_files,
        version=row.version,
        row_count=row.row_count,
        promoted_at=row.promoted_at,
        columns=[Column(name=field["name"], type=_type(field["type"])) for field in (row.table_schema or {"fields": []})["fields"]],
    )


def _type(type: object) -> str:
    """Delta's own word; of nested types their kind and parts."""
    match type:
        case {"type": "struct", "fields": list(fields)}:
            parts = [f"{field['name']}: {_type(field['type'])}" for field in fields]
            return f"struct<{', '.join(parts)}>"
        case {"type": "array", "elementType": element}:
            return f"array<{_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_type(key)}, {_type(value)}>"
        case _:
            return str(type)


def _versions(tx: Transaction, dataset: UUID, rows: list[VersionRow]) -> list[Version]:
    parts = store.parts(tx, dataset=dataset, versions=[row.version for row in rows])
    pins = _pins(tx, parts)
    return [
        Version(
            version=row.version,
            snapshot_ref=row.snapshot_ref,
            schema_hash=row.schema_hash,
            row_count=row.row_count,
            promoted_at=row.promoted_at,
            promoted_by=row.promoted_by,
            parts=[_part(part, pins[part.run_id]) for part in parts if part.version == row.version],
        )
        for row in rows
    ]


def _part(part: PartRow, inputs: list[PinnedVersion]) -> VersionPart:
    return VersionPart(
        run_id=part.run_id,
        task_id=part.task_id,
        attempt=part.attempt,
        job=f"{part.dag}/{part.job}",
        scopes=[scope_of(scope) for scope in part.scopes],
        promotion_id=part.promotion_id,
        reason=part.reason,
        inputs=inputs,
        custom=part.custom,
    )


def _pins(tx: Transaction, parts: list[PartRow]) -> dict[str, list[PinnedVersion]]:
    """By run."""
    found: dict[str, list[PinnedVersion]] = defaultdict(list)
    runs = {(part.task_id, part.attempt): part.run_id for part in parts}
    for row in store.inputs_of_parts(tx, parts) if parts else []:
        found[runs[row.task_id, row.attempt]].append(PinnedVersion(index=row.index, dataset_uuid=row.dataset_id, name=row.name, version=row.version))
    return found
