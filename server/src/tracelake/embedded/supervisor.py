"""`tracelaked up`: one supervisor that starts the processes of a system, restarts those that end, and stops all of them when it stops."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, cast

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict

from tracelake.control.database import migrations
from tracelake.control.database.roles import OWNER, SERVICE
from tracelake.embedded.binaries import PostgresBinaries, find_binaries
from tracelake.embedded.leftovers import SUPERVISOR, SystemState
from tracelake.embedded.locks import FolderLock
from tracelake.embedded.parts import KeptUp, Program
from tracelake.embedded.ports import is_free, kept_port
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres, prepare_databases
from tracelake.embedded.processes import Child, ProcessIdentity
from tracelake.embedded.readiness import is_ready, url_of, why_not_ready
from tracelake.files import rotate, write_whole
from tracelake.logging_setup import LossyText
from tracelake.loops import Loop
from tracelake.settings import Settings
from tracelake_sdk.errors import SettingInvalid, StartFailed
from tracelake_sdk.home import HomeFiles

POSTGRES, CONTROL, WORKER, QUERY = "postgres", "control", "worker", "query"

_READY_SECONDS = 120
_LOOK_SECONDS = 0.5
_READINESS_SECONDS = 2.0


@dataclass(frozen=True)
class ChildCommands:
    """How the children are started."""

    control: tuple[str, ...] = (sys.executable, "-m", "tracelake.main", "control")
    worker: tuple[str, ...] = (sys.executable, "-m", "tracelake.main", "worker")
    query: tuple[str, ...] = (sys.executable, "-m", "tracelake.main", "query")


def run_migrations(owner_url: str, service_url: str | None = None, *, records_alone: bool = False) -> list[str]:
    """Apply the migrations that the database lacks, and return their names; `service_url` names the service's login role."""
    sets = (migrations.CORE, migrations.RECORDS) if records_alone else migrations.ALL_SETS
    try:
        service = conninfo_to_dict(service_url).get("user") if service_url else None
        return migrations.migrate(owner_url, service=str(service or SERVICE), sets=sets)
    except psycopg.ProgrammingError as error:
        if error.sqlstate is not None:  # a statement's own
            raise
        raise SettingInvalid("TRACELAKE_DATABASE_URL: the address of a database is like postgresql://role:password@host:5432/name") from None
    except psycopg.OperationalError as error:
        raise StartFailed(f"the database does not answer: {' '.join(str(error).split())}") from None


class Supervisor:
    """The processes of one home. `run()` is the whole life; `start()`, `run_once()` and `stop()` are its steps."""

    def __init__(
        self, settings: Settings, *, say: Callable[[str], None], on_ready: Callable[[str], None] = lambda api_url: None,
        commands: ChildCommands | None = None, migrate: Callable[[str, str | None], list[str]] = run_migrations, binaries: PostgresBinaries | None = None, durable: bool = True,
        held_lock: int | None = None,
    ) -> None:
        self._settings = settings
        self._home = settings.home.absolute()
        self._files = HomeFiles(self._home)
        self._logs = self._home / "logs"
        self._say = say
        self._on_ready = on_ready
        self._commands = commands or ChildCommands()
        self._migrate = migrate
        self._binaries = binaries
        self._durable = durable
        self._held_lock = held_lock  # a descriptor that may already hold the home's lock
        self._stopping = threading.Event()
        self._lock = FolderLock(self._home / "lock")
        self._state = SystemState(self._home / "state.json")
        self._parts: list[KeptUp] = []
        self._postgres: EmbeddedPostgres | None = None
        self._api_port = 0
        self._query_port = 0  # 0: the query process runs elsewhere
        self._port_of_control = 0  # the port of Postgres that control got
        self._state_is_old = False  # the last write failed
        self._unready: dict[str, float] = {}  # parts that are not ready, and since when
        self._log_file: LossyText | None = None
        self._log: Any = None

    @property
    def api_url(self) -> str:
        return url_of(self._settings.api.host, self._api_port)

    def run(self) -> None:
        """Start, keep everything up until SIGINT, SIGTERM or SIGHUP asks to stop, then stop."""
        with self._stopping_on_signals():
            try:
                self.start()
                if not self._stopping.is_set():
                    self._on_ready(self.api_url)
                    self._keep_up()
            except StartFailed:
                if not self._stopping.is_set():
                    raise
            except OSError as error:
                raise StartFailed(f"{self._home} cannot be used ({error.strerror}); free some space on its disk, or choose another TRACELAKE_HOME") from None
            finally:
                self.stop()

    def _keep_up(self) -> None:
        looking = Loop("supervisor", self.run_once, pause=_LOOK_SECONDS, log=self._log)
        readiness = Loop("readiness", self.look_at_readiness, pause=_READINESS_SECONDS, log=self._log)
        readiness.start()
        while not self._stopping.wait(looking.take_turn()):
            pass
        readiness.ask_to_stop()

    def ask_to_stop(self) -> None:
        """Make `run()` return."""
        self._stopping.set()

    def start(self) -> None:
        """Start everything in order; when this returns and no stop was requested, every part is ready."""
        self._lock.take(
            f"a Tracelake system already runs in {self._home}", remedy="; stop it first, or choose another TRACELAKE_HOME", held=self._held_lock
        )
        self._open_log()
        self._files.running.unlink(missing_ok=True)
        # EmbeddedPostgres ends its own leftovers: it waits for the last of its processes.
        if ended := self._state.end_leftovers(except_for=frozenset({POSTGRES})):
            self._say(f"stopped processes of a killed system: {', '.join(ended)}")
            self._log.warning("ended leftovers", parts=ended)
        self._api_port = self._settings.api.port or kept_port(self._home / "api.port")
        if not is_free(self._api_port, host=self._settings.api.host):
            raise StartFailed(f"port {self._api_port} on {self._settings.api.host} is taken; free it or set TRACELAKE__API__PORT to another")
        if self._settings.query.url is None:
            self._query_port = self._settings.query.port or kept_port(self._home / "query.port")
        self._write_state()
        self._start_postgres()
        self._run_migrations()
        self._start(CONTROL, Program(self._begin_control))
        self._wait_until_ready(self._parts[-1], self.api_url)
        if self._stopping.is_set():
            return
        self._start(WORKER, Program(self._begin_worker))
        if self._query_port:
            self._start(QUERY, Program(self._begin_query))
            self._wait_until_ready(self._parts[-1], self._query_url)
        if self._stopping.is_set():
            return
        write_whole(self._files.running, json.dumps({"api_url": self.api_url, "pid": os.getpid()}) + "\n", mode=0o644)
        self._log.info("ready", api_url=self.api_url)

    def run_once(self) -> None:
        """Check every part once; restart one that ended when its pause is over."""
        now = time.monotonic()
        for part in self._parts:
            if part.run_once(now):
                self._report(f"{part.name} exited and was restarted; its log is {self._log_of(part.name)}")
                self._state_is_old = True
        self._restart_control_if_port_changed()
        if self._state_is_old:
            self._write_state()  # raises if the disk is full; the next check tries again
            self._state_is_old = False

    def look_at_readiness(self) -> None:
        """Report when a part is not ready, and when it is ready again."""
        urls = {CONTROL: self.api_url} | ({QUERY: self._query_url} if self._query_port else {})
        for name, url in urls.items():
            why = why_not_ready(url)
            if self._stopping.is_set():
                return
            if why is not None and name not in self._unready:
                self._unready[name] = time.monotonic()
                self._report(f"{name} is not ready: {why}")
            elif why is None and name in self._unready:
                self._report(f"{name} is ready again after {time.monotonic() - self._unready.pop(name):.0f} s")

    def _restart_control_if_port_changed(self) -> None:
        """If the port of Postgres was taken while it was down, it listens on another one; control must be restarted to use it."""
        control = next((part for part in self._parts if part.name == CONTROL), None)
        if self._postgres is None or control is None or self._postgres.port == self._port_of_control or control.part.exit_code is not None:
            return
        self._report(f"Postgres now listens on port {self._postgres.port}; restarting control")
        control.part.stop()

    def _report(self, line: str) -> None:
        with suppress(OSError):  # a full disk or a closed pipe must not stop the system
            self._say(line)

    def stop(self) -> None:
        """Stop everything in reverse order; a second call does nothing."""
        if self._log is None:
            return
        self._lock.say_stopping()
        self._files.running.unlink(missing_ok=True)
        for part in reversed(self._parts):
            part.stop()
        self._parts = []
        self._state.remove()
        self._log.info("stopped")
        self._close_log()
        self._lock.release()

    def _start(self, name: str, part: Program | EmbeddedPostgres) -> None:
        kept = KeptUp(name, part, log=self._log)
        self._parts.append(kept)
        kept.start(time.monotonic())
        self._write_state()

    def _start_postgres(self) -> None:
        if self._settings.database.url is not None:
            return
        binaries = self._binaries or find_binaries()
        self._say(f"starting Postgres {binaries.version} in {self._home / POSTGRES}")
        self._postgres = EmbeddedPostgres(self._home / POSTGRES, binaries, durable=self._durable, give_up=self._stopping.is_set)
        self._start(POSTGRES, self._postgres)
        prepare_databases(self._postgres.url(), self._postgres.passwords)

    def _run_migrations(self) -> None:
        given = self._settings.database
        if self._postgres:
            applied = self._migrate(self._postgres.url(STATE_DATABASE, OWNER), None)
        elif given.owner_url:
            applied = self._migrate(given.owner_url.get_secret_value(), given.url.get_secret_value() if given.url else None)
        else:
            return  # the schema is migrated elsewhere; control checks it at its start
        if applied:
            self._say(f"applied {len(applied)} migrations")
            self._log.info("migrated", applied=applied)

    def _begin_control(self) -> Child:
        # The owner's URL stays here: a process that serves requests must not be able to change the schema.
        environment = self._environment(without=("TRACELAKE_DATABASE_URL", "TRACELAKE__DATABASE__OWNER_URL"))
        own = {"TRACELAKE__API__PORT": str(self._api_port)} | ({"TRACELAKE__QUERY__URL": self._query_url} if self._query_port else {})
        self._port_of_control = self._postgres.port if self._postgres else 0
        return self._begin(CONTROL, self._commands.control, environment | self._database_urls() | own)

    def _begin_worker(self) -> Child:
        given = self._settings.worker.token
        token = given.get_secret_value() if given else self._files.worker_token()
        if token is None:
            raise StartFailed(f"control is ready but {self._files.credentials} has no worker token; set TRACELAKE__WORKER__TOKEN")
        # A worker calls only control: it gets no database URL.
        environment = self._environment(without=("TRACELAKE_DATABASE_URL", "TRACELAKE__DATABASE"))
        api_url = self._settings.worker.api_url or self.api_url
        return self._begin(WORKER, self._commands.worker, environment | {"TRACELAKE__WORKER__API_URL": api_url, "TRACELAKE__WORKER__TOKEN": token})

    def _begin_query(self) -> Child:
        given = self._settings.query.token
        token = given.get_secret_value() if given else self._files.query_token()
        if token is None:
            raise StartFailed(f"control is ready but {self._files.credentials} has no token for the query process; set TRACELAKE__QUERY__TOKEN")
        # It calls only control: it gets no database URL.
        environment = self._environment(without=("TRACELAKE_DATABASE_URL", "TRACELAKE__DATABASE", "TRACELAKE__WORKER"))
        api_url = self._settings.query.api_url or self.api_url
        own = {"TRACELAKE__QUERY__API_URL": api_url, "TRACELAKE__QUERY__TOKEN": token, "TRACELAKE__QUERY__PORT": str(self._query_port)}
        return self._begin(QUERY, self._commands.query, environment | own)

    def _begin(self, name: str, command: tuple[str, ...], environment: Mapping[str, str]) -> Child:
        return Child(name, command, log=self._log_of(name), environment=environment)

    def _environment(self, *, without: tuple[str, ...]) -> dict[str, str]:
        """Our environment with this home, without names that start with one of `without`, in any case."""
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith((*without, "TRACELAKE__HOME"))}
        return kept | {"TRACELAKE_HOME": str(self._home)}

    def _database_urls(self) -> dict[str, str]:
        if self._postgres:
            return {
                "TRACELAKE__DATABASE__URL": self._postgres.url(STATE_DATABASE, SERVICE),
                "TRACELAKE__DATABASE__DATA_URL": self._postgres.url(DATA_DATABASE, SERVICE),
            }
        given = {"TRACELAKE__DATABASE__URL": self._settings.database.url, "TRACELAKE__DATABASE__DATA_URL": self._settings.database.data_url}
        return {name: url.get_secret_value() for name, url in given.items() if url}

    @property
    def _query_url(self) -> str:
        return url_of(self._settings.query.host, self._query_port)

    def _wait_until_ready(self, kept: KeptUp, url: str) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        log = self._log_of(kept.name)
        while not is_ready(url):
            if kept.part.exit_code is not None:
                raise StartFailed(f"{kept.name} ended with exit code {kept.part.exit_code} before it answered{_last_error(log)}; its log is {log}")
            if time.monotonic() > deadline:
                raise StartFailed(f"{kept.name} did not answer {url}/readyz within {_READY_SECONDS} seconds; its log is {log}")
            if self._stopping.wait(0.05):
                return

    def _write_state(self) -> None:
        own = ProcessIdentity.find(os.getpid())
        found = {SUPERVISOR: own} | {part.name: part.part.identity for part in self._parts}
        ports = {"api": self._api_port} | ({POSTGRES: self._postgres.port} if self._postgres else {}) | ({QUERY: self._query_port} if self._query_port else {})
        self._state.write({name: identity for name, identity in found.items() if identity}, ports)

    def _log_of(self, name: str) -> Path:
        return self._home / POSTGRES / "postgres.log" if name == POSTGRES else self._logs / f"{name}.log"

    def _open_log(self) -> None:
        file = self._log_of(SUPERVISOR)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        rotate(file)
        self._log_file = LossyText(file.open("a"))
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(cast("TextIO", self._log_file)),
            processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()],
        )

    def _close_log(self) -> None:
        if self._log_file:
            self._log_file.close()
        self._log_file = self._log = None

    @contextmanager
    def _stopping_on_signals(self) -> Generator[None]:
        def ask(number: int, frame: FrameType | None) -> None:
            self.ask_to_stop()

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _last_error(log: Path) -> str:
    """The last error of a process that ended, if it printed one."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f": {lines[-1].rstrip('.')}" if lines and lines[-1].startswith("error [") else ""
