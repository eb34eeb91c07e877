"""Publishes on the bus the records that each tenant's repository accepted, one process at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from tracelake.control.bus import store
from tracelake.control.bus.postgres import PostgresOffsets
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database
from tracelake_sdk.records import MetadataContext
from tracelake_sdk.records.bus import STORED, Bus
from tracelake_sdk.records.repository.contract import MetadataRepository
from tracelake_sdk.records.subscribers import StoredRelay


@dataclass(frozen=True)
class Relay:
    """Any number of processes run one; the process that holds the lease of a tenant publishes for all."""

    database: Database
    bus: Bus
    repository_of: Callable[[str], MetadataRepository]
    context_of: Callable[[str], MetadataContext]
    lease: timedelta = timedelta(seconds=30)
    holder: UUID = field(default_factory=new_id)

    def run_once(self) -> int:
        with self.database.transaction("relay_tenants") as tx:
            tenants = store.tenants(tx)
        return sum(self._relay(tenant) for tenant in tenants)

    def _relay(self, tenant: str) -> int:
        with self.database.transaction("relay_turn") as tx:
            mine = store.hold_relay(tx, f"{STORED} {tenant}", holder=self.holder, lease=self.lease)
        if not mine:
            return 0
        return StoredRelay(self.bus, self.repository_of(tenant), self.context_of(tenant), PostgresOffsets(self.database)).run_once()
