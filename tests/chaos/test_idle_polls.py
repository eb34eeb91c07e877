"""Idle long polls cost threads of their own and nothing else: heartbeats and completions beside them are as quick as without."""

import json
import select
import socket
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import anyio.to_thread
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from support.controls import EMIT, ControlPlane, fresh_claim_id, served, succeeded
from support.ports import free_port
from support.processes import LONGEST, Processes, wait_until
from support.sizes import size

from tracelake.control import process
from tracelake.control.api.app import create_app
from tracelake.embedded.readiness import url_of
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.tasks import ClaimedTask, ClaimRequest, CompleteRequest, HeartbeatRequest
from tracelake_sdk.tasks.events import EventDraft

POLLS = 200
FRAMEWORK_THREADS = 40
# As in production; leases that no test outlives.
CALM = {"TRACELAKE__TASKS__HOUSEKEEPING_SECONDS": "1", "TRACELAKE__TASKS__LEASE_SECONDS": "600"}


class Question:
    """One call of the worker contract on its own connection, sent without waiting for the answer."""

    def __init__(self, api_url: str, token: str, name: str, body: dict[str, Any]) -> None:
        address, content = urlsplit(api_url), json.dumps(body).encode()
        head = f"POST /internal/{name} HTTP/1.1\r\nHost: control\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(content)}\r\n\r\n"
        self._connection = socket.create_connection((address.hostname, address.port or 80))
        self._connection.sendall(head.encode() + content)

    def answered(self, seconds: float = 0) -> bool:
        return bool(select.select([self._connection], [], [], seconds)[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        """Hangs up, answered or not."""
        self._connection.close()


def token_of(home: Path) -> str:
    return HomeFiles(home).worker_token() or ""


def asking_for_life(api_url: str, token: str) -> Question:
    return Question(api_url, token, "heartbeat", {"worker": "busy", "fences": []})


@contextmanager
def idle_polls(api_url: str, token: str, number: int, waiting: Callable[[], int], *, wait: int | None = None) -> Generator[list[Question]]:
    """That many polls are sent, and all of them, or the `wait` that can, wait for a task that does not come."""
    with ExitStack() as open_connections:
        polls: list[Question] = []
        for _ in range(number):
            body = {"worker": "idle", "claim_id": fresh_claim_id(), "runtime": "dispatcher", "room": {"default": 1}, "wait_s": 60}
            polls.append(open_connections.enter_context(Question(api_url, token, "task-claim", body)))
        wait_until(lambda: waiting() == (number if wait is None else wait), "the polls wait")
        yield polls


def claimed_tasks(processes: Processes, number: int) -> list[ClaimedTask]:
    """Creates so many running tasks and no queued one: every poll is idle now."""
    with processes.client() as client:
        client.dags.deploy(EMIT.format(name="sample", max_attempts=1))
        client.dags.run("sample", "start", {"cursors": list(range(number))})
    worker = processes.as_worker()

    def claim() -> list[ClaimedTask]:
        return worker.claim(ClaimRequest(worker="busy", claim_id=fresh_claim_id(), runtime="dispatcher", room={"default": number})).claimed

    [source] = claim()
    drafts = [EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in range(number)]
    worker.complete(CompleteRequest(items=[succeeded(source, events=drafts)]))
    tasks = claim()
    assert len(tasks) == number
    worker.close()
    return tasks


def seconds_for(control: TaskClient, task: ClaimedTask) -> float:
    """How long a heartbeat and a completion take."""
    begun = time.perf_counter()
    alive = control.heartbeat(HeartbeatRequest(worker="busy", fences=[task.fence]))
    [answer] = control.complete(CompleteRequest(items=[succeeded(task)])).results
    taken = time.perf_counter() - begun
    assert list(alive.expires_at) == [task.fence.task_id]
    assert answer.status == 200
    return taken


def test_heartbeats_and_completions_keep_their_median_beside_200_idle_polls(processes: Processes, record_property: Callable[[str, object], None]):
    quiet_url = url_of("127.0.0.1", free_port())
    processes.control(CALM)
    processes.control(CALM, api_url=quiet_url)
    tasks = claimed_tasks(processes, 2 * size(100, 240))
    crowded, quiet = processes.as_worker(), processes.as_worker(quiet_url)
    token = token_of(processes.home)
    with idle_polls(processes.api_url, token, POLLS, processes.waiting_polls) as polls:
        # The same calls at two controls over one database, in turn: whatever else the machine does, it does to both.
        beside, alone = list[float](), list[float]()
        for first, second in zip(tasks[::2], tasks[1::2], strict=True):
            beside.append(seconds_for(crowded, first))
            alone.append(seconds_for(quiet, second))
        wait_until(lambda: processes.waiting_polls() == POLLS, "all of them still wait")  # now and then one of them looks
        assert processes.waiting_polls(quiet_url) == 0
        assert not any(one.answered() for one in polls)
    crowded.close()
    quiet.close()
    medians = {"beside": statistics.median(beside), "alone": statistics.median(alone)}
    for name, median in medians.items():
        record_property(f"median_ms_{name}", round(median * 1000, 2))
    assert medians["beside"] <= 3 * medians["alone"] + 0.005


def test_a_heartbeat_is_answered_while_200_polls_wait(control_plane: ControlPlane):
    token, waiting = token_of(control_plane.control.settings.home), control_plane.control.waiting
    with served(control_plane.control) as url, idle_polls(url, token, POLLS, lambda: waiting.number_waiting), asking_for_life(url, token) as alive:
        assert alive.answered(LONGEST)


def test_in_the_threads_of_the_framework_polls_would_starve_it(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch):
    """What the threads of their own are for, and that the test above can fail."""

    def sharing(*parts: Any, **named: Any) -> ASGIApp:
        app: FastAPI = create_app(*parts, **named)

        async def shared(scope: Scope, receive: Receive, send: Send) -> None:
            app.state.polls = anyio.to_thread.current_default_thread_limiter()
            await app(scope, receive, send)

        return shared

    monkeypatch.setattr(process, "create_app", sharing)
    token, waiting = token_of(control_plane.control.settings.home), control_plane.control.waiting
    with served(control_plane.control) as url:
        with idle_polls(url, token, POLLS, lambda: waiting.number_waiting, wait=FRAMEWORK_THREADS), asking_for_life(url, token) as alive:
            assert not alive.answered(2)
        with asking_for_life(url, token) as alive:
            assert alive.answered(LONGEST)  # they have hung up


def test_polls_beyond_the_bound_are_answered_at_once(processes: Processes):
    bound = 10
    processes.control(CALM | {"TRACELAKE__API__MAX_WAITING_POLLS": str(bound)})
    token = token_of(processes.home)
    with idle_polls(processes.api_url, token, bound, processes.waiting_polls) as waiting:
        with idle_polls(processes.api_url, token, bound, processes.waiting_polls) as beyond:
            assert all(one.answered(LONGEST) for one in beyond)
        assert not any(one.answered() for one in waiting)
    wait_until(lambda: processes.waiting_polls() == 0, "polls that hung up are gone")
    with idle_polls(processes.api_url, token, bound, processes.waiting_polls) as waiting:
        assert not any(one.answered() for one in waiting)
