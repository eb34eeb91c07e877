"""A loop of a query process that fails is named by the process itself and by the doctor."""

from pathlib import Path

import httpx2
import pytest
from support.databases import StateDatabase
from support.processes import wait_until
from support.queries import query_lake

from tracelake.embedded.doctor import Check, examine
from tracelake.loops import Loop


@pytest.mark.proves("X.10")
def test_a_failing_loop_of_a_query_process_is_in_its_metrics_and_named_by_the_doctor(database: StateDatabase, tmp_path: Path):
    def turn() -> None:
        raise ZeroDivisionError

    with query_lake(database, tmp_path) as lake:
        settings, url = lake.control.settings, f"http://127.0.0.1:{lake.queries.port}"

        def asked() -> Check:
            [check] = [check for check in examine(settings) if check.name == "query process"]
            return check

        assert asked() == Check("query process", True, f"at {url}")
        lake.queries.loops.start(Loop("sample", turn, pause=0.05))
        wait_until(lambda: httpx2.get(url + "/readyz").status_code == 503, "it is not ready")
        assert 'tracelake_loop_failing{loop="sample"} 1.0' in httpx2.get(url + "/metrics").text
        assert (asked().ok, asked().detail) == (False, f"at {url} is not ready: loop sample (internal)")
