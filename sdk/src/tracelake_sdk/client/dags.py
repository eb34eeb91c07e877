"""DAGs and the runs of their jobs, reached as `client.dags`."""

from __future__ import annotations  # return types are resolved on demand, not at import

import uuid
from collections.abc import Mapping
from typing import Any

from tracelake_sdk.client.connection import Connection, quoted
from tracelake_sdk.dags.status import DagStatus, Deployed
from tracelake_sdk.tasks import Task

DagStatuses = list[DagStatus]


class Dags:
    """Deploys DAGs, pauses them and runs their jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def deploy(self, definition: str, *, dry_run: bool = False) -> Deployed:
        """Activate the DAG of this file's text; the same definition again changes nothing. A dry run only validates it."""
        return self._connection.post(Deployed, "/v1/dags", {"definition": definition, "dry_run": dry_run})

    def list(self) -> DagStatuses:
        return self._connection.get(DagStatuses, "/v1/dags")

    def get(self, name: str) -> DagStatus:
        return self._connection.get(DagStatus, f"/v1/dags/{quoted(name)}")

    def pause(self, dag: str, job: str | None = None) -> DagStatus:
        """Hold the tasks of a DAG or of one of its jobs; running tasks continue."""
        return self._connection.post(DagStatus, f"{_path(dag, job)}/pause")

    def resume(self, dag: str, job: str | None = None) -> DagStatus:
        """End a pause; jobs that were paused individually stay paused until they are resumed."""
        return self._connection.post(DagStatus, f"{_path(dag, job)}/resume")

    def run(self, dag: str, job: str, request: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None) -> Task:
        """Request a run of a source job, which is one task; the same key with the same request is the same task."""
        body = {"dag": dag, "job": job, "request": dict(request or {})}
        return self._connection.post(Task, "/v1/runs", body, {"Idempotency-Key": idempotency_key or str(uuid.uuid4())})


def _path(dag: str, job: str | None) -> str:
    return f"/v1/dags/{quoted(dag)}" if job is None else f"/v1/dags/{quoted(dag)}/jobs/{quoted(job)}"
