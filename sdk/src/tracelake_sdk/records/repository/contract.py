"""The interface of every metadata repository. It is synchronous, and each call ends with stored, same, or an error."""

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
        """Registers the first or the next version; an identical one changes nothing. Raises KindInvalid, KindIncompatible or KindConflict."""
        ...


class MetadataRepository(KindCatalog, Protocol):
    """Records of one tenant, appended and never changed. Reads return payloads in the newest version of each kind."""

    def store(self, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        """Returns `stored` or `same`; raises KindUnknown, RecordRefused, ClockAhead, RecordConflict or TenantMismatch."""
        ...

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        """One result per record, in order; a refused record does not affect the others."""
        ...

    def latest(self, target: MetadataTarget, kind: str, context: MetadataContext) -> StoredRecord | None:
        """The record with the greatest `produced_at`, whenever it was stored; on a tie, the greatest id."""
        ...

    def history(
        self, target: MetadataTarget, kind: str, context: MetadataContext, limit: int = 100, window: Window | None = None
    ) -> RecordPage:
        """Newest first."""
        ...

    def query(self, filters: RecordFilters, context: MetadataContext) -> RecordPage: ...

    def aggregate(self, filters: RecordFilters, aggregation: Aggregation, context: MetadataContext) -> list[Aggregate]:
        """Over all records that match the filters, ignoring their limit; groups in the order of their canonical JSON."""
        ...

    def targets(self, context: MetadataContext, kind: str | None = None) -> list[MetadataTarget]:
        """The targets that have records, in order of source, schema and table."""
        ...

    def tail(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> TailPage:
        """The records accepted after an offset, each once; without an offset, from the beginning."""
        ...

    def close(self) -> None: ...
