"""A command that is given right after `tracelake up` waits for the system that is starting."""

import fcntl
import json
import threading
from pathlib import Path

import pytest

from tracelake_sdk.client.addresses import find_system
from tracelake_sdk.errors import NotRunning
from tracelake_sdk.home import HomeFiles


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomeFiles:
    monkeypatch.setenv("TRACELAKE_HOME", str(tmp_path))
    for name in ("TRACELAKE_API_URL", "TRACELAKE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials.json").write_text(json.dumps({"admin_token": "t"}))
    return HomeFiles(tmp_path)


def test_a_system_that_starts_is_waited_for_and_that_is_said(home: HomeFiles, caplog: pytest.LogCaptureFixture):
    with home.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert home.is_held()
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
    assert not home.is_held()
    with pytest.raises(NotRunning):
        find_system(patience=3600)


def test_a_system_that_does_not_start_in_time_is_not_running(home: HomeFiles):
    with home.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NotRunning):
            find_system(patience=0.3)
