"""The calls of a worker to control: claim, complete, heartbeat, post and fetch."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

from tracelake.control_client import ControlClient
from tracelake.kept_connections import Call
from tracelake_sdk.errors import NotRunning
from tracelake_sdk.tasks import (
    ClaimAnswer,
    ClaimRequest,
    CompleteAnswer,
    CompleteRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    PostAnswer,
    PostRequest,
    TaskPayload,
)

_ANSWER_SECONDS = 60.0   # beyond what a poll itself waits


class TaskClient:
    """Each call is one try: leases count from the first try, and only the caller that retries knows when that was."""

    def __init__(self, control: ControlClient) -> None:
        self._control: ControlClient = control
        self._polls: set[Call] = set()
        self._hung_up: bool = False
        self._lock: threading.Lock = threading.Lock()

    def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Raises NotRunning for a long poll after `hang_up()`."""
        if request.wait_s == 0:
            return self._control.post("/task-claim", request, ClaimAnswer, seconds=_ANSWER_SECONDS)
        with self._poll() as call:
            return self._control.post("/task-claim", request, ClaimAnswer, seconds=_ANSWER_SECONDS + request.wait_s, call=call)

    def hang_up(self) -> None:
        """Ends all polls in flight, and every later one: control sees at once that this worker waits for no task."""
        with self._lock:
            self._hung_up = True
            polls = list(self._polls)
        for call in polls:
            call.break_off()

    def complete(self, request: CompleteRequest) -> CompleteAnswer:
        waits = request.claim.wait_s if request.claim else 0
        return self._control.post("/task-complete", request, CompleteAnswer, seconds=_ANSWER_SECONDS + waits)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        return self._control.post("/heartbeat", request, HeartbeatAnswer, seconds=_ANSWER_SECONDS)

    def post(self, request: PostRequest) -> PostAnswer:
        """Stores finished batches of running attempts."""
        return self._control.post("/events", request, PostAnswer, seconds=_ANSWER_SECONDS)

    def fetch(self, task_id: UUID) -> TaskPayload:
        return self._control.get(f"/task-fetch?task_id={task_id}", TaskPayload, seconds=_ANSWER_SECONDS)

    def close(self) -> None:
        """Closes idle connections and keeps none from now on."""
        self._control.close()

    @contextmanager
    def _poll(self) -> Generator[Call]:
        call = Call()
        with self._lock:
            if self._hung_up:
                raise NotRunning("This worker is stopping and claims no more tasks.")
            self._polls.add(call)
        try:
            yield call
        finally:
            with self._lock:
                self._polls.discard(call)
