"""The one interface of every metadata repository. It is synchronous and honest: stored, same, or an error."""

from collections.abc import Sequence
from typing import Protocol

from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.record import (
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


class KindCatalog(Protocol):
    """The kinds of one tenant: its own, and the built-in ones."""

    def kinds(self) -> list[Kind]:
        """The newest version of each, by name."""
        ...

    def kind(self, name: str, version: int | None = None) -> Kind:
        """Raises KindUnknown."""
        ...

    def register(self, kind: Kind, *, check_only: bool = False) -> Kind:
        """The first or the next version; the same again is nothing new. Raises KindInvalid, KindIncompatible or KindConflict."""
        ...


class MetadataRepository(KindCatalog, Protocol):
    """Records of one tenant, appended and never changed. Reads answer in the newest version of each kind."""

    def store(self, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        """Stored, or the same as before; raises KindUnknown, RecordRefused, ClockAhead, RecordConflict or TenantMismatch."""
        ...

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        """One result a record, in their order; a bad one harms no other."""
        ...

    def latest(self, target: MetadataTarget, kind: str, context: MetadataContext) -> StoredRecord | None:
        """The one with the greatest `produced_at`, whenever it came; of several, the one with the greatest id."""
        ...

    def history(
        self, target: MetadataTarget, kind: str, context: MetadataContext, limit: int = 100, window: Window | None = None
    ) -> RecordPage:
        """Newest first."""
        ...

    def query(self, filters: RecordFilters, context: MetadataContext) -> RecordPage: ...

    def aggregate(self, filters: RecordFilters, aggregation: Aggregation, context: MetadataContext) -> list[Aggregate]:
        """Over all that the filters choose, whatever their limit; groups in the order of their canonical JSON."""
        ...

    def targets(self, context: MetadataContext, kind: str | None = None) -> list[MetadataTarget]:
        """What there are records about, in order of source, schema and table."""
        ...

    def tail(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> TailPage:
        """What was accepted behind an offset, each record once; without one, from the beginning."""
        ...

    def close(self) -> None: ...
