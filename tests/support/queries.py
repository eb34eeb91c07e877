"""A control with a lake and a query process beside it, all in the test's own process but for the engines."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.controls import running_control, served, settings_for
from support.databases import StateDatabase
from support.lakes import BRONZE, SCHEMA, Lake
from support.ports import free_port
from tracelake.query.process import QueryServer
from tracelake.settings import Settings
from tracelake_sdk.client import Client
from tracelake_sdk.home import HomeFiles

QUIET = {"housekeeping_seconds": 60}


class QueryLake(Lake):
    """A lake whose published datasets are asked over HTTP."""

    api_url: str
    queries: QueryServer

    def client(self, token: str | None = None) -> Client:
        return Client(self.api_url, token or HomeFiles(self.control.settings.home).admin_token(), timeout=120)

    def publish(self, name: str, *, definition: str = BRONZE) -> None:
        """A DAG of one job whose output is published as `{name}_raw`."""
        self.deploy(definition, name=name)

    def commit(self, name: str, rows: Sequence[tuple[Any, ...]], *, schema: Any = SCHEMA) -> None:
        """One more version."""
        self.run("load", name)
        [task] = self.take(1)
        assert self.write(task, rows, schema=schema, state={"rows": len(rows)}).result == "committing"
        self.move()


@contextmanager
def serving_queries(settings: Settings) -> Iterator[QueryServer]:
    server = QueryServer(settings)
    thread = threading.Thread(target=server.serve_until_stopped, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the query process did not start"
        time.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive(), "the query process did not stop"


@contextmanager
def query_lake(database: StateDatabase, folder: Path, **query: Any) -> Iterator[QueryLake]:
    """Only the test moves lines."""
    port = free_port()
    home = folder / "home"
    beside = {"url": f"http://127.0.0.1:{port}", "port": port, "engines": 2, "memory_mib": 256, "spill_mib": 64, "max_seconds": 10} | query
    with running_control(settings_for(database, home, tasks=QUIET, query=beside), database) as control_plane, served(control_plane.control) as api_url:
        control_plane.control.movers.stop()
        with serving_queries(settings_for(database, home, query=beside | {"api_url": api_url})) as queries:
            lake = QueryLake(control_plane.control, database)
            lake.api_url, lake.queries = api_url, queries
            yield lake
