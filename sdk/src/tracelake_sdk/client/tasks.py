"""Tasks, reached as `client.tasks`."""

from __future__ import annotations  # return types are resolved on demand, not at import

from collections.abc import Iterator
from uuid import UUID

from tracelake_sdk.client.connection import WHOLE_PAGE, Connection, follow, iterate, quoted
from tracelake_sdk.pages import Page
from tracelake_sdk.tasks import Task, TaskState
from tracelake_sdk.tasks.cascades import Cascade

FINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED})


class Tasks:
    """Tasks with their attempts and with everything that they caused."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(
        self, *, dag: str | None = None, job: str | None = None, state: TaskState | None = None, limit: int = 50, token: str | None = None
    ) -> Page[Task]:
        return self._connection.get(Page[Task], "/v1/tasks", {"dag": dag, "job": job, "state": state, "limit": limit, "token": token})

    def iterate(self, *, dag: str | None = None, job: str | None = None, state: TaskState | None = None) -> Iterator[Task]:
        return iterate(lambda token: self.list(dag=dag, job=job, state=state, limit=WHOLE_PAGE, token=token))

    def get(self, id: UUID | str) -> Task:
        """A task with its attempts."""
        return self._connection.get(Task, f"/v1/tasks/{quoted(id)}")

    def cancel(self, id: UUID | str) -> Task:
        """A queued task is canceled at once, a running one gets a stop request; a final one raises AlreadyFinal."""
        return self._connection.post(Task, f"/v1/tasks/{quoted(id)}/cancel")

    def caused(self, id: UUID | str) -> Cascade:
        """The task and everything that it caused, as of now."""
        return self._connection.get(Cascade, f"/v1/tasks/{quoted(id)}/caused")

    def follow(self, id: UUID | str, *, every: float = 0.2, patience: float = 30.0) -> Iterator[Task]:
        """The task now and at every later poll, up to its final state; a system that restarts has `patience` seconds to answer."""
        return follow(lambda: self.get(id), lambda task: task.state in FINAL, every, patience)

    def follow_cascade(self, id: UUID | str, *, every: float = 0.2, patience: float = 30.0) -> Iterator[Cascade]:
        """The task with everything that it caused, until nothing more can change without an action."""
        return follow(lambda: self.caused(id), lambda cascade: cascade.over, every, patience)
