"""Records for callers: checks permissions and tenant, and hides records about datasets that the caller may not read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database.transactions import Transaction
from tracelake.control.records.copy_lines import LAKE
from tracelake.control.records.searches import Visibility
from tracelake.control.records.service import FindVisibility, Records, Refusing, Tenant, sees_all
from tracelake_sdk.errors.records import RecordRefused, RecordsElsewhere, TenantMismatch
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
from tracelake_sdk.records.repository.admission import SYSTEM


class DatasetVisibility(Protocol):
    """Which datasets a caller may see; the standalone records service has none."""

    def of(self, tx: Transaction, caller: Caller) -> Visibility: ...

    def dataset(self, tx: Transaction, caller: Caller, name: str) -> UUID | None: ...


@dataclass(frozen=True)
class AuthorizedRecords:
    """Every use case of records for callers. `elsewhere`: the external repository of this system, if the settings name one."""

    records: Records
    datasets: DatasetVisibility | None = None
    elsewhere: str | None = None

    # Kinds
    def kinds(self, caller: Caller, *, tenant: str | None = None) -> list[Kind]:
        return self.records.kinds(self._reader(caller, tenant))

    def kind(self, caller: Caller, name: str, version: int | None = None, *, tenant: str | None = None) -> Kind:
        return self.records.kind(self._reader(caller, tenant), name, version)

    def register(self, caller: Caller, kind: Kind, *, check_only: bool = False, tenant: str | None = None) -> Kind:
        return self.records.register(self._writer(caller, tenant), kind, actor=caller.name, check_only=check_only)

    # Storing
    def store(self, caller: Caller, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        tenant = self._writer(caller, context.tenant)
        return self.records.store(tenant, record, context, refusing=self._refusing(caller))

    def bulk_store(self, caller: Caller, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        tenant = self._writer(caller, context.tenant)
        return self.records.bulk_store(tenant, records, context, refusing=self._refusing(caller))

    # Reading
    def latest(self, caller: Caller, target: MetadataTarget, kind: str, *, tenant: str | None = None) -> StoredRecord | None:
        of = self._reader(caller, tenant)
        return self.records.latest(of, self._with_dataset_uuid(caller, target), kind, visibility_of=self._visibility_of(caller))

    def history(
        self, caller: Caller, target: MetadataTarget, kind: str, limit: int = 100, window: Window | None = None, *, tenant: str | None = None
    ) -> RecordPage:
        of = self._reader(caller, tenant)
        return self.records.history(of, self._with_dataset_uuid(caller, target), kind, limit, window, visibility_of=self._visibility_of(caller))

    def query(self, caller: Caller, filters: RecordFilters, *, tenant: str | None = None) -> RecordPage:
        of = self._reader(caller, tenant)
        return self.records.query(of, self._with_dataset_uuid_in(caller, filters), visibility_of=self._visibility_of(caller))

    def aggregate(self, caller: Caller, filters: RecordFilters, aggregation: Aggregation, *, tenant: str | None = None) -> list[Aggregate]:
        of = self._reader(caller, tenant)
        return self.records.aggregate(of, self._with_dataset_uuid_in(caller, filters), aggregation, visibility_of=self._visibility_of(caller))

    def targets(self, caller: Caller, kind: str | None = None, *, tenant: str | None = None) -> list[MetadataTarget]:
        return self.records.targets(self._reader(caller, tenant), kind, visibility_of=self._visibility_of(caller))

    def tail(
        self, caller: Caller, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000, tenant: str | None = None
    ) -> TailPage:
        return self.records.tail(self._reader(caller, tenant), offset, kinds=kinds, limit=limit, visibility_of=self._visibility_of(caller))

    def _reader(self, caller: Caller, tenant: str | None) -> Tenant:
        return self._tenant(caller, Permission.READ_RECORDS, tenant)

    def _writer(self, caller: Caller, tenant: str | None) -> Tenant:
        return self._tenant(caller, Permission.WRITE_RECORDS, tenant)

    def _tenant(self, caller: Caller, right: Permission, tenant: str | None) -> Tenant:
        """Raises Forbidden, TenantMismatch or RecordsElsewhere."""
        caller.require(right)
        if tenant not in (None, caller.org):
            raise TenantMismatch
        if self.elsewhere is not None:
            raise RecordsElsewhere(f"This system stores its records at {self.elsewhere}; use that repository.")
        return Tenant(caller.org_id, caller.org)

    def _visibility_of(self, caller: Caller) -> FindVisibility:
        datasets = self.datasets
        return sees_all if datasets is None else lambda tx: datasets.of(tx, caller)

    def _refusing(self, caller: Caller) -> Refusing:
        wanted = [*([] if self.datasets is None else [_only_by_uuid]), *([] if caller.has(Permission.PUBLISH_RECORDS) else [_not_as_system])]

        def refuse(record: MetadataRecord) -> None:
            for each in wanted:
                each(record)

        return refuse

    def _with_dataset_uuid(self, caller: Caller, target: MetadataTarget) -> MetadataTarget:
        table = self._uuid(caller, target.source_id, target.table)
        return target if table is None else target.model_copy(update={"table": table})

    def _with_dataset_uuid_in(self, caller: Caller, filters: RecordFilters) -> RecordFilters:
        table = self._uuid(caller, filters.source_id, filters.table)
        return filters if table is None else filters.model_copy(update={"table": table})

    def _uuid(self, caller: Caller, source: str | None, table: str | None) -> str | None:
        """The uuid of the dataset of this name; None if there is none."""
        if self.datasets is None or source != LAKE or table is None or _is_uuid(table):
            return None
        with self.records.database.transaction("dataset_of_records") as tx:
            found = self.datasets.dataset(tx, caller, table)
        return None if found is None else str(found)


def _only_by_uuid(record: MetadataRecord) -> None:
    """Raises RecordRefused for a dataset that is not named by uuid: its readers could not be determined."""
    if record.target.source_id == LAKE and not _is_uuid(record.target.table):
        raise RecordRefused("A record about a dataset names it by its uuid: the target's table is the dataset's uuid when its source is `lake`.")


def _not_as_system(record: MetadataRecord) -> None:
    """Raises RecordRefused: only the system itself may store records as the system."""
    if record.producer_id.startswith(SYSTEM):
        raise RecordRefused(
            f"A producer that begins with `{SYSTEM}` is the system itself; use another name. A system that stores its records here needs a token with the scope"
            f" `{Permission.PUBLISH_RECORDS.value}`."
        )


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
