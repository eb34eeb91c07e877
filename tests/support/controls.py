"""Control inside the test process: its services, and its HTTP interface on a free port."""

import base64
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import UUID

import psycopg

from support.databases import StateDatabase
from tracelake import wire_json
from tracelake.control.access.callers import Caller
from tracelake.control.process import Control, ControlServer
from tracelake.loops import Loop
from tracelake.settings import Settings, read_settings
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.tasks import ClaimAnswer, ClaimedTask, ClaimRequest, Completion, CompletionAnswer, OperatorError, Outcome, TaskPayload

_RARELY, _NEVER = 60.0, 86_400.0  # seconds between two turns of a loop

# Tasks of `start` run in parallel; tests report the events that they want to emit for it.
_SOURCE = """
name: {name}
defaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}
jobs:
  - name: start
    activation: source
    source: {{kind: manual}}
    runtime: dispatcher
    operator: noop
    outputs: [{{layer: bronze, description: Emitted events}}]
"""
_EMIT = _SOURCE.replace("operator: noop", "operator: emit\n    config: {{cursor: integer}}")
_END = """
  - name: end
    activation: reactive
    inputs: [{{from: {{job: start, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: noop
"""
_JOIN = """
  - name: join
    activation: reactive
    inputs: [{{from: {{job: start, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: range_aggregator
    config: {{cursor: integer, range_size: 10}}
    outputs: [{{layer: bronze, description: Ranges of ten}}]
"""
NOOP = _SOURCE + _END
RANGES = _SOURCE + _JOIN
EMIT = _EMIT + _END
EMIT_RANGES = _EMIT + _JOIN


# For DAGs whose files are never read: tests report for their jobs.
LOCATIONS = {name: {"url": f"/{name}", "roles": ["writer"]} for name in ("nowhere", "landing")}


def settings_for(database: StateDatabase, home: Path, *, locations: Mapping[str, Any] = LOCATIONS, **sections: Any) -> Settings:
    return read_settings(home=home, locations=dict(locations), database={"url": database.service_url, "owner_url": database.owner_url, "data_url": database.data_url}, **sections)


def scraped(api_url: str, home: Path) -> str:
    """The metrics, as an admin of the operating org reads them."""
    request = Request(f"{api_url}/metrics", headers={"Authorization": f"Bearer {HomeFiles(home).admin_token()}"})
    with urlopen(request) as answer:
        return answer.read().decode()


def fresh_claim_id() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


class ControlPlane:
    """A control plane inside the test process, with an admin and a worker as callers, and the steps that most tests take."""

    def __init__(self, control: Control, database: StateDatabase) -> None:
        self.control = control
        self.services = control.services
        self.database = database
        files = HomeFiles(control.settings.home)
        self.admin: Caller = self.services.access.authenticate(files.admin_token() or "")
        self.worker: Caller = self.services.access.authenticate(files.worker_token() or "")

    def deploy(self, definition: str = NOOP, *, name: str = "sample", max_attempts: int = 3) -> str:
        return self.services.deploys.deploy(self.admin, definition.format(name=name, max_attempts=max_attempts)).dag

    def run_source(self, dag: str = "sample", *, key: str | None = None, **request: Any) -> UUID:
        """One run of the source."""
        return self.services.tasks.requests.run(self.admin, dag, "start", request, idempotency_key=key)

    def emit(self, *cursors: int, rewrite: bool = False) -> UUID:
        """One run of a source that is deployed with `EMIT` or `EMIT_RANGES`."""
        return self.run_source(cursors=list(cursors), rewrite=rewrite)

    def claim(self, room: int = 100, *, wait_s: float = 0, claim_id: str | None = None, now=None, worker: str = "w1") -> list[ClaimedTask]:
        request = ClaimRequest(worker=worker, claim_id=claim_id or fresh_claim_id(), runtime="dispatcher", room={"default": room}, wait_s=wait_s)
        claimed = self.services.tasks.claims.claim(self.worker, request, now=now)
        return ClaimAnswer.model_validate_json(wire_json.encode({"claimed": claimed})).claimed

    def fetch(self, task: UUID) -> TaskPayload:
        return TaskPayload.model_validate_json(wire_json.encode(self.services.tasks.claims.fetch(self.worker, task)))

    def complete(self, *reports: Completion, now=None) -> list[CompletionAnswer]:
        return self.services.tasks.completions.complete(self.worker, list(reports), now=now)

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Runs SQL as the superuser."""
        with psycopg.connect(self.database.superuser_url, autocommit=True) as connection:
            cursor = connection.execute(sql, values)  # pyright: ignore[reportArgumentType]
            return cursor.fetchall() if cursor.description else []

    def one(self, sql: str, *values: Any) -> Any:
        return self.query(sql, *values)[0][0]


def succeeded(task: ClaimedTask, **parts: Any) -> Completion:
    return Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, **parts)


def failed(task: ClaimedTask, *, retry: bool = True, error_class: str = "broken") -> Completion:
    return Completion(fence=task.fence, outcome=Outcome.FAILED, error=OperatorError(error_class=error_class, message="It broke.", retry=retry))


class _Control(Control):
    """A control whose rare loops run only once, at the start."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._rest: list[threading.Event] = []

    def _loop(self, loop: Loop) -> None:
        if loop.pause != self.settings.tasks.housekeeping_seconds or loop.pause < _RARELY:
            super()._loop(loop)
            return
        rests = threading.Event()

        def look() -> object:
            busy: object = 0
            try:
                busy = loop.run_once()
            finally:
                if not busy:
                    rests.set()
            return busy

        self._rest.append(rests)
        super()._loop(Loop(loop.name, look, pause=_NEVER))

    def begin(self) -> None:
        self.start()
        for rests in self._rest:
            rests.wait(10)  # a loop that waits for a lock of the test runs later


@contextmanager
def running_control(settings: Settings, database: StateDatabase) -> Iterator[ControlPlane]:
    control = _Control(settings)
    control.begin()
    try:
        yield ControlPlane(control, database)
    finally:
        control.stop()


@contextmanager
def served(control: Control) -> Iterator[str]:
    """The URL of this control's HTTP interface."""
    server = ControlServer(control)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
        thread.join(timeout=20)
        assert not thread.is_alive(), "the server did not stop"
