"""Faults that are not crashes, one after the other in a random order while events flow: everything completes, and `/readyz` is right throughout."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx2
import psycopg
import pytest
from support.accounting import account_for, wait_until_quiet
from support.databases import StateDatabase
from support.processes import wait_until
from support.sizes import full, seeded, size
from support.small_disks import fill, small_disk
from support.workloads import ManySources

from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres
from tracelake_sdk.client import Client
from tracelake_sdk.errors import NotRunning, OutcomeUnknown, Unavailable
from tracelake_sdk.home import HomeFiles

_SETTINGS = {
    "TRACELAKE__WORKER__RUNTIMES": '["dispatcher"]',
    "TRACELAKE__TASKS__LEASE_SECONDS": "3",
    "TRACELAKE__TASKS__HOUSEKEEPING_SECONDS": "0.2",
    "TRACELAKE__TASKS__BACKOFF_SECONDS": "0.1",
    "TRACELAKE__TASKS__MAX_BACKOFF_SECONDS": "1",
}
_LONGEST = 240.0  # until it is ready again, on a machine that is busy otherwise


@dataclass(frozen=True)
class House:
    """A system that runs under `tracelaked up`."""

    home: Path
    disk: Path
    supervisor: "subprocess.Popen[bytes]"

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
        with suppress(httpx2.TransportError):
            return httpx2.get(self.api_url + "/readyz", timeout=15).status_code == 200
        return False

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
            time.sleep(0.1)


@contextmanager
def running_house(folder: Path) -> Generator[House]:
    with small_disk(folder / "disk", mebibytes=size(400, 1200)) as disk, (folder / "said").open("wb") as says:
        home = disk / "home"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE_")} | {"TRACELAKE_HOME": str(home)} | _SETTINGS
        with subprocess.Popen([sys.executable, "-m", "tracelake.main", "up"], stdout=says, stderr=says, env=environment, cwd=folder) as process:
            try:
                wait_until(lambda: process.poll() is not None or b"Tracelake is up" in (folder / "said").read_bytes(), "it is up", longest=_LONGEST)
                assert process.poll() is None, (folder / "said").read_text()
                yield House(home, disk, process)
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
    os.kill(house.postmaster(), signal.SIGINT)
    house.hold(seconds, red=False)


def on_another_port(house: House, seconds: float) -> None:
    port = house.postgres.port
    os.kill(house.postmaster(), signal.SIGKILL)
    with ExitStack() as taken:

        def takes() -> bool:
            with suppress(OSError):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
                return True
            return False

        wait_until(takes, "the port is somebody else's", pause=0.005)
        wait_until(lambda: house.postgres.port != port, "Postgres has moved", longest=_LONGEST)
        house.hold(seconds, red=False)
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


FAULTS: tuple[Callable[[House, float], None], ...] = (read_only, restarted, on_another_port, out_of_connections, disk_full)


def faults(random: Random) -> list[tuple[Callable[[House, float], None], float]]:
    """Each at least once."""
    chosen = [*FAULTS, *(random.choice(FAULTS) for _ in range(size(0, 7)))]
    random.shuffle(chosen)
    return [(fault, random.uniform(5, 60) if full() else random.uniform(0.5, 2)) for fault in chosen]


@pytest.mark.proves("X.10")
def test_everything_completes_under_random_faults_and_no_loop_is_dead(tmp_path: Path):
    planned = faults(seeded())
    work = ManySources(sources=len(planned), cursors=size(60, 5000 // len(planned)))
    with running_house(tmp_path) as house:
        with house.client() as client:
            work.deploy(client)
        for source, (fault, seconds) in enumerate(planned, start=1):
            with house.client() as client:
                work.request(client, source)
            fault(house, seconds)
            wait_until(house.ready, f"it is ready again after {fault.__name__} of {seconds:.1f} s", longest=_LONGEST)

        def requested() -> bool:
            with suppress(Unavailable, NotRunning, OutcomeUnknown), house.client() as client:
                return bool(work.request_all(client))
            return False

        wait_until(requested, "all are requested", longest=_LONGEST)
        wait_until_quiet(house.database, longest=600)
        assert account_for(house.database).tasks == work.expected()
        wait_until(house.ready, "it is ready")
        text = httpx2.get(house.api_url + "/metrics", timeout=60).text
        loops = [line for line in text.splitlines() if line.startswith("tracelake_loop_failing{")]
        assert len(loops) >= 12 and all(line.endswith(" 0.0") for line in loops), loops
