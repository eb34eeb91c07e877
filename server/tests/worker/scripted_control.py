"""A control with scripted answers over real HTTP, which records every request."""

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID, uuid4, uuid5

from tracelake_sdk.errors import Malformed
from tracelake_sdk.tasks import Batch, ClaimedTask, Completion, CompletionResult, Fence, Outcome, TaskPayload

Answer = dict[str, Any]
TOKEN = "the-worker-token-that-nobody-else-may-know"


class ScriptedControl:
    """Hands out what was queued, renews every lease, and answers each report with the next scripted result, `done` behind the last."""

    def __init__(self) -> None:
        self.url = ""
        self.queued: list[ClaimedTask] = []
        self.handed_out: dict[UUID, ClaimedTask] = {}
        self.answers: list[Answer] = []
        self.claims: list[Answer] = []
        self.completions: list[Completion] = []
        self.posts: list[Batch] = []
        self.batches: dict[tuple[UUID, str], UUID] = {}
        self.beats: list[list[str]] = []
        self.failing: list[list[Answer]] = []     # loops, as they were reported
        self.refuses: set[str] = set()            # paths that are answered with an error that does not pass
        self.cancel: set[UUID] = set()
        self.lost: set[UUID] = set()
        self.fails: set[str] = set()              # paths that break the connection
        self.loses: dict[str, int] = {}           # paths whose next n answers are lost
        self.at_post: Callable[[Batch], Answer | None] = lambda batch: None
        self.polls: int = 0                       # that wait for a task now
        self.requeues: bool = False               # whether a task that is given back is queued again, as its next attempt
        self.lock = threading.Lock()

    def queue(self, payload: TaskPayload) -> Fence:
        fence = Fence(task_id=payload.task_id, attempt=payload.attempt or 1, lease_token=uuid4().hex + "-lease-token-x-y")
        with self.lock:
            self.handed_out[payload.task_id] = ClaimedTask(fence=fence, lease_expires_at=datetime.now(UTC) + timedelta(seconds=30), payload=payload)
            self.queued.append(self.handed_out[payload.task_id])
        return fence

    def wait_for_work(self, seconds: float, connection: socket.socket) -> bool:
        """As a long poll does; whether somebody still waits for the answer."""
        deadline = time.monotonic() + seconds
        self.polls += 1
        try:
            while not self.queued and time.monotonic() < deadline:
                if select.select([connection], [], [], 0.01)[0] and not connection.recv(1, socket.MSG_PEEK):
                    return False
            return True
        finally:
            self.polls -= 1

    def answer(self, result: CompletionResult, status: int = 200, **more: Any) -> None:
        self.answers.append({"result": result.value, "status": status} | json.loads(json.dumps(more, default=str)))

    @property
    def outcomes(self) -> list[tuple[str, str | None]]:
        return [(report.outcome.value, report.error.error_class if report.error else None) for report in self.completions]

    def heard(self, path: str, body: Answer) -> Answer:
        with self.lock:
            match path:
                case "task-claim":
                    return self._claim(body)
                case "heartbeat":
                    return self._beat(body)
                case "task-complete":
                    return {"results": [self._complete(Completion.model_validate(item)) for item in body["items"]], "claimed": []}
                case "events":
                    return {"results": [self._post(Batch.model_validate(item)) for item in body["batches"]]}
                case _:
                    raise AssertionError(path)

    def _claim(self, body: Answer) -> Answer:
        self.claims.append(body)
        claimed = [self.queued.pop(0)] if self.queued and body["runtime"] == "spark" and body["room"].get("default") else []
        return {"claimed": [task.model_dump(mode="json") for task in claimed]}

    def _beat(self, body: Answer) -> Answer:
        tasks = [fence["task_id"] for fence in body["fences"]]
        self.beats.append(tasks)
        if body.get("failing") is not None:
            self.failing.append(body["failing"])
        cancel, lost = [str(task) for task in self.cancel], [str(task) for task in self.lost]
        return {"expires_at": {task: datetime.now(UTC).isoformat() for task in tasks if task not in cancel + lost}, "cancel": cancel, "lost": lost}

    def _complete(self, report: Completion) -> Answer:
        self.completions.append(report)
        task = str(report.fence.task_id)
        if self.requeues and report.outcome is Outcome.GIVEN_BACK:
            self.queued.append(self.handed_out[report.fence.task_id])
        return {"task_id": task, **(self.answers.pop(0) if self.answers else {"result": "done", "status": 200})}

    def _post(self, batch: Batch) -> Answer:
        self.posts.append(batch)
        if said := self.at_post(batch):
            return said
        id = uuid5(batch.fence.task_id, batch.name)
        self.batches[batch.fence.task_id, batch.name] = id
        return {"status": 200, "id": str(id)}


@contextmanager
def scripted_control() -> Iterator[ScriptedControl]:
    control = ScriptedControl()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = self.path.rpartition("/")[2]
            if path in control.fails:
                self.close_connection = True
                return
            assert self.headers["authorization"] == f"Bearer {TOKEN}"
            refused = path in control.refuses
            if path == "task-claim" and not refused and not control.wait_for_work(body["wait_s"], self.connection):
                self.close_connection = True
                return
            said = json.dumps(Malformed().problem() if refused else control.heard(path, body)).encode()
            if control.loses.get(path, 0):
                control.loses[path] -= 1
                self.close_connection = True
                return
            self.send_response(Malformed.status if refused else 200)
            self.send_header("content-type", "application/problem+json" if refused else "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is said."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        control.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield control
        finally:
            server.shutdown()
