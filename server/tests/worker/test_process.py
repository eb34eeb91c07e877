"""The worker as a process: it starts from its settings, dies at the named moment, and stops on a signal."""

import json
import signal
import time
from pathlib import Path

import pytest
from support.controls import EMIT
from support.ports import refusing

from tracelake.settings import read_settings
from tracelake.worker.process import build
from tracelake_sdk.errors import NotRunning, SettingInvalid
from tracelake_sdk.home import HomeFiles

from .processes import PATIENT, Workers, polls, until
from .test_dispatcher_worker import CHAIN, RANGES, STATES


@pytest.mark.proves("T9.1")
@pytest.mark.proves("G1.6")
@pytest.mark.parametrize("moment", ["worker_claimed*2", "worker_ran*2", "worker_completing*3", "worker_completed*2"])
def test_a_worker_that_is_killed_leaves_nothing_undone_and_nothing_done_twice(moment: str, workers: Workers):
    control_plane = workers.control_plane
    control_plane.deploy(CHAIN, max_attempts=50)  # a lease of a second may end by itself on a slow machine
    control_plane.emit(3, 10, 25, 47)
    first = workers.start(TRACELAKE__CHAOS__KILL_AT=moment)
    assert first.wait(60) == -signal.SIGKILL
    workers.start()
    until(lambda: dict(control_plane.query(STATES)) == {"completed": 1 + 4 + 4 + 8})
    tens = [(start, start + 10) for start in range(0, 40, 10)]
    fives = [(start, start + 5) for start in range(0, 40, 5)]
    assert control_plane.query(RANGES) == sorted(tens + fives, key=lambda scope: (scope[1], scope[0]))
    assert control_plane.one("SELECT count(*) FROM event_ledger") == 4 + 4 + 8
    assert control_plane.one("SELECT count(*) FROM task_attempt WHERE ended_at IS NULL") == 0
    assert control_plane.one("SELECT count(*) FROM task_attempt") == control_plane.one("SELECT count(*) FROM run_history")


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_a_polling_worker_stops_at_once(asked: signal.Signals, workers: Workers):
    worker = workers.start()
    until(lambda: polls(workers.control_plane))
    began = time.monotonic()
    worker.send_signal(asked)
    assert worker.wait(20) == 0
    assert time.monotonic() - began < 10  # its poll would have gone on for 20 seconds
    assert [json.loads(line)["event"] for line in workers.log().splitlines()] == ["started", "stopped"]


@pytest.mark.parametrize("workers", [PATIENT], indirect=True, ids=["patient"])
def test_a_worker_that_stops_leaves_its_tasks_to_others_without_a_failure(workers: Workers):
    control_plane = workers.control_plane
    control_plane.deploy(EMIT)
    control_plane.emit(*range(2000))
    worker = workers.start(TRACELAKE__WORKER__PREFETCH="10")
    until(lambda: control_plane.one("SELECT count(*) FROM task WHERE state = 'completed'") > 20)
    worker.terminate()
    assert worker.wait(60) == 0
    assert control_plane.one("SELECT count(*) FROM task WHERE state = 'running'") == 0
    assert control_plane.one("SELECT max(failures) FROM task") == 0
    workers.start()
    until(lambda: dict(control_plane.query(STATES)) == {"completed": 2001})
    assert set(control_plane.query("SELECT DISTINCT outcome::text FROM task_attempt")) <= {("succeeded",), ("given_back",)}


def test_a_worker_outlives_the_absence_of_control(workers: Workers):
    control_plane = workers.control_plane
    with refusing() as url:
        worker = workers.start(TRACELAKE__WORKER__API_URL=url, TRACELAKE_LOG_LEVEL="warning")
        until(lambda: "control does not answer" in workers.log())
        assert worker.poll() is None
        worker.terminate()
        assert worker.wait(60) == 0
    entry = json.loads(workers.log().splitlines()[0])
    assert (entry["level"], entry["code"]) == ("warning", "not_running")
    assert control_plane.worker.name not in workers.log()


def test_a_worker_with_a_wrong_token_ends_with_an_error(workers: Workers):
    worker = workers.start(TRACELAKE__WORKER__TOKEN="no-such-token")
    assert worker.wait(60) == 1
    assert "error [unauthenticated]" in workers.log()
    assert "no-such-token" not in workers.log()


def test_the_home_of_a_running_system_is_enough_to_find_it(tmp_path: Path):
    files = HomeFiles(tmp_path)
    with pytest.raises(NotRunning, match="tracelake up"):
        build(read_settings(home=tmp_path), "w")
    files.running.write_text(json.dumps({"api_url": "http://127.0.0.1:1", "pid": 1}))
    with pytest.raises(SettingInvalid, match="TRACELAKE__WORKER__TOKEN"):
        build(read_settings(home=tmp_path), "w")
    files.credentials.write_text(json.dumps({"worker_token": "t"}))
    build(read_settings(home=tmp_path), "w")
    with pytest.raises(SettingInvalid, match="TRACELAKE__WORKER__API_URL"):
        build(read_settings(home=tmp_path, worker={"api_url": "localhost:80"}), "w")
