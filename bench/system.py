"""The system of a run: one durable Postgres for all contenders, and on it one control and one worker as real processes."""

import os
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self

import psycopg
from psycopg import sql

from bench.figures import BenchFailed
from tracelake.control.database.migrations import migrate
from tracelake.control_client import ControlClient
from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.ports import free_port
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres, prepare_databases
from tracelake.embedded.processes import Child
from tracelake.embedded.readiness import is_ready
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.client import Client
from tracelake_sdk.home import HomeFiles

ROOT = Path(__file__).resolve().parent.parent
CONTROL = (sys.executable, "-m", "tracelake.main", "control")
WORKER = (sys.executable, "-m", "tracelake.main", "worker")
STAMPED_CONTROL = (sys.executable, "-m", "bench.programs.stamped_control")
STAMPED_WORKER = (sys.executable, "-m", "bench.programs.stamped_worker")
STAMPED_SPARK_WORKER = (sys.executable, "-m", "bench.programs.stamped_spark_worker")

_READY_SECONDS = 60


class Postgres:
    """The server that ours, the limits and the peers share, each in its own database; `durable` is fsync."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._server: EmbeddedPostgres = EmbeddedPostgres(folder, find_binaries(), durable=durable, options={"max_connections": "200"})

    def __enter__(self) -> Self:
        self._server.start()
        try:
            prepare_databases(self._server.url(), self._server.passwords)
            migrate(self._server.url(STATE_DATABASE, "tracelake_owner"))
        except BaseException:
            self._server.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.stop()

    def url(self, database: str, role: str | None = None) -> str:
        return self._server.url(database, role) if role else self._server.url(database)

    @property
    def data_url(self) -> str:
        return self._server.url(DATA_DATABASE, "tracelake_service")

    def fresh(self, database: str, *, migrated: bool = False) -> str:
        """An empty database, or one with the schema of ours; the superuser's URL of it."""
        name = sql.Identifier(database)
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            if migrated:
                template = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER tracelake_owner STRATEGY file_copy")
                connection.execute(template.format(name, sql.Identifier(STATE_DATABASE)))
            else:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        return self.url(database)

    def settle(self, database: str) -> None:
        """Before every measurement of any contender: it must not pay for dirty pages and missing statistics of the previous run."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


@dataclass(frozen=True)
class Commands:
    """The programs that are measured; some rows run the same ones with a clock at some places. Without a worker, the row is the worker itself."""

    control: tuple[str, ...] = CONTROL
    worker: tuple[str, ...] | None = WORKER


class System:
    """Control and worker on a fresh database, reached as a user reaches them."""

    def __init__(
        self, client: Client, as_worker: TaskClient, watcher: psycopg.Connection[Any], database: str, folder: Path, programs: tuple[Child, ...]
    ) -> None:
        self.client: Client = client
        self.as_worker: TaskClient = as_worker  # control as a worker sees it
        self.database: str = database
        self.folder: Path = folder
        self.programs: tuple[Child, ...] = programs
        self._watcher: psycopg.Connection[Any] = watcher

    def value(self, query: LiteralString, *values: object) -> Any:
        """What is really there, as the superuser."""
        row = self._watcher.execute(query, values).fetchone()
        return row[0] if row else None

    def finished(self) -> int:
        """Attempts that ended or are about to, at the cost of reading one number."""
        return self.value("SELECT coalesce(pg_sequence_last_value('run_history_seq_seq'), 0)")

    def wait_for_finished(self, number: int, *, since: int, seconds: float = 300) -> None:
        """Returns when `number` attempts have ended, and committed, since `finished()` returned `since`; raises unless all their tasks completed."""
        deadline = time.monotonic() + seconds
        while self.finished() < since + number or self.value("SELECT count(*) FROM run_history WHERE seq > %s", since) < number:
            self.check_alive()
            if time.monotonic() > deadline:
                raise BenchFailed(f"only {self.finished() - since} of {number} attempts ended within {seconds:.0f} s; the logs are in {self.folder}")
            # Seldom while much is left: on two cores, looking takes time from what is looked at.
            time.sleep(0.02 if self.finished() < since + number - 200 else 0.002)

    def check_alive(self) -> None:
        for program in self.programs:
            if program.exit_code is not None:
                raise BenchFailed(f"the {program.name} ended with exit code {program.exit_code}; its log is {program.log}")

    def check_all_completed(self) -> None:
        others = self.value("SELECT count(*) FROM task WHERE state <> 'completed'")
        if others:
            raise BenchFailed(f"{others} tasks did not complete; the logs are in {self.folder}")


@contextmanager
def running_system(postgres: Postgres, folder: Path, database: str, *, commands: Commands | None = None, extra: Mapping[str, str] | None = None) -> Generator[System]:
    """Starts control, then the worker, and ends both by their ids."""
    commands = commands or Commands()
    home = folder / database
    home.mkdir(parents=True)
    superuser_url = postgres.fresh(database, migrated=True)
    port = free_port()
    api_url = f"http://127.0.0.1:{port}"
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("TRACELAKE")} | dict(extra or {})
    environment["TRACELAKE_HOME"] = str(home)
    database_urls = {"TRACELAKE__DATABASE__URL": postgres.url(database, "tracelake_service"), "TRACELAKE__DATABASE__DATA_URL": postgres.data_url}
    with ExitStack() as stack:
        control = stack.enter_context(
            Child("control", commands.control, log=home / "control.log", folder=ROOT, environment=environment | database_urls | {"TRACELAKE__API__PORT": str(port)})
        )
        _wait_until_ready(api_url, control)
        files = HomeFiles(home)
        token = files.worker_token() or ""
        variables = {"TRACELAKE__WORKER__API_URL": api_url, "TRACELAKE__WORKER__TOKEN": token}
        programs = [control]
        if commands.worker is not None:
            programs.append(stack.enter_context(Child("worker", commands.worker, log=home / "worker.log", folder=ROOT, environment=environment | variables)))
        client = stack.enter_context(Client(api_url, files.admin_token()))
        watcher = stack.enter_context(psycopg.connect(superuser_url, autocommit=True))
        as_worker = TaskClient(ControlClient(api_url, token))
        stack.callback(as_worker.close)
        yield System(client, as_worker, watcher, database, home, tuple(programs))


def _wait_until_ready(api_url: str, control: Child) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not is_ready(api_url):
        if control.exit_code is not None or time.monotonic() > deadline:
            raise BenchFailed(f"control did not become ready; its log is {control.log}")
        time.sleep(0.05)
