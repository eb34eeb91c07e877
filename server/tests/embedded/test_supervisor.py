"""`tracelaked up`: one at a time, back after any kill, and nothing left behind."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from support.parquet_operator import COMMAND

from tracelake.control.database.roles import OWNER, SERVICE
from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.parts import KeptUp
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres, prepare_databases
from tracelake.embedded.processes import ProcessIdentity
from tracelake.embedded.readiness import is_ready, url_of
from tracelake.embedded.supervisor import ChildCommands, Supervisor
from tracelake.settings import DatabaseSettings, Settings, read_settings
from tracelake_sdk.client import Client
from tracelake_sdk.errors import StartFailed, SystemBusy
from tracelake_sdk.home import HomeFiles

from .watching import begun, eventually

STAND_IN = Path(__file__).with_name("stand_in.py")
STAND_INS = ChildCommands(*((sys.executable, str(STAND_IN), part) for part in ("control", "worker", "query")))
REAL: dict[str, Any] = {"program": ("-m", "tracelake.main", "up"), "ready": "Tracelake is up at http"}
PARTS = ("supervisor", "postgres", "control", "worker", "query")


def identities(home: Path) -> dict[str, ProcessIdentity]:
    state = json.loads((home / "state.json").read_text())
    return {name: ProcessIdentity(**found) for name, found in state["processes"].items()}


def given_to(home: Path, name: str) -> dict[str, str]:
    return json.loads((home / f"{name}.given.json").read_text())


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    home = tmp_path / "home"
    yield home
    # What a failed test left running; its start time says that it is still the same process.
    if (home / "state.json").exists():
        for identity in identities(home).values():
            if identity.pid != os.getpid():
                identity.end()


def runs(home: Path) -> int | None:
    """Who says that everything answers."""
    file = HomeFiles(home).running
    return json.loads(file.read_text())["pid"] if file.exists() else None


def said(home: Path) -> str:
    """What the last supervisor process of the home has said until now."""
    return home.with_name("said").read_text()


@contextmanager
def up(
    home: Path, *, program: tuple[str, ...] = (str(STAND_IN), "up"), ready: str = "ready http", settings: Mapping[str, str] = MappingProxyType({})
) -> Generator[subprocess.Popen[str]]:
    """A supervisor in a process of its own that has said that it is ready."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE__")} | {"TRACELAKE_HOME": str(home)} | dict(settings)
    with (
        home.with_name("said").open("w") as says,
        subprocess.Popen([sys.executable, *program], stdout=says, stderr=subprocess.PIPE, text=True, env=environment) as process,
    ):
        try:
            assert eventually(lambda: (runs(home) == process.pid and ready in said(home)) or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)


def supervisor(home: Path, **changes: Any) -> Supervisor:
    given: dict[str, Any] = {"say": lambda line: None, "commands": STAND_INS, "migrate": lambda url, service: [], "durable": False}
    return Supervisor(read_settings(home=home), **(given | changes))


def api_answers(home: Path) -> bool:
    api_url = HomeFiles(home).api_url()
    return api_url is not None and is_ready(api_url)


STOPPED_WORKER = """
import os, pathlib, signal, sys
from tracelake_sdk.home import HomeFiles
home = pathlib.Path(os.environ["TRACELAKE_HOME"])
def end(*_):
    (home / "seen").write_text(f"{HomeFiles(home).is_starting()} {HomeFiles(home).is_stopping()}")
    sys.exit()
signal.signal(signal.SIGTERM, end)
(home / "waits").touch()
signal.pause()
"""


def test_a_lock_that_was_taken_for_it_is_its_own_and_a_system_that_stops_says_so(home: Path) -> None:
    files = HomeFiles(home)
    held = files.hold()
    assert held is not None
    system = supervisor(home, held_lock=held, commands=dataclasses.replace(STAND_INS, worker=(sys.executable, "-c", STOPPED_WORKER)))
    system.start()
    assert eventually((home / "waits").exists)
    assert (files.is_starting(), files.is_stopping()) == (True, False)
    system.stop()
    assert (home / "seen").read_text() == "False True"
    assert (files.is_starting(), files.is_stopping()) == (False, False)


@pytest.mark.proves("X.2")
def test_up_starts_everything_and_a_signal_stops_everything(home: Path) -> None:
    for request in (signal.SIGTERM, signal.SIGINT):
        with up(home) as process:
            running = json.loads(HomeFiles(home).running.read_text())
            assert running == {"api_url": running["api_url"], "pid": process.pid}
            assert api_answers(home)
            processes = identities(home)
            assert tuple(processes) == PARTS
            assert all(identity.alive for identity in processes.values())
            process.send_signal(request)
            _, complained = process.communicate(timeout=180)
            assert (process.returncode, complained) == (0, "")
            assert said(home).endswith(f"ready {running['api_url']}\n")
        assert not any(identity.alive for identity in processes.values())
        assert not HomeFiles(home).running.exists()
        assert not (home / "state.json").exists()


def test_a_second_up_is_refused_while_the_first_runs(home: Path) -> None:
    with up(home) as process:
        before = identities(home)
        with pytest.raises(SystemBusy, match=rf"^a Tracelake system already runs in {home} \(process {process.pid}\); stop it first"):
            supervisor(home).run()
        assert identities(home) == before
        assert api_answers(home)


@pytest.mark.proves("X.2")
def test_after_a_kill_nothing_is_left_and_the_next_up_resumes(home: Path) -> None:
    with up(home) as process:
        first, address = identities(home), HomeFiles(home).api_url()
        with psycopg.connect(EmbeddedPostgres(home / "postgres", find_binaries()).url(STATE_DATABASE, OWNER)) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 'here' AS word")
            connection.execute("SET LOCAL synchronous_commit TO on")
        process.kill()
        assert process.wait() == -signal.SIGKILL
    # The worker and control die with it, Postgres ends cleanly after it.
    assert eventually(lambda: not any(identity.alive for identity in first.values()))
    with up(home):
        assert HomeFiles(home).api_url() == address
        with psycopg.connect(EmbeddedPostgres(home / "postgres", find_binaries()).url(STATE_DATABASE, OWNER)) as connection:
            assert connection.execute("SELECT word FROM kept").fetchone() == ("here",)


def test_an_up_at_once_after_a_kill_resumes_too(home: Path) -> None:
    for _ in range(3):
        with up(home) as process:
            process.kill()
            assert process.wait() == -signal.SIGKILL
    with up(home):
        assert api_answers(home)


def test_leftovers_are_ended_exactly_and_a_stranger_with_a_recycled_pid_survives(home: Path) -> None:
    home.mkdir()
    sleep = [sys.executable, "-c", "import signal; signal.pause()"]
    with begun(sleep) as leftover, begun(sleep) as stranger:
        found = ProcessIdentity.find(leftover.pid)
        assert found
        processes = {"control": {"pid": found.pid, "started": found.started}, "worker": {"pid": stranger.pid, "started": "before the last boot"}}
        (home / "state.json").write_text(json.dumps({"processes": processes, "ports": {}}))
        said: list[str] = []
        system = supervisor(home, say=said.append)
        system.start()
        system.stop()
        assert leftover.wait(10) == -signal.SIGTERM
        assert stranger.poll() is None
    assert "stopped processes of a killed system: control" in said


def test_a_part_that_died_is_started_again(home: Path) -> None:
    said: list[str] = []
    system = supervisor(home, say=said.append)
    system.start()
    try:
        for name in ("query", "worker", "control", "postgres"):
            before = identities(home)
            os.kill(before[name].pid, signal.SIGKILL)

            def is_back(name: str = name, before: dict[str, ProcessIdentity] = before) -> bool:
                system.run_once()
                after = identities(home)
                return after[name] != before[name] and after[name].alive

            assert eventually(is_back)
            assert {other: identity for other, identity in identities(home).items() if other != name} == {other: identity for other, identity in before.items() if other != name}
        assert eventually(lambda: api_answers(home))
        with psycopg.connect(EmbeddedPostgres(home / "postgres", find_binaries()).url(STATE_DATABASE, SERVICE)) as connection:
            assert connection.execute("SELECT current_user").fetchone() == (SERVICE,)
    finally:
        system.stop()
    assert [line.partition(" exited")[0] for line in said[1:]] == ["query", "worker", "control", "postgres"]
    events = [json.loads(line) for line in (home / "logs" / "supervisor.log").read_text().splitlines()]
    assert {(event["part"], event["exit_code"]) for event in events if event["event"] == "ended"} == {(name, -9) for name in PARTS[1:]}


def test_each_child_gets_what_it_needs_and_nothing_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAKE__DATABASE__POOL_SIZE", "5")
    migrated: list[str] = []
    system = supervisor(home, migrate=lambda url, service: migrated.append(url) or [])
    system.start()
    try:
        assert eventually((home / "worker.given.json").exists)
        control, worker, query = given_to(home, "control"), given_to(home, "worker"), given_to(home, "query")
        postgres = EmbeddedPostgres(home / "postgres", find_binaries())
        assert control["TRACELAKE__DATABASE__URL"] == postgres.url(STATE_DATABASE, SERVICE)
        assert control["TRACELAKE__DATABASE__DATA_URL"] == postgres.url(DATA_DATABASE, SERVICE)
        assert control["TRACELAKE__DATABASE__POOL_SIZE"] == "5"
        assert postgres.passwords.get(OWNER) not in json.dumps(control)
        assert worker["TRACELAKE__WORKER__TOKEN"] == "the-worker"
        assert worker["TRACELAKE__WORKER__API_URL"] == system.api_url
        assert not [name for name in worker if "DATABASE" in name]
        assert query["TRACELAKE__QUERY__TOKEN"] == "the-query"
        assert query["TRACELAKE__QUERY__API_URL"] == system.api_url
        assert control["TRACELAKE__QUERY__URL"] == f"http://127.0.0.1:{query['TRACELAKE__QUERY__PORT']}"
        assert not [name for name in query if "DATABASE" in name or "WORKER" in name]
        assert migrated == [postgres.url(STATE_DATABASE, OWNER)]
        secrets = [postgres.passwords.get(OWNER), postgres.passwords.get(SERVICE), "the-worker", "the-query"]
        for identity in identities(home).values():
            words = Path(f"/proc/{identity.pid}/cmdline").read_text()
            assert not [secret for secret in secrets if secret in words]
        logged = "".join(file.read_text() for file in (home / "logs").iterdir())
        assert not [secret for secret in secrets if secret in logged]
    finally:
        system.stop()


def test_the_same_processes_run_on_a_given_postgres(home: Path, tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "given", find_binaries(), durable=False) as given:
        prepare_databases(given.url(), given.passwords)
        database = DatabaseSettings(url=SecretStr(given.url(STATE_DATABASE, SERVICE)), owner_url=SecretStr(given.url(STATE_DATABASE, OWNER)))
        migrated: list[str] = []
        settings = Settings(home=home, database=database)
        system = Supervisor(settings, say=lambda line: None, commands=STAND_INS, migrate=lambda url, service: migrated.append(url) or ["core/0001"])
        system.start()
        try:
            assert tuple(identities(home)) == ("supervisor", "control", "worker", "query")
            assert not (home / "postgres").exists()
            assert migrated == [given.url(STATE_DATABASE, OWNER)]
            assert given_to(home, "control")["TRACELAKE__DATABASE__URL"] == given.url(STATE_DATABASE, SERVICE)
        finally:
            system.stop()
        assert given.exit_code is None


def test_a_control_that_gives_up_is_an_error_with_its_words_and_its_log(home: Path) -> None:
    program = "import sys; sys.exit('error [setting_invalid]: TRACELAKE__X: no.')"
    system = supervisor(home, commands=ChildCommands(control=(sys.executable, "-c", program)))
    with pytest.raises(StartFailed, match=r"control ended with exit code 1 before it answered: error \[setting_invalid\]: TRACELAKE__X: no; its log is .*control\.log"):
        system.run()
    assert not HomeFiles(home).running.exists()
    assert not (home / "state.json").exists()


def test_running_is_written_only_when_control_answers_and_a_stop_before_is_clean(home: Path) -> None:
    silent = ChildCommands(control=(sys.executable, "-c", "import signal; signal.pause()"))
    system = supervisor(home, commands=silent, migrate=lambda url, service: os.kill(os.getpid(), signal.SIGTERM) or [], on_ready=lambda api_url: pytest.fail("it is not ready"))
    system.run()
    assert not HomeFiles(home).running.exists()
    assert not (home / "state.json").exists()


def test_a_stale_running_file_is_gone_before_anything_starts(home: Path) -> None:
    home.mkdir()
    HomeFiles(home).running.write_text(json.dumps({"api_url": "http://127.0.0.1:1", "pid": 1}))
    seen: list[bool] = []
    system = supervisor(home, migrate=lambda url, service: seen.append(HomeFiles(home).running.exists()) or [])
    system.start()
    system.stop()
    assert seen == [False]


def test_a_port_that_is_taken_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StartFailed, match=f"port {port} on 127.0.0.1 is taken"):
            Supervisor(Settings(home=home).model_copy(update={"api": Settings(home=home).api.model_copy(update={"port": port})}), say=lambda line: None).run()


def test_a_server_that_listens_everywhere_is_called_on_loopback() -> None:
    assert [url_of(host, 80) for host in ("0.0.0.0", "::", "127.0.0.1", "::1")] == ["http://127.0.0.1:80", "http://[::1]:80", "http://127.0.0.1:80", "http://[::1]:80"]


class Silent:
    def info(self, event: str, **values: object) -> None: ...

    warning = error = info


class Fragile:
    """A part that ends at once, or does not even start, until it is healed."""

    identity = None
    exit_code: int | None = 1
    healed = False

    def __init__(self, *, failing: bool) -> None:
        self.failing = failing
        self.starts: list[float] = []
        self.now = 0.0

    def start(self) -> None:
        self.starts.append(self.now)
        if self.healed:
            self.exit_code = None
        elif self.failing and len(self.starts) > 1:
            raise StartFailed

    def stop(self) -> None: ...


@pytest.mark.parametrize("failing", [False, True])
def test_the_pause_before_a_restart_doubles_up_to_half_a_minute_and_falls_back_after_a_good_life(failing: bool) -> None:
    part = Fragile(failing=failing)
    kept = KeptUp("fragile", part, log=Silent())
    kept.start(part.now)

    def look_until(end: float) -> None:
        while part.now < end:
            kept.run_once(part.now)
            part.now += 0.05

    look_until(200)
    pauses = [later - earlier for earlier, later in pairwise(part.starts)]
    assert len(pauses) > 8
    assert all(wanted * 0.8 <= pause <= wanted + 0.2 for pause, wanted in zip(pauses, [0.5, 1, 2, 4, 8, 16, 30, 30], strict=False)), pauses
    part.healed = True
    look_until(310)
    assert part.exit_code is None
    part.exit_code = 1
    ended = part.now
    look_until(ended + 1)
    assert ended + 0.4 <= part.starts[-1] <= ended + 0.6


class TestTheWholeSystem:
    """With the real control and worker."""

    def test_up_answers_and_stops_cleanly(self, home: Path) -> None:
        with up(home, **REAL) as process:
            processes = identities(home)
            assert tuple(processes) == PARTS
            assert api_answers(home)
            assert HomeFiles(home).admin_token()
            process.send_signal(signal.SIGINT)
            _, complained = process.communicate(timeout=180)
            assert (process.returncode, complained) == (0, "")
            assert "Tracelake is up at http://127.0.0.1:" in said(home)
            assert said(home).endswith("Tracelake has stopped.\n")
        assert not any(identity.alive for identity in processes.values())

    def test_after_a_kill_the_next_up_has_the_same_address_and_token(self, home: Path) -> None:
        with up(home, **REAL) as process:
            first, files = identities(home), HomeFiles(home)
            before = files.api_url(), files.admin_token()
            process.kill()
        assert eventually(lambda: not any(identity.alive for identity in first.values()))
        with up(home, **REAL):
            assert (files.api_url(), files.admin_token()) == before
            assert api_answers(home)

    def test_a_control_that_was_killed_answers_again_at_the_same_address(self, home: Path) -> None:
        with up(home, **REAL):
            before, address = identities(home), HomeFiles(home).api_url()
            os.kill(before["control"].pid, signal.SIGKILL)
            assert eventually(lambda: identities(home)["control"] != before["control"] and api_answers(home))
            assert HomeFiles(home).api_url() == address
            assert {name: identity for name, identity in identities(home).items() if name != "control"} == {
                name: identity for name, identity in before.items() if name != "control"
            }


_LOADING = """
name: files
defaults: {domain: test, owner: test, max_attempts: 1}
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
"""


@pytest.mark.proves("X.2")
def test_ctrl_c_during_a_task_costs_no_failure_and_the_next_up_finishes_it(home: Path) -> None:
    here, started = home.with_name("here"), home.with_name("started")
    here.mkdir()
    first = {"touch": str(started), "wait_for": str(home.with_name("never"))}
    (here / "load.json").write_text(json.dumps({"rows": [[1, "a"]], "by_attempt": {"1": first}}))
    settings = {"TRACELAKE__LOCATIONS": json.dumps({"here": str(here)}), "TRACELAKE__WORKER__COMMANDS": json.dumps({"ingest_files": COMMAND})}
    with up(home, settings=settings, **REAL) as process:
        with Client(HomeFiles(home).api_url() or "", HomeFiles(home).admin_token() or "") as client:
            client.dags.deploy(_LOADING)
            client.dags.run("files", "load")
        assert eventually(started.exists)
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 0
    state = EmbeddedPostgres(home / "postgres", find_binaries()).url
    with up(home, settings=settings, **REAL), psycopg.connect(state(STATE_DATABASE), autocommit=True) as connection:
        assert eventually(lambda: connection.execute("SELECT state::text, failures FROM task").fetchall() == [("completed", 0)])
        outcomes = connection.execute("SELECT outcome::text FROM task_attempt ORDER BY attempt").fetchall()
    assert outcomes == [("given_back",), ("succeeded",)]
