"""The repository of this system's records: its own Postgres, or the one that a setting names."""

import threading
from dataclasses import dataclass, field

import httpx2
from pydantic import SecretStr

from tracelake.control.records import store
from tracelake.control.records.repository import TenantRepository
from tracelake.control.records.service import Records, Tenant
from tracelake_sdk.errors import NotFound
from tracelake_sdk.records.repository.contract import MetadataRepository
from tracelake_sdk.records.repository.opening import open_repository


@dataclass
class RecordRepositories:
    records: Records
    url: str | None = None
    token: SecretStr | None = None
    _open: dict[str, MetadataRepository] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def elsewhere(self) -> str | None:
        """The URL without credentials."""
        return None if self.url is None else str(httpx2.URL(self.url).copy_with(userinfo=b"", query=None))

    def repository_of(self, tenant: str) -> MetadataRepository:
        """For the platform itself, which sees all records of a tenant. Raises NotFound if the org does not exist."""
        with self._lock:
            if tenant not in self._open:
                self._open[tenant] = self._opened(tenant)
            return self._open[tenant]

    def close(self) -> None:
        with self._lock:
            for repository in self._open.values():
                repository.close()
            self._open.clear()

    def _opened(self, tenant: str) -> MetadataRepository:
        if self.url is not None:
            return open_repository(self.url, token=self.token.get_secret_value() if self.token else None, tenant=tenant)
        with self.records.database.transaction("org_of_records") as tx:
            org = store.org_called(tx, tenant)
        if org is None:
            raise NotFound(f"Org {tenant!r} was not found.")
        return TenantRepository(self.records, Tenant(org, tenant))
