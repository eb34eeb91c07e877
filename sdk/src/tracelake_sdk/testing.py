"""Test doubles: a repository in memory with the same behaviour as every other."""

import threading
from bisect import insort
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import KindUnknown, OffsetUnknown, RecordConflict
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
from tracelake_sdk.records.identity import canonical, content_hash, identity_of
from tracelake_sdk.records.ids import RecordIds
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.kinds.builtin import builtin_kinds
from tracelake_sdk.records.kinds.governance import admit, upcast
from tracelake_sdk.records.matching import aggregate, matches, newest_first
from tracelake_sdk.records.repository.admission import RecordAdmission, same_tenant, small_enough


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryRepository:
    """A MetadataRepository of one tenant in the memory of this process."""

    def __init__(self, tenant: str = "main", *, now: Callable[[], datetime] = _now) -> None:
        self.tenant: str = tenant
        self._now: Callable[[], datetime] = now
        self._admission: RecordAdmission = RecordAdmission(now)
        self._ids: RecordIds = RecordIds()
        self._kinds: dict[str, list[Kind]] = {kind.name: [kind] for kind in builtin_kinds()}
        self._lock: threading.Lock = threading.Lock()
        self._identities: dict[str, tuple[str, UUID]] = {}
        self._log: list[StoredRecord] = []
        self._newest_last: list[StoredRecord] = []

    # Kinds
    def kinds(self) -> list[Kind]:
        return [versions[-1] for _, versions in sorted(self._kinds.items())]

    def kind(self, name: str, version: int | None = None) -> Kind:
        versions = self._kinds.get(name, [])
        if not versions or not 1 <= (version or 1) <= len(versions):
            raise KindUnknown(f"No kind {name}{f' version {version}' if version else ''} is registered; see `tracelake kind list`.")
        return versions[(version or len(versions)) - 1]

    def register(self, kind: Kind, *, check_only: bool = False) -> Kind:
        admitted = admit(kind, self._kinds.get(kind.name, []))
        if not check_only and admitted not in self._kinds.get(kind.name, []):
            self._kinds.setdefault(kind.name, []).append(admitted)
        return admitted

    # Records
    def store(self, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        same_tenant(context, self.tenant)
        kind = self.kind(record.kind, record.version)
        self._admission.judge(record, kind)
        small_enough(canonical(record.model_dump(mode="json")))
        identity, content = identity_of(record, context, kind), content_hash(record, context)
        with self._lock:
            if (same := self._identities.get(identity)) is not None:
                if same[0] != content:
                    raise RecordConflict(stored_id=str(same[1]))
                return StoreResult(result="same", id=same[1])
            stored = StoredRecord(id=self._ids.new(), record=record, context=context, stored_at=self._now(), kind_version=kind.version)
            self._identities[identity] = (content, stored.id)
            self._log.append(stored)
            insort(self._newest_last, stored, key=newest_first)
        return StoreResult(result="stored", id=stored.id)

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        same_tenant(context, self.tenant)
        return [self._outcome(record, context) for record in records]

    def latest(self, target: MetadataTarget, kind: str, context: MetadataContext) -> StoredRecord | None:
        return next(iter(self.history(target, kind, context, limit=1)), None)

    def history(self, target: MetadataTarget, kind: str, context: MetadataContext, limit: int = 100, window: Window | None = None) -> RecordPage:
        self.kind(kind)
        filters = RecordFilters(kinds=[kind], source_id=target.source_id, schema=target.schema_name, table=target.table, limit=limit, window=window)
        return self.query(filters, context)

    def query(self, filters: RecordFilters, context: MetadataContext) -> RecordPage:
        found = self._chosen(filters, context)
        if filters.page is not None:
            found = [stored for stored in found if newest_first(stored) < self._place(filters.page)]
        page = found[: filters.limit]
        return RecordPage(
            items=[self._in_version(stored, filters.kind_version) for stored in page],
            next=str(page[-1].id) if len(found) > len(page) else None,
        )

    def aggregate(self, filters: RecordFilters, aggregation: Aggregation, context: MetadataContext) -> list[Aggregate]:
        return aggregate([self._in_version(stored, filters.kind_version) for stored in self._chosen(filters, context)], aggregation)

    def targets(self, context: MetadataContext, kind: str | None = None) -> list[MetadataTarget]:
        same_tenant(context, self.tenant)
        found = {stored.record.target.key: stored.record.target for stored in self._log if kind in (None, stored.record.kind)}
        return [target for _, target in sorted(found.items())]

    def tail(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> TailPage:
        same_tenant(context, self.tenant)
        log = list(self._log)  # a consistent copy: other threads keep writing
        start = _offset(offset, len(log))
        found = [(position, stored) for position, stored in enumerate(log[start:], start + 1) if not kinds or stored.record.kind in kinds]
        page = found[:limit]
        end = page[-1][0] if len(found) > limit else len(log)
        return TailPage(items=[self._in_version(stored, None) for _, stored in page], offset=str(end))

    def close(self) -> None:
        """Nothing to close."""

    def _chosen(self, filters: RecordFilters, context: MetadataContext) -> list[StoredRecord]:
        same_tenant(context, self.tenant)
        return [stored for stored in reversed(self._newest_last) if matches(self._in_version(stored, filters.kind_version), filters)]

    def _outcome(self, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        try:
            return self.store(record, context)
        except RecordConflict as conflict:
            return StoreResult(result="conflict", id=UUID(conflict.extra["stored_id"]), problem=conflict.problem())
        except TracelakeError as error:
            return StoreResult(result="refused", problem=error.problem())

    def _in_version(self, stored: StoredRecord, version: int | None) -> StoredRecord:
        return upcast(stored, self._kinds[stored.record.kind], version)

    def _place(self, page: str) -> tuple[datetime, UUID]:
        for stored in self._log:
            if str(stored.id) == page:
                return newest_first(stored)
        raise OffsetUnknown


def _offset(offset: str | None, most: int) -> int:
    if offset is None:
        return 0
    if not offset.isascii() or not offset.isdigit() or int(offset) > most:
        raise OffsetUnknown
    return int(offset)
