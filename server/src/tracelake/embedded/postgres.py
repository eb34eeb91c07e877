"""Launches a Postgres in one folder: created completely or not at all, ended with its launcher, restarted after any kill.

It runs as the current user; root runs it as nobody in a user namespace, because Postgres refuses root.
"""

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from tracelake.control.database import roles
from tracelake.embedded.binaries import PostgresBinaries
from tracelake.embedded.locks import FolderLock
from tracelake.embedded.ports import is_free, kept_port
from tracelake.embedded.processes import Child, ProcessIdentity, Requests
from tracelake.files import sync_folder, write_whole
from tracelake.launch import command_that_dies_with_us
from tracelake_sdk.errors import StartFailed

SUPERUSER = "tracelake_superuser"
STATE_DATABASE = "tracelake_state"
DATA_DATABASE = "tracelake_data"

# Fast shutdown (open transactions are rolled back), then immediate, then SIGKILL.
_STOP: Requests = ((signal.SIGINT, 30), (signal.SIGQUIT, 10), (signal.SIGKILL, 10))
_UNFINISHED = "data.unfinished-"
_TRIES = 5
_INITDB_SECONDS = 120
_START_SECONDS = 300  # recovery after a kill may take long; a Postgres that ends is noticed at once

_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "jit": "off",
    "autovacuum": "on",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %u@%d ",
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """One Postgres and its folder: `data/`, `passwords/`, `port`, `postgres.log`."""

    def __init__(
        self, folder: Path, binaries: PostgresBinaries, *, port: int | None = None, durable: bool = True, options: Mapping[str, str] | None = None,
        give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder.absolute()
        self.binaries = binaries
        self.log = self.folder / "postgres.log"
        self.passwords = Passwords(self.folder / "passwords")
        self._data = self.folder / "data"
        self._given_port = port
        self._durable = durable
        self._options = dict(_OPTIONS) | ({} if durable else _NOT_DURABLE) | dict(options or {})
        self._port_file = self.folder / "port"
        self._server: Child | None = None
        self._lock = FolderLock(self.folder / "lock")
        self._give_up = give_up

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The postmaster's, while it runs."""
        return self._server.pid if self._server and self._server.exit_code is None else None

    @property
    def identity(self) -> ProcessIdentity | None:
        return self._server.identity if self._server else None

    @property
    def exit_code(self) -> int | None:
        """How the postmaster ended; None while it runs."""
        return self._server.exit_code if self._server else 0

    @property
    def port(self) -> int:
        """The port it listens on, or the last one it had."""
        if not self._port_file.exists():
            raise StartFailed(f"the Postgres in {self.folder} was never started, so it has no port")
        return int(self._port_file.read_text())

    def url(self, database: str = "postgres", role: str = SUPERUSER) -> str:
        """The URL of this database for this role, with the password."""
        # Explicit, so that PGSSLMODE and the like, meant for another Postgres, have no effect here.
        return f"postgresql://{role}:{self.passwords.get(role)}@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def start(self) -> None:
        """Create the folder if it is new, end what a killed launcher left behind, start, and return when Postgres accepts connections."""
        self._lock.take(f"another process runs the Postgres in {self.folder}; stop it first")
        try:
            self._end_leftovers()
            if not self._data.exists():
                self._make_data_folder()
            self._check_major()
            self._start_in_a_few_tries()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it cleanly; a second stop does nothing."""
        if self._server:
            self._server.stop(_STOP)
            self._server = None
            self._end_leftovers()  # the processes of a postmaster that was killed
        self._lock.release()

    def _end_leftovers(self) -> None:
        """We hold the lock, so a Postgres that runs in our folder has lost its launcher. No other process is touched."""
        unfinished = list(self.folder.glob(_UNFINISHED + "*"))
        for data in (self._data, *unfinished):
            if (postmaster := _postmaster(data)) in _processes_in(data) and postmaster:
                postmaster.end(_STOP)
            for identity in _processes_in(data):
                if not identity.end(((signal.SIGQUIT, 10), (signal.SIGKILL, 10))):
                    raise StartFailed(f"process {identity.pid} of a former Postgres in {data} does not end; end it, then try again")
        for data in unfinished:
            shutil.rmtree(data)
        # Safe now that nothing runs there. If the file stayed, its pid could belong to another process, and Postgres would not start.
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def _make_data_folder(self) -> None:
        fresh = self.folder / f"{_UNFINISHED}{uuid4().hex}"
        self.passwords.make(SUPERUSER)
        command = [
            self.binaries.folder / "initdb", "--pgdata", fresh, "--username", SUPERUSER, "--pwfile", self.passwords.file(SUPERUSER),
            "--auth=scram-sha-256", "--data-checksums", "--encoding=UTF8",
            "--locale=C",  # byte order: the same on every machine, and after every upgrade of the C library
            *([] if self._durable else ["--no-sync"]),
        ]
        with self.log.open("a") as log:
            code = _run(command_that_dies_with_us(command, death=signal.SIGKILL, rights="unprivileged" if _is_root() else "as-is"), log=log, folder=self.folder)
        if code != 0:
            raise self._failure("initdb failed")
        # Last: a crash before it leaves a folder to remove, never an incomplete one in use.
        fresh.rename(self._data)
        sync_folder(self.folder)

    def _check_major(self) -> None:
        made_by = (self._data / "PG_VERSION").read_text().strip()
        if made_by != str(self.binaries.major):
            raise StartFailed(
                f"{self._data} was created by Postgres {made_by}, and {self.binaries.folder} is Postgres {self.binaries.version}; set TRACELAKE_POSTGRES_BIN "
                f"to the bin folder of a Postgres {made_by}, or use another TRACELAKE_HOME"
            )

    def _start_in_a_few_tries(self) -> None:
        for attempt in range(_TRIES):
            self._server = Child(
                "postgres", self._command(self._choose_port()), log=self.log, folder=self.folder, death=signal.SIGINT, unprivileged=_is_root(),
                environment={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            )
            if self._answers():
                return
            self._end_leftovers()
            time.sleep(0.2 * (attempt + 1))  # the kernel needs a moment to clean up after a kill
        raise self._failure("Postgres did not start")

    def _choose_port(self) -> int:
        if self._given_port is None:
            return kept_port(self._port_file)
        if not is_free(self._given_port):
            raise StartFailed(f"port {self._given_port} on 127.0.0.1 is taken; free it, or omit the port to use a free one")
        write_whole(self._port_file, f"{self._given_port}\n", mode=0o644)
        return self._given_port

    def _command(self, port: int) -> list[str | Path]:
        command: list[str | Path] = [self.binaries.folder / "postgres", "-D", self._data, "-p", str(port)]
        for name, value in self._options.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _answers(self) -> bool:
        """Wait until it accepts connections; False if it ended instead."""
        assert self._server is not None  # noqa: S101  only called after it was made
        deadline = time.monotonic() + _START_SECONDS
        pause = 0.02
        while time.monotonic() < deadline:
            with suppress(psycopg.OperationalError):  # not listening yet, or still in recovery
                psycopg.connect(self.url(), connect_timeout=5).close()
                return True
            if self._server.wait(pause):
                return False
            if self._give_up():
                raise StartFailed("Postgres was stopped before it was ready")
            pause = min(pause * 1.5, 0.5)  # during a long recovery Postgres logs every connection
        raise self._failure(f"Postgres did not answer within {_START_SECONDS} seconds")

    def _failure(self, what: str) -> StartFailed:
        if reason := self.binaries.why_not_runnable():
            return StartFailed(f"{reason}; run Tracelake as a normal user, or set TRACELAKE_DATABASE_URL to a Postgres that runs elsewhere")
        return StartFailed(f"{what}; its log is {self.log}")


class Passwords:
    """One random password per role, each in a file that only its owner may read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, role: str) -> Path:
        return self._folder / role

    def get(self, role: str) -> str:
        return self.file(role).read_text().strip()

    def make(self, role: str) -> str:
        """A new password for the role, in place of any it had."""
        self._folder.mkdir(exist_ok=True, mode=0o700)
        password = secrets.token_urlsafe(32)
        write_whole(self.file(role), password + "\n")
        return password

    def get_or_make(self, role: str) -> str:
        return self.get(role) if self.file(role).exists() else self.make(role)


def prepare_databases(superuser_url: str, passwords: Passwords) -> None:
    """The four roles and the state and data databases, owned by the owner role and closed to everybody else; a second call changes nothing."""
    logins = {role: passwords.get_or_make(role) for role in (roles.OWNER, roles.SERVICE)}
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        with connection.transaction():
            roles.prepare_roles(connection, passwords=logins)
        existing = {name for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()}
        for database in (STATE_DATABASE, DATA_DATABASE):
            if database not in existing:
                roles.create_database(connection, database, owner=roles.OWNER)
    for database in (STATE_DATABASE, DATA_DATABASE):
        with psycopg.connect(make_conninfo(superuser_url, dbname=database)) as connection:
            roles.close_database(connection)


def _run(command: list[str], *, log: TextIO, folder: Path) -> int | None:
    """The exit code; None when it took too long and was killed."""
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, timeout=_INITDB_SECONDS, cwd=folder, start_new_session=True
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def _is_root() -> bool:
    return os.geteuid() == 0


def _postmaster(data: Path) -> ProcessIdentity | None:
    try:
        first = (data / "postmaster.pid").read_text().partition("\n")[0]
    except FileNotFoundError:
        return None
    return ProcessIdentity.find(int(first)) if first.strip().isdecimal() else None


def _processes_in(data: Path) -> list[ProcessIdentity]:
    """The Postgres processes of this data folder: each has it as its working folder."""
    found: list[ProcessIdentity] = []
    for process in Path("/proc").glob("[0-9]*"):
        # Processes of other users cannot be read, and any may end meanwhile: neither is ours.
        with suppress(PermissionError, FileNotFoundError, ProcessLookupError):
            program = (process / "exe").readlink().name.removesuffix(" (deleted)")
            if program == "postgres" and (process / "cwd").readlink() == data.resolve() and (identity := ProcessIdentity.find(int(process.name))):
                found.append(identity)
    return found
