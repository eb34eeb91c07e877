"""Datasets, their versions and the names of versions, reached as `client.datasets` and `client.snapshots`."""

from __future__ import annotations  # return types are resolved on demand, not at import

from uuid import UUID

from tracelake_sdk.client.connection import Connection, quoted
from tracelake_sdk.dags import Layer
from tracelake_sdk.datasets import Dataset, Explanation, Snapshot, Version
from tracelake_sdk.pages import Page

SnapshotList = list[Snapshot]


class Datasets:
    """Datasets and their versions."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(
        self,
        *,
        search: str | None = None,
        layer: Layer | None = None,
        domain: str | None = None,
        owner: str | None = None,
        dag: str | None = None,
        limit: int = 50,
        token: str | None = None,
    ) -> Page[Dataset]:
        """Every word of `search` must occur in the name, layer, domain, owner, description, a column or the producer; the other filters are exact."""
        query = {"search": search, "layer": layer, "domain": domain, "owner": owner, "dag": dag, "limit": limit, "token": token}
        return self._connection.get(Page[Dataset], "/v1/datasets", query)

    def get(self, name: UUID | str) -> Dataset:
        """One dataset, by its name or its uuid."""
        return self._connection.get(Dataset, f"/v1/datasets/{quoted(name)}")

    def versions(self, name: UUID | str, *, limit: int = 50, token: str | None = None) -> Page[Version]:
        """A dataset's versions with the runs that wrote them, newest first."""
        return self._connection.get(Page[Version], f"/v1/datasets/{quoted(name)}/versions", {"limit": limit, "token": token})

    def version(self, name: UUID | str, number: int) -> Version:
        return self._connection.get(Version, f"/v1/datasets/{quoted(name)}/versions/{number}")

    def explain(self, name: UUID | str) -> Explanation:
        """The reasons for a dataset's state, most urgent first."""
        return self._connection.get(Explanation, f"/v1/datasets/{quoted(name)}/explain")


class Snapshots:
    """Names for versions."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(self) -> SnapshotList:
        return self._connection.get(SnapshotList, "/v1/snapshots")

    def pin(self, dataset: UUID | str, name: str, *, version: int | None = None, dry_run: bool = False) -> Snapshot:
        """Give a name to one version, default: the one that readers see now; the same pin again changes nothing."""
        return self._connection.post(Snapshot, f"/v1/datasets/{quoted(dataset)}/snapshots", {"name": name, "version": version, "dry_run": dry_run})

    def unpin(self, name: str, *, dry_run: bool = False) -> Snapshot:
        """Remove the name of a snapshot."""
        return self._connection.post(Snapshot, f"/v1/snapshots/{quoted(name)}/unpin", {"dry_run": dry_run})
