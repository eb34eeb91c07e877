"""Real control and worker processes over one test's database: started, killed and started again."""

import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from support.controls import scraped
from support.databases import StateDatabase
from support.ports import free_port
from tracelake.control_client import ControlClient
from tracelake.embedded.processes import Child
from tracelake.embedded.readiness import is_ready, url_of
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.client import Client
from tracelake_sdk.home import HomeFiles

Settings = Mapping[str, str]  # as environment variables
NONE: Settings = MappingProxyType({})

KILLED = -9
AT_ONCE = ((signal.SIGKILL, 10.0),)  # for Child.stop
LONGEST = 180.0  # seconds that anything here may take; nothing is measured by it

# Short, so that what a killed process held comes back while the test watches.
QUICK = {
    "TRACELAKE__TASKS__LEASE_SECONDS": "1",
    "TRACELAKE__TASKS__HOUSEKEEPING_SECONDS": "0.05",
    "TRACELAKE__TASKS__BACKOFF_SECONDS": "0.05",
    "TRACELAKE__WORKER__POLL_SECONDS": "5",
    "TRACELAKE__LOCATIONS": '{"nowhere": {"url": "/nowhere", "roles": ["writer"]}}',  # for DAGs whose files are never read
    "TRACELAKE__WORKER__RUNTIMES": '["dispatcher"]',  # crash points count claims, and a worker of two runtimes asks twice
}


def wait_until(condition: Callable[[], bool], what: str, *, pause: float = 0.02, longest: float = LONGEST) -> None:
    """Looks again and again; a condition that never comes is a failure that names it."""
    deadline = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < deadline, f"it never came: {what}"
        time.sleep(pause)


def assert_killed(process: Child) -> None:
    """It ends by SIGKILL and nothing else, within the time that anything may take."""
    assert process.wait(LONGEST), f"{process.name} still runs: it never reached the moment it was to die at"
    assert process.exit_code == KILLED, f"{process.name} ended with {process.exit_code}"


class Processes:
    """One home, one database, any number of controls and workers. Start them from the main thread: they die with it."""

    def __init__(self, database: StateDatabase, folder: Path, settings: Settings) -> None:
        self.database = database
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.api_url = url_of("127.0.0.1", free_port())  # kept: workers and clients find a control that is started again
        self._logs = folder / "logs"
        self._settings = QUICK | {"TRACELAKE_DATABASE_URL": database.service_url, "TRACELAKE_HOME": str(self.home), **settings}
        self._started: list[Child] = []

    def control(self, settings: Settings = NONE, *, kill_at: str | None = None, api_url: str | None = None, ready: bool = True) -> Child:
        """With `ready` one that answers, without one that is to die before it does."""
        api_url = api_url or self.api_url
        process = self._start("control", kill_at, {"TRACELAKE__API__PORT": api_url.rpartition(":")[2], **settings})
        if ready:
            wait_until(lambda: process.exit_code is not None or is_ready(api_url), f"{process.name} is ready")
            assert process.exit_code is None, f"{process.name} ended with {process.exit_code} before it was ready"
        return process

    def worker(self, settings: Settings = NONE, *, kill_at: str | None = None, api_url: str | None = None) -> Child:
        return self._start("worker", kill_at, {"TRACELAKE__WORKER__API_URL": api_url or self.api_url, **settings})

    def query(self, settings: Settings = NONE) -> Child:
        """A query process that is ready; control knows its port."""
        process = self._start("query", None, {"TRACELAKE__QUERY__API_URL": self.api_url, **settings})
        url = self._settings["TRACELAKE__QUERY__URL"]
        wait_until(lambda: process.exit_code is not None or is_ready(url), f"{process.name} is ready")
        assert process.exit_code is None, f"{process.name} ended with {process.exit_code} before it was ready"
        return process

    def client(self, api_url: str | None = None) -> Client:
        return Client(api_url or self.api_url, HomeFiles(self.home).admin_token())

    def as_worker(self, api_url: str | None = None) -> TaskClient:
        """Control as a worker sees it, for tests that are the worker themselves."""
        return TaskClient(ControlClient(api_url or self.api_url, HomeFiles(self.home).worker_token() or ""))

    def waiting_polls(self, api_url: str | None = None) -> int:
        """How many long polls wait there, by control's own metric."""
        lines = scraped(api_url or self.api_url, self.home).splitlines()
        return next(int(float(line.split()[1])) for line in lines if line.startswith("tracelake_waiting_polls "))

    def kill(self) -> None:
        """Ends what still runs: quicker than a stop, and everything is safe at any instant."""
        for process in reversed(self._started):
            process.stop(AT_ONCE)

    def log(self) -> str:
        """The end of each process's log."""
        return "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-30:]) for log in sorted(self._logs.glob("*")))

    def _start(self, role: str, kill_at: str | None, settings: dict[str, str]) -> Child:
        # Nothing of the machine's own settings reaches them, and no tracelake.yaml of the folder that the tests run in.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        environment |= self._settings | settings
        if kill_at is not None:
            environment["TRACELAKE__CHAOS__KILL_AT"] = kill_at
        name = f"{len(self._started) + 1:03}-{role}"
        command = [sys.executable, "-m", "tracelake.main", role]
        process = Child(name, command, log=self._logs / f"{name}.log", environment=environment, folder=self.home)
        self._started.append(process)
        return process


@contextmanager
def running_processes(database: StateDatabase, folder: Path, settings: Settings = NONE) -> Generator[Processes]:
    """Ends all of them and prints their logs, which pytest shows of a test that failed."""
    processes = Processes(database, folder, settings)
    try:
        yield processes
    finally:
        processes.kill()
        print(processes.log())
