"""A Spark worker in the test's own process, with a scripted control, real programs and local files."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from support.parquet_operator import COMMAND

from tracelake.chaos import Chaos
from tracelake.child_processes import BoundedLog, Starter, clean_environment
from tracelake.control_client import ControlClient
from tracelake.settings import Settings, read_settings
from tracelake.storage.opening import open_storage
from tracelake.storage.operator_credentials import operator_credentials
from tracelake.storage.private_places import private_places
from tracelake.worker.spark.building import storage_section
from tracelake.worker.spark.measuring_process import MeasuringProcess
from tracelake.worker.spark.operator_processes import CommandProcess, OperatorProcess, OperatorProcesses
from tracelake.worker.spark.spark_worker import SparkWorker
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.datasets.measurements import TableFile
from tracelake_sdk.datasets.scopes import FullScope, Scope
from tracelake_sdk.tasks import TaskPayload

from .processes import until
from .scripted_control import TOKEN, ScriptedControl, scripted_control

STAND_IN = Path(__file__).with_name("measuring_stand_in.py")
LOCATION = "org/o/dataset/d/version/v"


class Workshop:
    """One worker; `spec` writes what the test program will do."""

    def __init__(self, control: ScriptedControl, folder: Path, environment: dict[str, str], chaos: Chaos) -> None:
        self.control, self.folder = control, folder
        self.settings: Settings = read_settings(home=folder / "home")
        self.starter = Starter()
        self.moments: list[str] = []
        self.at: dict[str, Callable[[], object]] = {}
        self.environment = clean_environment(environment)
        self.asked = folder / "measuring" / "asked"
        self.asked.parent.mkdir(parents=True)
        self.operator: OperatorProcess = CommandProcess(
            self.starter, COMMAND, environment=self.environment, log=BoundedLog(folder / "operator.log"), chaos=chaos
        )
        self.measuring = MeasuringProcess(
            self.starter, storage=storage_section(self.settings), environment=self.environment, folder=folder, log=BoundedLog(folder / "measuring.log"),
            chaos=chaos, command=[sys.executable, str(STAND_IN), str(self.asked)],
        )
        self.client = TaskClient(ControlClient(control.url, TOKEN))
        self.worker = self.hire()

    def hire(self, **more: Any) -> SparkWorker:
        given = {
            "name": "w1", "slots": 1, "poll_seconds": 0, "storage": open_storage(self.settings, self._watch), "measuring": self.measuring,
            "operators": OperatorProcesses({"ingest_files": self.operator, "sql": self.operator}, None), "scratch": self.settings.home / "scratch",
            "credentials": operator_credentials(self.settings, {}), "private": private_places(self.settings), "watch": self._watch,
        }
        return SparkWorker(self.client, **(given | more))

    @property
    def here(self) -> Path:
        """The folder of the location `here`."""
        return self.folder / "here"

    def _watch(self, moment: str) -> None:
        self.moments.append(moment)
        if act := self.at.pop(moment, None):
            act()

    def spec(self, name: str = "spec.json", **spec: Any) -> str:
        self.here.mkdir(exist_ok=True)
        (self.here / name).write_text(json.dumps(spec))
        return name

    def task(self, spec: str = "spec.json", **more: Any) -> TaskPayload:
        return payload(config={"path": f"here/{spec}", "format": "csv"}, locations={"here": self.here.as_uri()}, **more)

    def run(self, task: TaskPayload) -> None:
        """One attempt, guarded and with heartbeats, to its end."""
        self.control.queue(task)
        self.start_threads()
        assert self.worker.run_once()

    def start_threads(self) -> None:
        self.worker.leases.start()
        self.worker.guard.start()

    def running(self, task: TaskPayload) -> threading.Thread:
        """One attempt in a thread of its own, once its program runs; its spec must `touch` the file `started`."""

        def live() -> None:
            self.run(task)
            self.client.close()

        thread = threading.Thread(target=live, daemon=True)
        thread.start()
        until((self.folder / "started").exists)
        return thread

    def hear(self) -> None:
        """What control says of the leases, at once: else with the next heartbeat, a third of the lease later."""
        self.worker.leases.run_once()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def measured(self) -> list[dict[str, Any]]:
        """What the measuring process was asked, in order."""
        return [json.loads(line) for line in self.asked.read_text().splitlines()] if self.asked.exists() else []

    def close(self) -> None:
        self.worker.stop()
        self.worker.close()
        self.client.close()
        self.starter.close()


@contextmanager
def workshop(folder: Path, environment: dict[str, str], chaos: Chaos | None = None) -> Iterator[Workshop]:
    with scripted_control() as control:
        shop = Workshop(control, folder, environment, chaos or Chaos())
        try:
            yield shop
        finally:
            shop.close()


def ended(thread: threading.Thread, seconds: float = 60) -> None:
    thread.join(seconds)
    assert not thread.is_alive()


def processes_with(text: str) -> list[int]:
    """Pids of processes that have a text among their arguments."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def payload(
    *, operator: str = "ingest_files", config: dict[str, Any], task: UUID | None = None, attempt: int = 1, lease_seconds: float = 30, timeout_seconds: int = 60,
    update_strategy: str = "append", state: dict[str, Any] | None = None, batch: dict[str, Any] | None = None, posted: list[str] | None = None,
    inputs: list[dict[str, Any]] | None = None, scopes: list[Scope] | None = None, current: list[TableFile] | None = None, staging: str | None = None,
    base: int = 7, locations: dict[str, str] | None = None,
) -> TaskPayload:
    id = task or uuid4()
    return TaskPayload.model_validate(
        {
            "task_id": id, "attempt": attempt, "status": "running", "org_id": uuid4(), "dag": {"name": "sample", "version": 1},
            "job": {
                "key": "main/sample/job", "name": "job", "operator": operator, "runtime": "spark", "config": config, "config_hash": "h",
                "update_strategy": update_strategy, "unique_key": ["id"], "execution_strategy": None, "timeout_seconds": timeout_seconds,
            },
            "locations": locations or {},
            "trigger": {"kind": "request", "id": uuid4(), "event_kind": None, "scope": None, "event_time": None, "payload": {}, "seen_before": False},
            "inputs": inputs or [],
            "outputs": [
                {
                    "index": 0, "dataset_uuid": uuid4(), "dataset_version": uuid4(), "layer": "bronze",
                    "staged": {
                        "location": LOCATION, "staging": staging or f"{LOCATION}/{id}-{attempt}", "everything": True,
                        "scopes": [scope.model_dump() for scope in scopes or [FullScope()]], "partition_by": None, "table_schema": None, "rules": [],
                        "current": [file.model_dump() for file in current or []],
                    },
                }
            ],
            "base": base, "state": {"revision": 1 if state else 0, "value": state}, "batch": batch, "posted": posted or [],
            "idempotency": {"producer_task_id": id, "key_prefix": str(id)}, "slot": {"pool": "default"},
            "limits": {"lease_seconds": lease_seconds, "max_events": 10_000},
        }
    )  # fmt: skip


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_gone(pids: list[int], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process did not end"
        time.sleep(0.02)
