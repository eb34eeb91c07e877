"""Fixtures that every package's tests may ask for."""

import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from support.controls import ControlPlane, running_control, served, settings_for
from support.databases import StateDatabase, fresh_database, running_postgres
from support.s3_servers import S3Server, running_s3
from support.sizes import full

from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake.logging_setup import configure_logging

configure_logging()  # as the processes do: the console's own way of showing an error takes seconds

# No test depends on wall time: a slow machine is not a failure.
hypothesis.settings.register_profile(
    "tracelake", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=not full(),  # every day the same examples; a proof's come from its seed
)
hypothesis.settings.load_profile("tracelake")

_LONGEST_PROOF = 7200  # seconds
_PROCESSES = {"postgres", "s3_server"}  # fixtures that start them
_SYSTEMS = Path(__file__).parent / "server/tests/embedded"  # its tests start whole systems


def pytest_configure() -> None:
    """Who starts tests in the background has them ignore Ctrl-C, and what they start too; some tests press it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What `--timeout` says is for every day; at its full size a test may take an hour, however it is started."""
    for item in items:
        if _uses_processes(item):
            item.add_marker(pytest.mark.processes)
        if full():
            item.add_marker(pytest.mark.timeout(_LONGEST_PROOF))


def _uses_processes(item: pytest.Item) -> bool:
    """Whether it needs a database, a Spark session or its own system; `make quick` skips such tests."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    grouped = any(item.get_closest_marker(name) for name in ("spark", "xdist_group"))
    return grouped or not _PROCESSES.isdisjoint(fixtures) or item.path.is_relative_to(_SYSTEMS)


# Long enough that no loop of a test's control interferes: tests call `run_once` themselves.
QUIET = {"housekeeping_seconds": 60}


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as running:
        yield running


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[StateDatabase]:
    with fresh_database(postgres) as fresh:
        yield fresh


@pytest.fixture
def control_plane(database: StateDatabase, tmp_path: Path) -> Iterator[ControlPlane]:
    with running_control(settings_for(database, tmp_path / "home", tasks=QUIET), database) as running:
        yield running


@pytest.fixture
def api_url(control_plane: ControlPlane) -> Iterator[str]:
    with served(control_plane.control) as url:
        yield url


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Mark its tests `xdist_group("s3")`: one server a run is enough."""
    with running_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running
