"""Faults that are not crashes, one after the other in a random order while events flow: everything completes, and `/readyz` is right throughout."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from support.accounting import rows_of, wait_until_quiet
from support.controls import scraped
from support.databases import StateDatabase
from support.line_accounting import account_in_postgres
from support.parquet_operator import COMMAND
from support.processes import wait_until
from support.s3_faults import FaultyS3, faulty_s3
from support.s3_servers import S3Server
from support.sizes import full, seeded, size
from support.small_disks import fill, small_disk
from support.workloads import ManySources

from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres
from tracelake.storage.paths import table_location
from tracelake_sdk.client import Client
from tracelake_sdk.errors import NotRunning, OutcomeUnknown, Unavailable
from tracelake_sdk.home import HomeFiles

pytestmark = pytest.mark.xdist_group("s3")

_SETTINGS = {
    "TRACELAKE__WORKER__COMMANDS": json.dumps({"ingest_files": COMMAND}),
    "TRACELAKE__TASKS__LEASE_SECONDS": "3",
    "TRACELAKE__TASKS__HOUSEKEEPING_SECONDS": "0.2",
    "TRACELAKE__TASKS__BACKOFF_SECONDS": "0.1",
    "TRACELAKE__TASKS__MAX_BACKOFF_SECONDS": "1",
}
# Each run of `load` writes one row into the lake; runs of `ping` only keep the queue busy.
_FILES = """
name: files
defaults: {domain: test, owner: test, max_attempts: 50}
jobs:
  - name: load
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: here/load.json, format: csv}
    outputs: [{layer: bronze, description: Rows as they came}]
    update_strategy: append
    unique_key: [id]
  - name: ping
    activation: source
    source: {kind: manual}
    runtime: dispatcher
    operator: noop
"""
_MOST_LOADS = 100
_LIES = 3  # samples in a row: one may fall into the moment in which a fault begins or ends
_LONGEST = 240.0  # until it is ready again, on a busy machine


@dataclass
class House:
    """A system that runs under `tracelaked up`, with its lake on an S3 server that may refuse."""

    home: Path
    disk: Path
    supervisor: "subprocess.Popen[bytes]"
    store: FaultyS3
    loads: list[UUID] = field(default_factory=list)
    lies: list[str] = field(default_factory=list)

    @property
    def postgres(self) -> EmbeddedPostgres:
        return EmbeddedPostgres(self.home / "postgres", find_binaries())

    @property
    def database(self) -> StateDatabase:
        url = self.postgres.url
        return StateDatabase(STATE_DATABASE, url(STATE_DATABASE, "tracelake_service"), url(STATE_DATABASE, "tracelake_owner"), url(STATE_DATABASE), url(DATA_DATABASE))

    @property
    def api_url(self) -> str:
        return HomeFiles(self.home).api_url() or ""

    def client(self) -> Client:
        return Client(self.api_url, HomeFiles(self.home).admin_token() or "")

    def ready(self) -> bool:
        return self.reasons() == []

    def reasons(self) -> list[str] | None:
        """The reasons of `/readyz`; empty if it is ready, None if there is no answer."""
        with suppress(httpx2.TransportError):
            answer = httpx2.get(self.api_url + "/readyz", timeout=15)
            return [] if answer.status_code == 200 else [reason["what"] for reason in answer.json().get("reasons", [])] or ["?"]
        return None

    def load(self) -> UUID:
        with self.client() as client:
            self.loads.append(client.dags.run("files", "load", idempotency_key=f"load {len(self.loads)}").id)
        return self.loads[-1]

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return rows_of(self.database, sql, *values)  # pyright: ignore[reportArgumentType]

    def as_superuser(self) -> psycopg.Connection:
        connection = psycopg.connect(self.postgres.url(), autocommit=True)
        connection.execute("SET default_transaction_read_only = off")
        return connection

    def postmaster(self) -> int:
        return json.loads((self.home / "state.json").read_text())["processes"]["postgres"]["pid"]

    def hold(self, seconds: float, *, red: bool) -> None:
        """The fault lasts that long; where it must show, it does, all the time."""
        if red:
            wait_until(lambda: not self.ready(), "it is not ready", longest=_LONGEST)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.supervisor.poll() is None, "the supervisor has ended"
            assert not (red and self.ready()), "it said that it is ready"
            assert not self.lies, self.lies
            time.sleep(0.1)

    @contextmanager
    def postgres_down(self, by: signal.Signals) -> Generator[None]:
        """The supervisor sleeps meanwhile, else it would start Postgres again at once."""
        postmaster = self.postmaster()
        self.supervisor.send_signal(signal.SIGSTOP)
        try:
            os.kill(postmaster, by)
            yield
        finally:
            self.supervisor.send_signal(signal.SIGCONT)


class Watcher:
    """Asks all the time whether it is ready, and for something that must be kept; who says ready and refuses again and again tells a lie."""

    def __init__(self, house: House) -> None:
        self._house, self._stopping, self._in_a_row = house, threading.Event(), 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.asked, self.accepted = 0, 0
        self.broke: list[Exception] = []

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_LONGEST)

    def _watch(self) -> None:
        try:
            while not self._stopping.wait(0.2):
                self._sample()
        except Exception as error:  # asserted at the end of the test
            self.broke.append(error)

    def _sample(self) -> None:
        before, refused, after = self._house.ready(), self._refused(), self._house.ready()
        self._in_a_row = self._in_a_row + 1 if before and refused and after else 0
        if self._in_a_row >= _LIES:
            self._house.lies.append(f"ready, and it refused sample {self.asked}: {refused}")

    def _refused(self) -> str:
        self.asked += 1
        try:
            with self._house.client() as client:
                client.dags.run("files", "ping", idempotency_key=f"ping {self.asked}")
        except Unavailable as refused:
            return refused.detail or refused.code
        except (NotRunning, OutcomeUnknown):  # no answer, so nothing can be wrong
            return ""
        self.accepted += 1
        return ""


@contextmanager
def running_house(folder: Path, store: FaultyS3, storage: dict[str, str]) -> Generator[House]:
    here = folder / "here"
    here.mkdir()
    (here / "load.json").write_text(json.dumps({"by_run": {str(number): {"rows": [[number, "a"]]} for number in range(_MOST_LOADS)}}))
    with small_disk(folder / "disk", mebibytes=size(400, 1200)) as disk, (folder / "said").open("wb") as says:
        home = disk / "home"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE_")} | {"TRACELAKE_HOME": str(home)} | _SETTINGS | storage
        environment |= {"TRACELAKE__LOCATIONS": json.dumps({"here": str(here)})}
        with subprocess.Popen([sys.executable, "-m", "tracelake.main", "up"], stdout=says, stderr=says, env=environment, cwd=folder) as process:
            try:
                wait_until(lambda: process.poll() is not None or b"Tracelake is up" in (folder / "said").read_bytes(), "it is up", longest=_LONGEST)
                assert process.poll() is None, (folder / "said").read_text()
                yield House(home, disk, process, store)
                process.send_signal(signal.SIGTERM)
                assert process.wait(90) == 0
            finally:
                process.kill()


def read_only(house: House, seconds: float) -> None:
    with house.as_superuser() as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        house.hold(seconds, red=True)
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")


def restarted(house: House, seconds: float) -> None:
    with house.postgres_down(signal.SIGINT):
        house.hold(seconds, red=True)


def on_another_port(house: House, seconds: float) -> None:
    port = house.postgres.port
    with ExitStack() as taken:

        def takes() -> bool:
            with suppress(OSError):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
                return True
            return False

        with house.postgres_down(signal.SIGKILL):
            wait_until(takes, "the port is somebody else's", pause=0.005)
            house.hold(seconds, red=True)
        wait_until(lambda: house.postgres.port != port, "Postgres has moved", longest=_LONGEST)
        wait_until(house.ready, "control has followed it", longest=_LONGEST)


def out_of_connections(house: House, seconds: float) -> None:
    with ExitStack() as taken:
        holder = taken.enter_context(house.as_superuser())

        def take_all() -> None:
            with suppress(psycopg.OperationalError):
                while True:
                    taken.enter_context(house.as_superuser())

        take_all()
        holder.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tracelake%'")
        until = time.monotonic() + 2
        while time.monotonic() < until:
            take_all()
        # Whether control has got hold of a connection meanwhile is a race; it may be ready, but must not stop.
        house.hold(seconds, red=False)


def disk_full(house: House, seconds: float) -> None:
    filler = fill(house.disk)
    try:
        house.hold(seconds, red=False)
    finally:
        filler.unlink()


def s3_refusing(house: House, seconds: float) -> None:
    """First what the line commits, so that something is decided and cannot land; then everything, so that an operator cannot write either."""
    house.store.refuses = "_delta_log"
    try:
        house.load()
        wait_until(lambda: "loop lines" in (house.reasons() or []), "the loop of the lines is named", longest=_LONGEST)
        house.store.refuses = ""
        during = house.load()
        house.hold(seconds, red=True)
    finally:
        house.store.refuses = None
    wait_until(lambda: house.query("SELECT state::text FROM task WHERE id = %s", during) == [("completed",)], "what was asked for meanwhile is done", longest=_LONGEST)
    # One whose operator gave up just before the store came back may count; an outage as such does not.
    assert house.query("SELECT failures FROM task WHERE id = %s", during)[0][0] <= 1


FAULTS: tuple[Callable[[House, float], None], ...] = (read_only, restarted, on_another_port, out_of_connections, disk_full, s3_refusing)


def faults(random: Random) -> list[tuple[Callable[[House, float], None], float]]:
    """Each at least once."""
    chosen = [*FAULTS, *(random.choice(FAULTS) for _ in range(size(0, 7)))]
    random.shuffle(chosen)
    return [(fault, random.uniform(5, 60) if full() else random.uniform(0.5, 2)) for fault in chosen]


def rows_in(server: S3Server, url: str, house: House) -> list[tuple[Any, ...]]:
    """The table as a reader of the store sees it."""
    [(org, dataset, version)] = house.query(
        "SELECT dataset.org_id, dataset.id, version.id FROM dataset JOIN dataset_version AS version ON version.dataset_id = dataset.id WHERE dataset.has_files"
    )
    options = {
        "aws_endpoint_url": server.endpoint, "aws_access_key_id": server.access_key_id, "aws_secret_access_key": server.secret_access_key,
        "aws_region": "us-east-1", "aws_allow_http": "true",
    }  # fmt: skip
    system = fs.S3FileSystem(
        endpoint_override=server.endpoint.removeprefix("http://"), scheme="http", region="us-east-1", access_key=server.access_key_id, secret_key=server.secret_access_key
    )
    uris = DeltaTable(f"{url}/{table_location(org, dataset, version)}", storage_options=options).file_uris()
    return sorted(tuple(row.values()) for uri in uris for row in pq.read_table(uri.partition("://")[2], filesystem=system).to_pylist())


@pytest.mark.proves("X.10")
def test_everything_completes_under_random_faults_and_no_loop_is_dead(tmp_path: Path, s3_server: S3Server):
    planned = faults(seeded())
    work = ManySources(sources=len(planned), cursors=size(60, -(-5000 // len(planned))))
    url = s3_server.fresh_url()
    with faulty_s3(s3_server) as store, running_house(tmp_path, store, s3_server.environment(url, endpoint=store.endpoint)) as house:
        with house.client() as client:
            work.deploy(client)
            client.dags.deploy(_FILES)
        with Watcher(house) as watcher:
            for source, (fault, seconds) in enumerate(planned, start=1):
                with house.client() as client:
                    work.request(client, source)
                house.load()
                fault(house, seconds)
                wait_until(house.ready, f"it is ready again after {fault.__name__} of {seconds:.1f} s", longest=_LONGEST)
        assert not watcher.broke and not house.lies, (watcher.broke, house.lies)
        assert watcher.accepted >= len(planned)

        def requested() -> bool:
            with suppress(Unavailable, NotRunning, OutcomeUnknown), house.client() as client:
                return bool(work.request_all(client))
            return False

        wait_until(requested, "all are requested", longest=_LONGEST)
        wait_until_quiet(house.database, longest=600)
        tasks = account_in_postgres(house.database).tasks
        assert watcher.accepted <= tasks.pop(("ping", "completed")) <= watcher.asked
        assert tasks == work.expected() + Counter({("load", "completed"): len(house.loads)})
        assert rows_in(s3_server, url, house) == [(number, "a") for number in range(len(house.loads))]
        wait_until(house.ready, "it is ready")
        loops = [line for line in scraped(house.api_url, house.home).splitlines() if line.startswith("tracelake_loop_failing{")]
        assert len(loops) >= 12 and all(line.endswith(" 0.0") for line in loops), loops
