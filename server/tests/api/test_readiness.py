"""`/readyz` tells the truth while a database is read-only or away, and everything goes on by itself afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest
from support.controls import ControlPlane, running_control, scraped, served, settings_for, succeeded
from support.databases import StateDatabase
from support.processes import wait_until

from tracelake.loops import FAILING_AFTER, Loop
from tracelake_sdk.errors import Unavailable
from tracelake_sdk.home import HomeFiles


def make_read_only(database: StateDatabase, *, on: bool) -> None:
    """As when a primary becomes a standby: who is connected loses the connection, and the next cannot write."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = {'on' if on else 'off'}")  # pyright: ignore[reportArgumentType]
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")


@contextmanager
def away(database: StateDatabase) -> Iterator[None]:
    """Whoever is connected loses the connection, and nobody gets another."""
    with psycopg.connect(database.superuser_url, dbname="postgres", autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database.name} WITH ALLOW_CONNECTIONS false")  # pyright: ignore[reportArgumentType]
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database.name])
        try:
            yield
        finally:
            connection.execute(f"ALTER DATABASE {database.name} WITH ALLOW_CONNECTIONS true")  # pyright: ignore[reportArgumentType]


@pytest.fixture
def quick(database: StateDatabase, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control whose loops look often and whose leases are short."""
    settings = settings_for(database, tmp_path / "home", tasks={"lease_seconds": 0.4, "housekeeping_seconds": 0.05, "backoff_seconds": 0})
    with running_control(settings, database) as control_plane:
        yield control_plane


def readiness(url: str) -> tuple[int, list[str]]:
    answer = httpx2.get(url + "/readyz", timeout=60)
    return answer.status_code, [reason["what"] for reason in answer.json().get("reasons", [])]


@pytest.mark.proves("X.10")
def test_leases_are_reaped_again_after_the_database_was_read_only(quick: ControlPlane):
    with served(quick.control) as url:
        assert readiness(url) == (200, [])
        quick.deploy()
        quick.run_source()
        [task] = quick.claim()
        make_read_only(quick.database, on=True)
        wait_until(lambda: readiness(url)[0] == 503 and "loop housekeeping" in readiness(url)[1], "the loop that cannot reap is named")
        refused = httpx2.get(url + "/readyz", timeout=60)
        assert refused.json()["code"] == "not_ready" and "database" in readiness(url)[1] and refused.headers["retry-after"] == "1"
        with pytest.raises(Unavailable):
            quick.complete(succeeded(task))
        make_read_only(quick.database, on=False)
        wait_until(lambda: quick.one("SELECT state FROM task") == "queued", "its lease is reaped")
        wait_until(lambda: readiness(url) == (200, []), "it is ready again")
        assert not quick.control.loops.failing()


@pytest.mark.proves("X.10")
def test_a_failing_loop_makes_the_process_not_ready_and_is_in_its_metrics(quick: ControlPlane):
    broken = True

    def turn() -> None:
        if broken:
            raise ZeroDivisionError

    loop = Loop("sample", turn, pause=0.05)
    quick.control.loops.start(loop)
    with served(quick.control) as url:
        wait_until(lambda: readiness(url) == (503, ["loop sample"]), "it is not ready")
        text = scraped(url, quick.control.settings.home)
        assert 'tracelake_loop_failing{loop="sample"} 1.0' in text and 'tracelake_loop_failing{loop="housekeeping"} 0.0' in text
        assert 'tracelake_loop_failures_total{loop="sample"}' in text and loop.status.failures >= FAILING_AFTER
        assert 'tracelake_loop_last_success_seconds{loop="sample"}' in text
        broken = False
        wait_until(lambda: readiness(url) == (200, []), "it is ready again by itself")


def test_a_schema_that_does_not_fit_is_not_ready(quick: ControlPlane):
    with served(quick.control) as url:
        quick.query("UPDATE schema_migration SET sha256 = 'another' WHERE set = 'core' AND starts_with(name, '0001')")
        answer = httpx2.get(url + "/readyz", timeout=60)
        assert answer.status_code == 503 and answer.json()["reasons"][0]["code"] == "migration_refused"


@pytest.mark.proves("X.10")
def test_metrics_of_the_process_are_served_while_the_database_is_unavailable(quick: ControlPlane):
    with served(quick.control) as url:
        assert "tracelake_database_up 1.0" in scraped(url, quick.control.settings.home)
        with away(quick.database):
            text = scraped(url, quick.control.settings.home)
            assert "tracelake_database_up 0.0" in text and 'tracelake_loop_failing{loop="housekeeping"}' in text and "tracelake_request_body_bytes 0.0" in text
            assert "tracelake_tasks" not in text and "tracelake_outbox_backlog" not in text
            # Nobody else is believed meanwhile.
            for token in ("tl_unknown", HomeFiles(quick.control.settings.home).worker_token()):
                assert httpx2.get(url + "/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code in (403, 503)
        wait_until(lambda: "tracelake_database_up 1.0" in scraped(url, quick.control.settings.home), "the database is back")
