"""Emitted events and finished runs, reached as `client.events` and `client.runs`."""

from __future__ import annotations  # return types are resolved on demand, not at import

from collections.abc import Iterator
from uuid import UUID

from tracelake_sdk.client.connection import WHOLE_PAGE, Connection, iterate, quoted
from tracelake_sdk.pages import Page
from tracelake_sdk.tasks.events import DatasetEvent
from tracelake_sdk.tasks.runs import Run, RunDetail, RunStatus


class Events:
    """Emitted events with their ledger."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(
        self, *, dag: str | None = None, job: str | None = None, producer: UUID | str | None = None, limit: int = 50, token: str | None = None
    ) -> Page[DatasetEvent]:
        """Events with their ledger: the task of each subscriber, or that it filtered the event. `dag` and `job` name the emitting job, `producer` its task."""
        return self._connection.get(Page[DatasetEvent], "/v1/events", {"dag": dag, "job": job, "producer": producer, "limit": limit, "token": token})

    def iterate(self, *, dag: str | None = None, job: str | None = None, producer: UUID | str | None = None) -> Iterator[DatasetEvent]:
        return iterate(lambda token: self.list(dag=dag, job=job, producer=producer, limit=WHOLE_PAGE, token=token))


class Runs:
    """The run history."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(
        self, *, dag: str | None = None, job: str | None = None, status: RunStatus | None = None, limit: int = 50, token: str | None = None
    ) -> Page[Run]:
        """The run history: one row for each finished attempt and output."""
        return self._connection.get(Page[Run], "/v1/runs", {"dag": dag, "job": job, "status": status, "limit": limit, "token": token})

    def iterate(self, *, dag: str | None = None, job: str | None = None, status: RunStatus | None = None) -> Iterator[Run]:
        return iterate(lambda token: self.list(dag=dag, job=job, status=status, limit=WHOLE_PAGE, token=token))

    def get(self, run_id: str) -> RunDetail:
        """One run in full: the versions it read, its rule and policy results, the decision, and the notes of its operator."""
        return self._connection.get(RunDetail, f"/v1/runs/{quoted(run_id)}")
