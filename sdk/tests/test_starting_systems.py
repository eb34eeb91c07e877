"""A command that is given right after `tracelake up` waits for the system that is starting."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tracelake_sdk.client.addresses import find_system
from tracelake_sdk.errors import NotRunning
from tracelake_sdk.home import HomeFiles, write_lock_words


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomeFiles:
    monkeypatch.setenv("TRACELAKE_HOME", str(tmp_path))
    for name in ("TRACELAKE_API_URL", "TRACELAKE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials.json").write_text(json.dumps({"admin_token": "t"}))
    return HomeFiles(tmp_path)


def test_a_client_waits_for_a_starting_system_and_logs_it(home: HomeFiles, caplog: pytest.LogCaptureFixture):
    with home.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert home.is_starting()
        said = threading.Event()
        caplog.handler.addFilter(lambda record: said.set() or True)

        def start() -> None:
            assert said.wait(60)
            home.running.write_text(json.dumps({"api_url": "http://127.0.0.1:7777"}))

        starting = threading.Thread(target=start)
        starting.start()
        assert find_system(patience=60) == ("http://127.0.0.1:7777", "t")
        starting.join(60)
    assert [record.getMessage() for record in caplog.records] == [f"A Tracelake system is starting in {home.home}; waiting for it."]


def test_where_nothing_starts_nothing_is_waited_for(home: HomeFiles):
    home.lock.touch()  # of one that was killed: the kernel gave it back
    assert not home.is_starting()
    with pytest.raises(NotRunning):
        find_system(patience=3600)


def test_a_system_that_does_not_start_in_time_is_not_running(home: HomeFiles):
    with home.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NotRunning):
            find_system(patience=0.3)


def test_a_system_that_stops_is_not_waited_for(home: HomeFiles, caplog: pytest.LogCaptureFixture):
    home.running.write_text(json.dumps({"api_url": "http://127.0.0.1:7777"}))  # of one that was killed
    descriptor = home.hold()
    assert descriptor is not None
    assert home.api_url() is None
    assert home.is_starting()
    write_lock_words(descriptor, stopping=True)
    with pytest.raises(NotRunning, match="is stopping; when it has stopped, start it again"):
        find_system(patience=3600)
    os.close(descriptor)
    assert not home.is_stopping()
    assert caplog.records == []


def test_up_holds_its_home_before_anything_heavy_is_imported(tmp_path: Path):
    """The program that `up` becomes is a stand-in that shows what it is given."""
    server = tmp_path / "bin" / "tracelaked"
    server.parent.mkdir()
    server.write_text(f"#!{sys.executable} -IS\nimport fcntl, os, sys\nfcntl.flock(int(sys.argv[3]), fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint(sys.argv[1:3], os.getpid(), flush=True)\nsys.stdin.read()\n")
    server.chmod(0o755)
    files = HomeFiles(tmp_path / "home")
    program = f"""
import sys
sys.argv = ["tracelake", "up"]
from tracelake_sdk.cli import entry, invocation
print(entry.hold_home() is not None, sorted({{"typer", "rich", "pydantic", "httpx2"}} & set(sys.modules)), flush=True)
invocation.server_program = lambda: {str(server)!r}
entry.main()
"""
    environment = os.environ | {"TRACELAKE_HOME": str(files.home)}
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True []\n"
        assert process.stdout.readline() == f"['up', '--held-lock'] {process.pid}\n"
        assert files.is_starting(), "what it became holds the lock"
        process.communicate()
    assert not files.is_starting()
