"""A loop of a worker that fails is named where an operator looks: in the metrics of control and by the doctor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.controls import ControlPlane, scraped

from tracelake.control.worker_loops.health import check
from tracelake.control_client import ControlClient
from tracelake.embedded.doctor import examine
from tracelake.loops import FAILING_AFTER, Loop, Loops
from tracelake.worker.loop_reports import LoopReports
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.errors import StorageUnavailable
from tracelake_sdk.home import HomeFiles

from .processes import until
from .scripted_control import TOKEN, scripted_control


@pytest.mark.proves("X.10")
def test_a_failing_loop_of_a_worker_is_in_the_metrics_and_named_by_the_doctor_until_it_works_again(control_plane: ControlPlane, api_url: str):
    broken = True

    def turn() -> None:
        if broken:
            raise StorageUnavailable

    home = control_plane.control.settings.home
    loops, loop = Loops(), Loop("sample", turn)
    loops.add([loop])
    control = TaskClient(ControlClient(api_url, HomeFiles(home).worker_token() or ""))
    reports = LoopReports(control, "w1", [loops])
    try:
        reports.run_once()
        assert "tracelake_worker_loop_failing{" not in scraped(api_url, home)
        for _ in range(FAILING_AFTER):
            loop.take_turn()
        reports.run_once()
        reports.run_once()
        assert 'tracelake_worker_loop_failing{loop="sample",worker="w1"} 1.0' in scraped(api_url, home)
        named = examine(control_plane.control.settings, {"worker loops": check})[-1]
        assert (named.name, named.ok, named.detail) == ("worker loops", False, "loop sample of w1 (storage_unavailable)")
        broken = False
        loop.take_turn()
        reports.run_once()
        assert "tracelake_worker_loop_failing{" not in scraped(api_url, home)
        assert examine(control_plane.control.settings, {"worker loops": check})[-1].ok
    finally:
        control.close()


def test_what_a_worker_reported_long_ago_is_not_shown(control_plane: ControlPlane, api_url: str):
    org = control_plane.worker.org_id
    control_plane.query("INSERT INTO failing_loop (org_id, worker, loop, code, reported_at) VALUES (%s, 'gone', 'sample', 'internal', now() - interval '1 hour')", org)
    assert check(control_plane.database.service_url)[0]


@pytest.mark.proves("X.10")
def test_a_worker_process_reports_its_own_failing_loops(tmp_path: Path):
    with scripted_control() as control:
        control.refuses.add("task-claim")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        given = {"TRACELAKE_HOME": str(tmp_path), "TRACELAKE__WORKER__API_URL": control.url, "TRACELAKE__WORKER__TOKEN": TOKEN, "TRACELAKE__WORKER__RUNTIMES": '["dispatcher"]'}
        with subprocess.Popen([sys.executable, "-m", "tracelake.main", "worker"], env=kept | given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
            try:
                until(lambda: [{"loop": "dispatcher", "code": "malformed"}] in control.failing)
            finally:
                worker.terminate()
