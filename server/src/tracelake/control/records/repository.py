"""The records of one tenant as a MetadataRepository, for code in this process that acts as the tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracelake.control.records.service import Records, Tenant
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
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.admission import same_tenant


@dataclass(frozen=True)
class TenantRepository:
    """A MetadataRepository on Postgres; it sees every record of its tenant."""

    records: Records
    tenant: Tenant
    actor: str = "platform"

    def kinds(self) -> list[Kind]:
        return self.records.kinds(self.tenant)

    def kind(self, name: str, version: int | None = None) -> Kind:
        return self.records.kind(self.tenant, name, version)

    def register(self, kind: Kind, *, check_only: bool = False) -> Kind:
        return self.records.register(self.tenant, kind, actor=self.actor, check_only=check_only)

    def store(self, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        return self.records.store(self.tenant, record, context)

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        return self.records.bulk_store(self.tenant, records, context)

    def store_each(self, items: Sequence[tuple[MetadataRecord, MetadataContext]]) -> list[StoreResult]:
        """As `bulk_store`, with one context per record."""
        return self.records.store_each(self.tenant, items)

    def latest(self, target: MetadataTarget, kind: str, context: MetadataContext) -> StoredRecord | None:
        same_tenant(context, self.tenant.name)
        return self.records.latest(self.tenant, target, kind)

    def history(self, target: MetadataTarget, kind: str, context: MetadataContext, limit: int = 100, window: Window | None = None) -> RecordPage:
        same_tenant(context, self.tenant.name)
        return self.records.history(self.tenant, target, kind, limit, window)

    def query(self, filters: RecordFilters, context: MetadataContext) -> RecordPage:
        same_tenant(context, self.tenant.name)
        return self.records.query(self.tenant, filters)

    def aggregate(self, filters: RecordFilters, aggregation: Aggregation, context: MetadataContext) -> list[Aggregate]:
        same_tenant(context, self.tenant.name)
        return self.records.aggregate(self.tenant, filters, aggregation)

    def targets(self, context: MetadataContext, kind: str | None = None) -> list[MetadataTarget]:
        same_tenant(context, self.tenant.name)
        return self.records.targets(self.tenant, kind)

    def tail(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> TailPage:
        same_tenant(context, self.tenant.name)
        return self.records.tail(self.tenant, offset, kinds=kinds, limit=limit)

    def close(self) -> None:
        """Does not close the database: the process does."""
