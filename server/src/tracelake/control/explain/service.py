"""Explaining: datasets, versions with their reasons, and the state of a dataset."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access.callers import Caller, Permission
from tracelake.control.dags import permissions
from tracelake.control.database.pages import next_token
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.explain import store
from tracelake.control.explain.reasons import BehindAbove, Known, reasons
from tracelake.control.explain.runs import run_detail
from tracelake.control.explain.store import BehindRow, InputNow, ListedDataset, ListedVersion, PartRow, Searched
from tracelake.control.registry import reading
from tracelake.control.registry import store as registry
from tracelake.control.versions.scope_mapping import cut_alike
from tracelake.control.versions.spans import scope_of
from tracelake.storage.paths import table_location
from tracelake_sdk.dags import Layer, PartitionSpec
from tracelake_sdk.datasets import Column, Dataset, Explanation, PinnedVersion, Snapshot, Version, VersionPart
from tracelake_sdk.errors import NotFound
from tracelake_sdk.pages import Page
from tracelake_sdk.tasks.runs import RunDetail

_EXAMINED = 10_000  # scopes of a table, the oldest first, that may be behind an input
_LISTED = 5         # of those that are
_LOOKED_AT = 50     # upstream datasets, the nearest first


@dataclass(frozen=True)
class Explaining:
    database: Database
    uri: Callable[[str], str]  # of a path in the lake

    def datasets(
        self,
        caller: Caller,
        *,
        after: UUID | None = None,
        limit: int = 50,
        search: str | None = None,
        layer: Layer | None = None,
        domain: str | None = None,
        owner: str | None = None,
        dag: str | None = None,
    ) -> Page[Dataset]:
        """Datasets that the caller may see; every word of `search` occurs in the name, description, columns, producer, …"""
        caller.require(Permission.READ)
        searched = Searched(search.split() if search and search.strip() else None, layer.value if layer else None, domain, owner, dag)
        with self.database.transaction("datasets") as tx:
            rows = store.datasets(tx, org=caller.org_id, ids=reading.all_visible(tx, caller), after=after, limit=limit + 1, searched=searched)
            items = self._datasets(tx, caller, rows[:limit])
        return Page(items=items, next=next_token(rows, limit, lambda row: row.id))

    def dataset(self, caller: Caller, name: str) -> Dataset:
        """By its name or its uuid."""
        caller.require(Permission.READ)
        with self.database.transaction("dataset") as tx:
            return self._datasets(tx, caller, [_find(tx, caller, name)])[0]

    def versions(self, caller: Caller, name: str, *, before: int | None, limit: int) -> Page[Version]:
        caller.require(Permission.READ)
        with self.database.transaction("versions") as tx:
            dataset = _find(tx, caller, name)
            rows = store.versions(tx, org=caller.org_id, dataset=dataset.id, before=before, version=None, limit=limit + 1)
            found = _versions(tx, caller, dataset.id, rows[:limit])
        return Page(items=found, next=next_token(rows, limit, lambda row: row.version))

    def version(self, caller: Caller, name: str, number: int) -> Version:
        caller.require(Permission.READ)
        with self.database.transaction("version") as tx:
            dataset = _find(tx, caller, name)
            rows = store.versions(tx, org=caller.org_id, dataset=dataset.id, before=None, version=number, limit=1)
            if not rows:
                newest = f"; its newest is {dataset.version}" if dataset.version else "; it has none yet"
                raise NotFound(f"The dataset {name} has no version {number}{newest}.")
            return _versions(tx, caller, dataset.id, rows)[0]

    def run(self, caller: Caller, run_id: str) -> RunDetail:
        """One run in full."""
        return run_detail(self.database, caller, run_id)

    def explain(self, caller: Caller, name: str) -> Explanation:
        caller.require(Permission.READ)
        with self.database.transaction("explain") as tx:
            row = _find(tx, caller, name)
            table = row.dataset_version_id
            last = store.parts(tx, dataset=row.id, versions=[row.version]) if row.version else []
            read = _pins(tx, last[-1:])[last[-1].run_id] if last else []
            inputs = store.inputs_now(tx, table) if table else []
            behind = {input.dataset_id: _behind(tx, table, input) for input in inputs} if table and row.version else {}
            still = store.standing_still(tx, table) if table else []
            named = {pin.dataset_uuid for pin in read} | {input.dataset_id for input in inputs} | {above.dataset_id for above in still}
            seen = reading.visible(tx, caller, named)
            known = Known(
                dataset=row,
                line=store.line(tx, table) if table else None,
                work=store.work(tx, table) if table else [],
                candidate=store.newest_candidate(tx, row.id),
                run=store.newest_run(tx, row.id),
                inputs=[input for input in inputs if input.dataset_id in seen],
                behind=behind,
                still=[above for above in still if above.dataset_id in seen],
                last=last[-1] if last else None,
                read=[pin for pin in read if pin.dataset_uuid in seen],
                above=_behind_above(tx, caller, [input for input in inputs if input.dataset_id in seen]),
            )
            return Explanation(dataset=self._datasets(tx, caller, [row])[0], reasons=reasons(known))

    def _datasets(self, tx: Transaction, caller: Caller, rows: list[ListedDataset]) -> list[Dataset]:
        pinned: dict[UUID, list[Snapshot]] = defaultdict(list)
        for row in registry.snapshots(tx, org=caller.org_id, datasets=[row.id for row in rows]):
            snapshot = Snapshot(name=row.name, dataset_uuid=row.dataset_id, dataset=row.dataset, version=row.version, actor=row.actor, at=row.at)
            pinned[row.dataset_id].append(snapshot)
        # Only callers who may deploy the DAG see where files are: others read the table by queries.
        makes = permissions.deployable(tx, caller, {row.dag_id for row in rows})
        return [_dataset(row, pinned[row.id], self._location(caller, row) if row.dag_id in makes else None) for row in rows]

    def _location(self, caller: Caller, row: ListedDataset) -> str | None:
        if row.dataset_version_id is None or not row.has_files:
            return None
        return self.uri(table_location(caller.org_id, row.id, row.dataset_version_id))


def _behind(tx: Transaction, table: UUID, input: InputNow) -> list[BehindRow]:
    """The first scopes that are older than the current version of this input."""
    if input.version is None:
        return []
    reads, writes = (PartitionSpec.model_validate(cut) if cut else None for cut in (input.partition_by, input.output_partition_by))
    alike = cut_alike(reads, writes, trigger=input.trigger)
    return store.scopes_behind(tx, dataset_version=table, input=input, cut_alike=alike, examined=_EXAMINED, listed=_LISTED)


def _behind_above(tx: Transaction, caller: Caller, inputs: list[InputNow]) -> list[BehindAbove]:
    """Which upstream datasets, at any distance, are themselves behind an input; as far as the caller may see them."""
    found: list[BehindAbove] = []
    nearest, waiting, looked_at = {input.dataset_id for input in inputs}, list(inputs), set[UUID]()
    while waiting and len(looked_at) < _LOOKED_AT:
        made = waiting.pop(0)
        if made.dataset_version_id is None or made.version is None or made.dataset_id in looked_at:
            continue
        looked_at.add(made.dataset_id)
        read = store.inputs_now(tx, made.dataset_version_id)
        seen = reading.visible(tx, caller, {input.dataset_id for input in read})
        for input in read:
            if input.dataset_id not in seen:
                continue
            waiting.append(input)
            if _behind(tx, made.dataset_version_id, input):
                found.append(BehindAbove(_name(made), made.dataset_id in nearest, _name(input)))
    return found


def _name(input: InputNow) -> str:
    return input.name or str(input.dataset_id)


def _find(tx: Transaction, caller: Caller, name: str) -> ListedDataset:
    return store.datasets(tx, org=caller.org_id, ids=[reading.find(tx, caller, name)], limit=1)[0]


def _dataset(row: ListedDataset, snapshots: list[Snapshot], location: str | None) -> Dataset:
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
        snapshots=snapshots,
        location=location,
    )


def _type(type: object) -> str:
    """Delta's type name; nested types with their parts."""
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


def _versions(tx: Transaction, caller: Caller, dataset: UUID, rows: list[ListedVersion]) -> list[Version]:
    parts = store.parts(tx, dataset=dataset, versions=[row.version for row in rows])
    pins = _pins(tx, parts)
    seen = reading.visible(tx, caller, {pin.dataset_uuid for read in pins.values() for pin in read})
    reads_rows = dataset in reading.readable(tx, caller, [dataset])
    return [
        Version(
            version=row.version,
            snapshot_ref=row.snapshot_ref,
            delta_version=row.delta_version,
            schema_hash=row.schema_hash,
            row_count=row.row_count,
            promoted_at=row.promoted_at,
            promoted_by=row.promoted_by,
            parts=[_part(part, pins[part.run_id], seen, reads_rows=reads_rows) for part in parts if part.version == row.version],
        )
        for row in rows
    ]


def _part(part: PartRow, inputs: list[PinnedVersion], seen: set[UUID], *, reads_rows: bool) -> VersionPart:
    """Without inputs that the caller may not see; notes of an operator may contain row values and need read permission."""
    visible = [pin for pin in inputs if pin.dataset_uuid in seen]
    return VersionPart(
        run_id=part.run_id,
        task_id=part.task_id,
        attempt=part.attempt,
        job=f"{part.dag}/{part.job}",
        dag_version=part.dag_version,
        scopes=[scope_of(scope) for scope in part.scopes],
        promotion_id=part.promotion_id,
        reason=part.reason,
        inputs=visible,
        hidden_inputs=len(inputs) - len(visible),
        custom=part.custom if reads_rows else {},
    )


def _pins(tx: Transaction, parts: list[PartRow]) -> dict[str, list[PinnedVersion]]:
    """By run."""
    found: dict[str, list[PinnedVersion]] = defaultdict(list)
    runs = {(part.task_id, part.attempt): part.run_id for part in parts}
    for row in store.inputs_of_parts(tx, parts) if parts else []:
        found[runs[row.task_id, row.attempt]].append(PinnedVersion(index=row.index, dataset_uuid=row.dataset_id, name=row.name, version=row.version))
    return found
