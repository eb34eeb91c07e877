"""Workers in the test's own process, against a real control over HTTP."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.controls import ControlPlane, running_control, served, settings_for
from support.databases import StateDatabase

from tracelake.control_client import ControlClient
from tracelake.worker.dispatcher.dispatcher_worker import DispatcherWorker
from tracelake.worker.dispatcher.operators.contract import Operator
from tracelake.worker.dispatcher.operators.registry import OPERATOR_FUNCTIONS
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.home import HomeFiles

from .hiring import Hire
from .processes import BRISK, Workers
from .workshop import Workshop, workshop


@pytest.fixture
def hire(control_plane: ControlPlane, api_url: str) -> Iterator[Hire]:
    """Makes a worker; `watch` may do things at its named moments, `noop` replaces what that operator does."""
    clients: list[TaskClient] = []

    def made(
        *,
        name: str = "w1",
        prefetch: int = 100,
        watch: Callable[[str], None] = lambda moment: None,
        noop: Operator | None = None,
        url: str = api_url,
        token: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> DispatcherWorker:
        clients.append(TaskClient(ControlClient(url, token or HomeFiles(control_plane.control.settings.home).worker_token() or "")))
        operators: Mapping[tuple[str, str], Operator] = OPERATOR_FUNCTIONS if noop is None else {**OPERATOR_FUNCTIONS, ("dispatcher", "noop"): noop}
        return DispatcherWorker(clients[-1], name=name, prefetch=prefetch, poll_seconds=0, watch=watch, operators=operators, clock=clock)

    yield made
    for client in clients:
        client.close()


@pytest.fixture
def workers(database: StateDatabase, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workers]:
    """With `BRISK` times, or those of the test's parameter."""
    times: dict[str, float] = getattr(request, "param", BRISK)
    with ExitStack() as ending:
        control_plane = ending.enter_context(running_control(settings_for(database, tmp_path / "home", tasks=times), database))
        url = ending.enter_context(served(control_plane.control))
        yield Workers(control_plane, url, tmp_path, ending)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    with workshop(tmp_path, dict(os.environ)) as made:
        yield made
