"""The outbox: written with the change, performed at least once, known by its id."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest
from support.controls import NOOP, ControlPlane, failed, running_control, settings_for, succeeded
from support.databases import StateDatabase

from tracelake.control.outbox import store
from tracelake.control.outbox.service import SendingFailed
from tracelake.control.outbox.store import Errand
from tracelake.control.outbox.webhook import Webhook


class Receiver(BaseHTTPRequestHandler):
    status = 204
    got: list[tuple[dict[str, str], bytes]]

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body))  # pyright: ignore[reportAttributeAccessIssue]
        status = self.server.status  # pyright: ignore[reportAttributeAccessIssue]
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def receiver() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.status = [], 204  # pyright: ignore[reportAttributeAccessIssue]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hooked(database: StateDatabase, tmp_path):
    with receiver() as server:
        webhook = {"url": f"http://127.0.0.1:{server.server_port}/hook", "secret": "s3cret", "allow_private_addresses": True}
        settings = settings_for(database, tmp_path / "home", webhook=webhook, tasks={"housekeeping_seconds": 60})
        with running_control(settings, database) as control_plane:
            control_plane.deploy(NOOP, max_attempts=1)
            yield control_plane, server


def drain(control_plane: ControlPlane) -> int:
    assert control_plane.control.drainer is not None
    return control_plane.control.drainer.run_once()


@pytest.mark.proves("T1.6")
def test_a_final_task_is_announced_once_with_its_key_and_its_signature(hooked):
    control_plane, server = hooked
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.complete(succeeded(task))
    control_plane.complete(succeeded(task))
    assert drain(control_plane) == 1
    assert drain(control_plane) == 0
    [(headers, body)] = server.got
    assert json.loads(body) | {"at": ""} == {
        "id": headers["Idempotency-Key"], "kind": "task_final", "at": "", "task_id": str(task.fence.task_id), "dag": "sample", "job": "start",
        "state": "completed", "attempt": 1, "error_class": None,
    }  # fmt: skip
    assert headers["Tracelake-Signature"] == "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()


@pytest.mark.proves("T1.6")
def test_every_way_to_be_final_is_announced(hooked):
    control_plane, server = hooked
    ids = {name: control_plane.run_source() for name in ("completed", "failed", "canceled while queued", "canceled while running", "timed out")}
    control_plane.services.tasks.cancels.cancel(control_plane.admin, ids["canceled while queued"])
    tasks = {task.fence.task_id: task for task in control_plane.claim()}
    control_plane.complete(succeeded(tasks[ids["completed"]]), failed(tasks[ids["failed"]]))
    control_plane.services.tasks.cancels.cancel(control_plane.admin, ids["canceled while running"])
    late = datetime.now(UTC) + timedelta(days=1)
    control_plane.services.tasks.reaper.run_once(now=late)
    control_plane.services.tasks.reaper.run_once(now=late + timedelta(days=1))
    drain(control_plane)
    states = {json.loads(body)["task_id"]: json.loads(body)["state"] for _, body in server.got}
    assert states == {
        str(ids["completed"]): "completed", str(ids["failed"]): "failed", str(ids["canceled while queued"]): "canceled",
        str(ids["canceled while running"]): "canceled", str(ids["timed out"]): "failed",
    }  # fmt: skip


@pytest.mark.proves("T1.6")
@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_refused_notification_is_sent_again_later_under_the_same_key(hooked, status: int):
    control_plane, server = hooked
    server.status = status
    control_plane.run_source()
    control_plane.complete(succeeded(control_plane.claim()[0]))
    drain(control_plane)
    [(tries, error, sent)] = control_plane.query("SELECT tries, last_error, sent_at FROM outbox")
    assert (tries, sent) == (1, None)
    assert str(status) in error
    assert drain(control_plane) == 0  # not due yet
    server.status = 200
    control_plane.query("UPDATE outbox SET due_at = now()")
    drain(control_plane)
    assert len({headers["Idempotency-Key"] for headers, _ in server.got}) == 1
    assert len({body for _, body in server.got}) == 1
    assert control_plane.one("SELECT sent_at IS NOT NULL FROM outbox")


def test_an_undeliverable_entry_is_given_up_with_the_reason(hooked):
    control_plane, server = hooked
    server.status = 500
    control_plane.run_source()
    control_plane.complete(succeeded(control_plane.claim()[0]))
    control_plane.query("UPDATE outbox SET tries = 19")
    drain(control_plane)
    assert control_plane.query("SELECT given_up_at IS NOT NULL, tries FROM outbox") == [(True, 20)]


def test_an_errand_that_a_killed_drainer_took_is_taken_again_when_its_time_is_over(hooked):
    control_plane, _ = hooked
    control_plane.run_source()
    control_plane.complete(succeeded(control_plane.claim()[0]))
    with control_plane.control.database.transaction("test") as tx:
        [taken] = store.take(tx, room=10, lease=timedelta(seconds=60))
    assert drain(control_plane) == 0
    with control_plane.control.database.transaction("test") as tx:
        [again] = store.take(tx, room=10, lease=timedelta(seconds=60), now=datetime.now(UTC) + timedelta(minutes=2))
    assert again.id == taken.id


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "http://localhost:9/x", "http://10.0.0.1/x", "http://[::1]:9/x", "http://169.254.169.254/x"])
def test_private_addresses_are_refused_unless_allowed(url: str):
    errand = Errand(uuid4(), uuid4(), "task_final", {}, 1, datetime.now(UTC))
    with pytest.raises(SendingFailed, match="private") as refused:
        Webhook(url, None, 1, allow_private_addresses=False)(errand)
    assert refused.value.final


def test_without_a_webhook_nothing_is_written(control_plane: ControlPlane):
    control_plane.deploy(NOOP)
    control_plane.run_source()
    control_plane.complete(succeeded(control_plane.claim()[0]))
    assert control_plane.one("SELECT count(*) FROM outbox") == 0
