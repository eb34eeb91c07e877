"""Storing and reading records, one transaction per use case. The SDK defines what records mean."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import merge
from uuid import UUID

from tracelake.control.cold.reading import ColdRecords, ColdRow
from tracelake.control.database import epochs
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.records import store
from tracelake.control.records.catalogs import KindCache, TenantKinds
from tracelake.control.records.copy_lines import LatestEntry, target_key
from tracelake.control.records.partitions import Partitions
from tracelake.control.records.searches import START, Search, Visibility, page_after, place_of
from tracelake.control.records.store import LoggedRow, RecordRow
from tracelake.control.records.validation import AcceptedRecord, RecordValidation
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import OffsetUnknown, RecordConflict
from tracelake_sdk.records import (
    Aggregate,
    Aggregation,
    MetadataContext,
    MetadataRecord,
    MetadataTarget,
    RecordFilters,
    RecordPage,
    StoredRecord,
    StoreResult,
    TailPage,
    Window,
)
from tracelake_sdk.records.ids import RecordIds
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.kinds.governance import admit, upcast
from tracelake_sdk.records.matching import aggregate, in_window, matches, newest_first
from tracelake_sdk.records.repository.admission import RecordAdmission, same_tenant

_MOST_AT_ONCE = 2_000  # rows per query

FindVisibility = Callable[[Transaction], Visibility]
Refusing = Callable[[MetadataRecord], None]


def sees_all(tx: Transaction) -> Visibility:
    """For code that acts as the tenant."""
    return Visibility()


def _now() -> datetime:
    return datetime.now(UTC)


def _ignore(org: UUID) -> None:
    """Nothing waits for new records."""


def refuses_nothing(record: MetadataRecord) -> None:
    """Accepts every record that its kind admits."""


@dataclass(frozen=True)
class Tenant:
    org: UUID
    name: str


@dataclass
class Records:
    """The records and kinds of every tenant; `on_stored` is called with the org of each write."""

    database: Database
    on_stored: Callable[[UUID], None] = _ignore
    now: Callable[[], datetime] = _now
    catalogs: KindCache = field(default_factory=KindCache)
    cold: ColdRecords = field(default_factory=ColdRecords)

    def __post_init__(self) -> None:
        self._partitions: Partitions = Partitions(self.database)
        self._validation: RecordValidation = RecordValidation(RecordAdmission(self.now), RecordIds())

    # Kinds
    def kinds(self, tenant: Tenant) -> list[Kind]:
        return self._catalog(tenant).newest()

    def kind(self, tenant: Tenant, name: str, version: int | None = None) -> Kind:
        return self._catalog(tenant).kind(name, version)

    def register(self, tenant: Tenant, kind: Kind, *, actor: str, check_only: bool = False) -> Kind:
        with self.database.transaction("register_kind", role=DatabaseRole.DEFINE) as tx:
            store.lock_kind(tx, org=tenant.org, name=kind.name)
            versions = self.catalogs.of(tx, tenant.org).of(kind.name)
            admitted = admit(kind, versions)
            if not check_only and admitted not in versions:
                store.add_kind(
                    tx, org=tenant.org, name=admitted.name, version=admitted.version, definition=admitted.model_dump_json(by_alias=True), actor=actor
                )
        return admitted

    # Storing
    def store(self, tenant: Tenant, record: MetadataRecord, context: MetadataContext, *, refusing: Refusing = refuses_nothing) -> StoreResult:
        """Stores a record once; raises the reason of a refusal."""
        [result] = self.bulk_store(tenant, [record], context, refusing=refusing)
        if result.problem is not None:
            raise TracelakeError.of(result.problem)
        return result

    def bulk_store(
        self, tenant: Tenant, records: Sequence[MetadataRecord], context: MetadataContext, *, refusing: Refusing = refuses_nothing
    ) -> list[StoreResult]:
        """One result per record; accepted records become durable together."""
        same_tenant(context, tenant.name)
        results, good = self._validation.validate(tenant.org, self._catalog(tenant), records, context, refusing, at=self.now())
        return self._kept(tenant, results, good)

    def store_each(self, tenant: Tenant, items: Sequence[tuple[MetadataRecord, MetadataContext]]) -> list[StoreResult]:
        """As `bulk_store`, with one context per record."""
        catalog, at = self._catalog(tenant), self.now()
        results: list[StoreResult] = []
        good: list[AcceptedRecord] = []
        for record, context in items:
            same_tenant(context, tenant.name)
            [result], mine = self._validation.validate(tenant.org, catalog, [record], context, refuses_nothing, at=at)
            good += [accepted._replace(position=len(results)) for accepted in mine]
            results.append(result)
        return self._kept(tenant, results, good)

    def _kept(self, tenant: Tenant, results: list[StoreResult], good: list[AcceptedRecord]) -> list[StoreResult]:
        if not good:
            return results
        for retention_class in {accepted.identity.retention_class for accepted in good}:
            self._partitions.ensure(retention_class, good[0].identity.id, good[-1].identity.id)
        stored = self._keep_one(good[0], results) if len(good) == 1 else self._keep(tenant, good, results)
        if stored:
            self.on_stored(tenant.org)
        return results

    def _keep_one(self, accepted: AcceptedRecord, results: list[StoreResult]) -> int:
        with self.database.at_once("store_records") as tx:
            stored = store.store_one(tx, identity=accepted.identity, line=accepted.line, target=accepted.record.target.model_dump_json())
            kept = (accepted.identity.content, accepted.identity.id) if stored else store.identities(tx, [accepted.identity.key])[accepted.identity.key]
        results[accepted.position] = _result(accepted, *kept)
        return int(stored)

    def _keep(self, tenant: Tenant, good: list[AcceptedRecord], results: list[StoreResult]) -> int:
        first: dict[bytes, AcceptedRecord] = {}
        for accepted in good:
            first.setdefault(accepted.identity.key, accepted)
        with self.database.transaction("store_records", copies=True) as tx:
            taken_before = store.take_identities(tx, [first[identity].identity for identity in sorted(first)])
            known = store.identities(tx, taken_before) if taken_before else {}
            new = [accepted for identity, accepted in first.items() if identity not in known]
            if new:
                store.copy_records(tx, [accepted.line for accepted in new])
                store.set_latest(tx, org=tenant.org, newest=_newest(new))
        for accepted in good:
            kept = first[accepted.identity.key].identity
            content, id = known.get(kept.key, (kept.content, kept.id))
            results[accepted.position] = _result(accepted, content, id)
        return len(new)

    # Reading
    def latest(self, tenant: Tenant, target: MetadataTarget, kind: str, *, visibility_of: FindVisibility = sees_all) -> StoredRecord | None:
        key = target_key(target.key)
        with self.database.looking() as tx:
            row = store.latest(tx, org=tenant.org, kind=kind, target_key=key, visibility=visibility_of(tx))
            if row is not None:
                return _in_version(_stored(row), self.catalogs.of(tx, tenant.org, number=row.kinds), None)
        # The newest may be hidden while an older one is visible, or it has left Postgres, or the kind is unknown.
        with self.database.transaction("latest_record") as tx:
            catalog = self.catalogs.of(tx, tenant.org)
            catalog.kind(kind)
            return next(self._of_target(tx, tenant, target, kind, catalog, visibility_of(tx), 1), None)

    def history(
        self, tenant: Tenant, target: MetadataTarget, kind: str, limit: int = 100, window: Window | None = None, *, visibility_of: FindVisibility = sees_all
    ) -> RecordPage:
        with self.database.transaction("record_history") as tx:
            catalog = self.catalogs.of(tx, tenant.org)
            catalog.kind(kind)
            found = self._of_target(tx, tenant, target, kind, catalog, visibility_of(tx), limit + 1)
            page = _page((stored for stored in found if window is None or in_window(stored, window)), limit)
            return page.model_copy(update={"dropped": self.cold.dropped(tx, tenant.org, RecordFilters(kinds=[kind]))})

    def query(self, tenant: Tenant, filters: RecordFilters, *, visibility_of: FindVisibility = sees_all) -> RecordPage:
        with self.database.transaction("query_records") as tx:
            page = _page(self._chosen(tx, tenant, filters, visibility_of(tx), filters.limit + 1), filters.limit)
            return page.model_copy(update={"dropped": self.cold.dropped(tx, tenant.org, filters)})

    def aggregate(self, tenant: Tenant, filters: RecordFilters, aggregation: Aggregation, *, visibility_of: FindVisibility = sees_all) -> list[Aggregate]:
        whole = filters.model_copy(update={"page": None})
        with self.database.transaction("aggregate_records") as tx:
            return aggregate(self._chosen(tx, tenant, whole, visibility_of(tx), _MOST_AT_ONCE), aggregation)

    def targets(self, tenant: Tenant, kind: str | None = None, *, visibility_of: FindVisibility = sees_all) -> list[MetadataTarget]:
        with self.database.transaction("record_targets") as tx:
            visibility = visibility_of(tx)
            found_here = store.targets(tx, org=tenant.org, kind=kind, visibility=visibility)
            # The newest record of a target is enough, wherever it is stored; only callers who may not see it need older ones.
            older = [] if visibility.all else [row.record for row in self._cold(tx, tenant, RecordFilters(kinds=[kind] if kind else []), visibility, START)]
        found = {target.key: target for target in (MetadataRecord.model_validate_json(record).target for record in reversed(older))}
        found |= {target.key: target for target in map(MetadataTarget.model_validate_json, found_here)}
        return [target for _, target in sorted(found.items())]

    def tail(
        self, tenant: Tenant, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000, visibility_of: FindVisibility = sees_all
    ) -> TailPage:
        with self.database.transaction("tail_records") as tx:
            clusters = epochs.clusters(tx)
            after = epochs.position_of(offset, clusters)
            catalog = self.catalogs.of(tx, tenant.org)
            [end] = store.tail_ends(tx, [tenant.org])
            if int(after[0]) >= int(end.unbegun):
                raise OffsetUnknown
            ends = [(end.xid, end.seq) if end.xid is not None and end.seq is not None else after, self.cold.log_end(tx, tenant.org) or after, after]
            last = max(ends, key=_in_log)
            if last == after:
                return TailPage(items=[], offset=epochs.offset_of(after, clusters))
            visibility = visibility_of(tx)
            rows = store.tail(tx, org=tenant.org, after=after, last=last, kinds=list(kinds), limit=limit, visibility=visibility)
            cold = self.cold.logged(tx, tenant.org, after=after, last=last, kinds=list(kinds), limit=limit, seen=_seen(visibility))
            rows = sorted([*rows, *map(_logged, cold)], key=lambda row: _in_log((row.xid, row.seq)))[:limit]
        whole = len(rows) == limit
        end_of_page = (rows[-1].xid, rows[-1].seq) if whole else last
        return TailPage(items=[_in_version(_stored(row), catalog, None) for row in rows], offset=epochs.offset_of(end_of_page, clusters))

    def _catalog(self, tenant: Tenant) -> TenantKinds:
        with self.database.looking() as tx:
            return self.catalogs.of(tx, tenant.org)

    def _chosen(self, tx: Transaction, tenant: Tenant, filters: RecordFilters, visibility: Visibility, at_once: int) -> Iterator[StoredRecord]:
        """Newest first."""
        catalog = self.catalogs.of(tx, tenant.org)
        search = Search.of(filters, catalog.versions)

        def rows(before: tuple[datetime | str, UUID], number: int) -> list[RecordRow]:
            if filters.run_id is not None:
                return store.of_run(tx, org=tenant.org, run_id=filters.run_id, before=before, limit=number, visibility=visibility)
            return store.candidates(tx, org=tenant.org, search=search, before=before, limit=number, visibility=visibility)

        def read(row: RecordRow) -> StoredRecord:
            return _in_version(_stored(row), catalog, filters.kind_version)

        place = place_of(filters.page)
        return (stored for stored in self._both(tx, tenant, rows, filters, visibility, place, at_once, read) if matches(stored, filters))

    def _of_target(
        self, tx: Transaction, tenant: Tenant, target: MetadataTarget, kind: str, catalog: TenantKinds, visibility: Visibility, at_once: int
    ) -> Iterator[StoredRecord]:
        """Newest first."""
        key = target_key(target.key)
        filters = RecordFilters(kinds=[kind], source_id=target.source_id, schema=target.schema_name, table=target.table)

        def rows(before: tuple[datetime | str, UUID], number: int) -> list[RecordRow]:
            return store.of_target(tx, org=tenant.org, kind=kind, target_key=key, before=before, limit=number, visibility=visibility)

        return self._both(tx, tenant, rows, filters, visibility, START, at_once, lambda row: _in_version(_stored(row), catalog, None))

    def _both(
        self,
        tx: Transaction,
        tenant: Tenant,
        rows: Callable[[tuple[datetime | str, UUID], int], list[RecordRow]],
        filters: RecordFilters,
        visibility: Visibility,
        place: tuple[datetime | str, UUID],
        at_once: int,
        read: Callable[[RecordRow], StoredRecord],
    ) -> Iterator[StoredRecord]:
        """Hot and cold records together. Postgres is read first: rows read there cannot leave before the files are chosen."""
        hot = _walk(rows, place, at_once, read)
        cold = (read(row) for row in self._cold(tx, tenant, filters, visibility, place))
        return merge(hot, cold, key=newest_first, reverse=True)

    def _cold(
        self, tx: Transaction, tenant: Tenant, filters: RecordFilters, visibility: Visibility, place: tuple[datetime | str, UUID]
    ) -> Iterator[RecordRow]:
        return (RecordRow(row.id, row.kind_version, row.stored_at, row.record, row.context)
                for row in self.cold.newest_first(tx, tenant.org, filters, _seen(visibility), place))  # fmt: skip


def _walk(
    rows: Callable[[tuple[datetime | str, UUID], int], list[RecordRow]],
    place: tuple[datetime | str, UUID],
    at_once: int,
    read: Callable[[RecordRow], StoredRecord],
) -> Iterator[StoredRecord]:
    """Rows one by one, fetched in batches, for as long as the caller iterates."""
    number = min(at_once, _MOST_AT_ONCE)
    while found := rows(place, number):
        stored: StoredRecord | None = None
        for row in found:
            stored = read(row)
            yield stored
        if stored is None or len(found) < number:
            return
        place, number = newest_first(stored), _MOST_AT_ONCE


def _page(found: Iterator[StoredRecord], limit: int) -> RecordPage:
    items: list[StoredRecord] = []
    for stored in found:
        if len(items) == limit:
            return RecordPage(items=items, next=page_after(items[-1]))
        items.append(stored)
    return RecordPage(items=items)


def _newest(new: list[AcceptedRecord]) -> list[LatestEntry]:
    """One per kind and target, in lock order."""
    newest: dict[tuple[str, tuple[str, str, str]], AcceptedRecord] = {}
    for accepted in new:
        key = accepted.record.kind, accepted.record.target.key
        known = newest.setdefault(key, accepted)
        if (known.record.produced_at, known.identity.id) < (accepted.record.produced_at, accepted.identity.id):
            newest[key] = accepted
    rows = [
        LatestEntry(
            kind, target_key(target), one.record.produced_at, one.identity.id, one.identity.retention_class, one.record.target.model_dump_json(),
            one.dataset_ids,
        )
        for (kind, target), one in newest.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda one: (one.kind, one.target_key))


def _result(accepted: AcceptedRecord, content: bytes, id: UUID) -> StoreResult:
    if id == accepted.identity.id:
        return StoreResult(result="stored", id=id)
    if content == accepted.identity.content:
        return StoreResult(result="same", id=id)
    return StoreResult(result="conflict", id=id, problem=RecordConflict(stored_id=str(id)).problem())


def _stored(row: RecordRow) -> StoredRecord:
    return StoredRecord.model_construct(
        id=row.id,
        record=MetadataRecord.model_validate_json(row.record),
        context=MetadataContext.model_validate_json(row.context),
        stored_at=row.stored_at.astimezone(UTC),
        kind_version=row.kind_version,
    )


def _seen(visibility: Visibility) -> frozenset[str] | None:
    return None if visibility.datasets is None else frozenset(map(str, visibility.datasets))


def _in_log(place: tuple[str, int]) -> tuple[int, int]:
    return int(place[0]), place[1]


def _logged(row: ColdRow) -> LoggedRow:
    return LoggedRow(row.id, row.kind_version, row.stored_at, row.record, row.context, row.xid, row.seq)


def _in_version(stored: StoredRecord, catalog: TenantKinds, version: int | None) -> StoredRecord:
    return upcast(stored, catalog.of(stored.record.kind), version)
