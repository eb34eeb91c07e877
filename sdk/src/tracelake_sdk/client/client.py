"""The control plane as Python: one typed, synchronous client for people, services and the command line.

It finds the embedded system by itself. An error of the service is raised as the same class that the service raised.
Every call is idempotent, so the client retries after a broken connection.
"""

from __future__ import annotations  # return types are resolved on demand, not at import

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tracelake_sdk.client.addresses import find_system
from tracelake_sdk.client.connection import Connection
from tracelake_sdk.client.dags import Dags
from tracelake_sdk.client.datasets import Datasets, Snapshots
from tracelake_sdk.client.history import Events, Runs
from tracelake_sdk.client.queries import Queries, SavedQueries
from tracelake_sdk.client.rules import Policies, Promotions, Rules
from tracelake_sdk.client.tasks import Tasks
from tracelake_sdk.dags.status import WhoAmI
from tracelake_sdk.queries.results import QueryResult

if TYPE_CHECKING:
    from tracelake_sdk.client.admin import Administration


class Client:
    """The API of one Tracelake system, by noun: `client.dags.deploy(…)`, `client.rules.add(…)`.

    The address is `api_url`, else TRACELAKE_API_URL, else that of the embedded system in TRACELAKE_HOME; the token is
    `token`, else TRACELAKE_TOKEN, else the first admin's of that home, which is sent only to this machine. An embedded system that is
    starting has `patience` seconds to do so.
    """

    def __init__(self, api_url: str | None = None, token: str | None = None, *, timeout: float = 30.0, patience: float = 180.0) -> None:
        found, token = find_system(api_url, token, patience=patience)
        self.api_url: str = found
        self._connection: Connection = Connection(found, token, timeout=timeout)
        self.dags: Dags = Dags(self._connection)
        self.tasks: Tasks = Tasks(self._connection)
        self.events: Events = Events(self._connection)
        self.runs: Runs = Runs(self._connection)
        self.datasets: Datasets = Datasets(self._connection)
        self.snapshots: Snapshots = Snapshots(self._connection)
        self.rules: Rules = Rules(self._connection)
        self.policies: Policies = Policies(self._connection)
        self.promotions: Promotions = Promotions(self._connection)
        self.queries: Queries = Queries(self._connection)
        self.saved_queries: SavedQueries = SavedQueries(self._connection)

    @cached_property
    def admin(self) -> Administration:
        """The administration API."""
        from tracelake_sdk.client.admin import Administration  # noqa: PLC0415  # few need it

        return Administration(self._connection)

    def query(self, sql: str, *, limit: int | None = None) -> QueryResult:
        """The rows of one SELECT over published datasets, all as of one point in time; iterating gives tuples."""
        return self.queries.run(sql, limit=limit)

    def me(self) -> WhoAmI:
        return self._connection.get(WhoAmI, "/v1/me")

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
