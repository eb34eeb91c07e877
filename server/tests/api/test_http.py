"""The HTTP surface over a real socket: authentication, problems, limits, pages, the worker contract."""

import http.client
import json
import re
import socket
import threading
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx2
import pytest
from structlog.testing import capture_logs
from support.controls import EMIT, NOOP, ControlPlane, fresh_claim_id, scraped, succeeded

from tracelake.control.database.ids import first_id_of
from tracelake.control.events import store as events
from tracelake.control.events.accounting import Accounting
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.tasks import ClaimRequest, CompleteRequest, TaskPayload, Waits
from tracelake_sdk.tasks.events import EventDraft


@pytest.fixture
def admin(control_plane: ControlPlane, api_url: str):
    token = HomeFiles(control_plane.control.settings.home).admin_token()
    with httpx2.Client(base_url=api_url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        yield client


@pytest.fixture
def worker(control_plane: ControlPlane, api_url: str):
    token = HomeFiles(control_plane.control.settings.home).worker_token()
    with httpx2.Client(base_url=api_url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        yield client


def deployed(admin: httpx2.Client, definition: str = EMIT, name: str = "sample") -> dict:
    answer = admin.post("/v1/dags", json={"definition": definition.format(name=name, max_attempts=3)})
    assert answer.status_code == 200, answer.text
    return answer.json()


def claim_body(room: int = 10, wait_s: float = 0, claim_id: str | None = None) -> ClaimRequest:
    return ClaimRequest(worker="w", claim_id=claim_id or fresh_claim_id(), runtime="dispatcher", room={"default": room}, wait_s=wait_s)


@pytest.mark.proves("T3.1")
@pytest.mark.parametrize("path", ["/internal/task-claim", "/internal/task-complete", "/internal/heartbeat"])
@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic abc", "Bearer tl_wrong", "Bearer a.b.c"])
def test_a_call_without_a_valid_token_is_401(api_url: str, path: str, header: str | None):
    body = {"/internal/task-claim": claim_body().model_dump_json(), "/internal/task-complete": '{"items": []}'}.get(path, '{"worker": "w", "fences": []}')
    answer = httpx2.post(api_url + path, content=body, headers={"Authorization": header} if header is not None else {}, timeout=60)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthenticated"


@pytest.mark.proves("T3.1")
def test_users_do_not_call_internal_and_workers_call_nothing_else(admin: httpx2.Client, worker: httpx2.Client):
    assert admin.post("/internal/task-claim", content=claim_body().model_dump_json()).json()["code"] == "forbidden"
    assert admin.get("/internal/task-fetch", params={"task_id": str(uuid4())}).json()["code"] == "forbidden"
    for path in ("/v1/me", "/v1/dags", "/v1/tasks", "/v1/events", "/v1/runs"):
        assert worker.get(path).status_code == 403


@pytest.mark.proves("X.1")
def test_a_whole_walk_over_http(admin: httpx2.Client, worker: httpx2.Client):
    assert deployed(admin)["created"] is True
    assert deployed(admin)["created"] is False
    run = admin.post("/v1/runs", json={"dag": "sample", "job": "start", "request": {"cursors": [1, 2]}}, headers={"Idempotency-Key": "k1"}).json()
    again = admin.post("/v1/runs", json={"dag": "sample", "job": "start", "request": {"cursors": [1, 2]}}, headers={"Idempotency-Key": "k1"}).json()
    assert again["id"] == run["id"]
    [claimed] = worker.post("/internal/task-claim", content=claim_body().model_dump_json()).json()["claimed"]
    payload = TaskPayload.model_validate(claimed["payload"])
    fetched = TaskPayload.model_validate(worker.get("/internal/task-fetch", params={"task_id": run["id"]}).json())
    assert fetched.model_copy(update={"attempt": 1, "state": payload.state, "slot": payload.slot}) == payload
    report = {
        "items": [{"fence": claimed["fence"], "outcome": "succeeded", "events": [{"output": 0, "scope": {"kind": "cursor", "value": v}} for v in (1, 2)]}],
        "claim": json.loads(claim_body().model_dump_json()),
    }
    answer = worker.post("/internal/task-complete", json=report).json()
    assert [result["result"] for result in answer["results"]] == ["done"]
    assert len(answer["claimed"]) == 2  # completing also claims
    assert worker.post("/internal/task-complete", json=report).json() == answer  # a lost answer is asked for again, claim and all
    rest = [{"fence": task["fence"], "outcome": "succeeded"} for task in answer["claimed"]]
    worker.post("/internal/task-complete", json={"items": rest})
    [status] = admin.get("/v1/dags").json()
    assert {job["name"]: job["tasks"]["completed"] for job in status["jobs"]} == {"start": 1, "end": 2}
    events = admin.get("/v1/events", params={"dag": "sample"}).json()["items"]
    assert [[line["outcome"] for line in event["ledger"]] for event in events] == [["task"], ["task"]]
    assert {run["status"] for run in admin.get("/v1/runs").json()["items"]} == {"SUCCESS"}


def test_lists_are_paged_without_gap_or_repetition(admin: httpx2.Client, control_plane: ControlPlane):
    control_plane.deploy(NOOP)
    asked = [str(control_plane.run_source()) for _ in range(7)]
    seen, token = [], None
    while True:
        page = admin.get("/v1/tasks", params={"limit": 3} | ({"token": token} if token else {})).json()
        seen += [task["id"] for task in page["items"]]
        token = page["next"]
        if token is None:
            break
    assert seen == asked[::-1]
    assert admin.get("/v1/tasks", params={"token": "nonsense"}).json()["code"] == "malformed"
    assert admin.get("/v1/runs", params={"token": "nonsense"}).json()["code"] == "malformed"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, "not_found"),
        ("GET", "/v1/dags/nothing", None, 404, "not_found"),
        ("GET", "/v1/tasks/01900000-0000-7000-8000-000000000000", None, 404, "not_found"),
        ("GET", "/v1/tasks/nonsense", None, 400, "malformed"),
        ("POST", "/v1/dags", b"{", 400, "malformed"),
        ("POST", "/v1/dags", b'{"definition": 5}', 400, "malformed"),
        ("POST", "/v1/dags", b'{"definition": "name: x", "more": 1}', 400, "malformed"),
        ("POST", "/v1/dags", b'{"definition": "name: x"}', 422, "dag_key_missing"),
        ("POST", "/v1/runs", b'{"dag": "no", "job": "no"}', 404, "not_found"),
        ("DELETE", "/v1/dags", None, 405, "malformed"),
        ("GET", "/v1/tasks?limit=0", None, 400, "malformed"),
        ("GET", "/v1/tasks?state=asleep", None, 400, "malformed"),
    ],
)
def test_bad_input_is_a_problem_with_a_code(admin: httpx2.Client, method: str, path: str, body: bytes | None, status: int, code: str):
    answer = admin.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"], answer.json()["status"]) == (status, code, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_a_malformed_report_is_refused_without_quoting_it(worker: httpx2.Client):
    answer = worker.post("/internal/task-complete", content=b'{"items": [{"fence": {"task_id": "secret-value"}}]}')
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert "secret-value" not in answer.text


def test_an_unexpected_error_has_an_id_and_no_trace_and_its_words_reach_no_log(admin: httpx2.Client, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the inner secret")

    monkeypatch.setattr("tracelake.control.tasks.views.store.page", broken)
    with capture_logs() as logged:
        answer = admin.get("/v1/tasks")
    [entry] = [entry for entry in logged if entry["event"] == "an unexpected error"]
    assert (entry["id"], entry["error"], entry["path"]) == (answer.json()["id"], "ZeroDivisionError", "/v1/tasks")
    assert entry["raised_in"][-1].endswith(" broken") and "secret" not in str(logged)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert len(answer.json()["id"]) == 32
    assert "secret" not in answer.text
    assert "Zero" not in answer.text


def test_a_body_that_is_too_large_is_413_also_with_a_wrong_content_length(api_url: str, control_plane: ControlPlane):
    host = api_url.removeprefix("http://")
    token = HomeFiles(control_plane.control.settings.home).admin_token()
    chunk = b"x" * 2**20
    with closing(http.client.HTTPConnection(host, timeout=60)) as connection:
        connection.putrequest("POST", "/v1/dags")
        connection.putheader("Authorization", f"Bearer {token}")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        with suppress(OSError):  # it may stop reading as soon as it is too much
            for _ in range(40):
                connection.send(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            connection.send(b"0\r\n\r\n")
        with closing(connection.getresponse()) as answer:
            assert answer.status == 413
            assert json.loads(answer.read())["code"] == "too_large"


@pytest.mark.proves("T3.4")
def test_a_poll_whose_worker_has_hung_up_takes_nothing(control_plane: ControlPlane, api_url: str, worker: httpx2.Client):
    control_plane.deploy(NOOP)
    host, port = api_url.removeprefix("http://").split(":")
    body = claim_body(wait_s=60).model_dump_json().encode()
    token = HomeFiles(control_plane.control.settings.home).worker_token()
    with socket.create_connection((host, int(port))) as gone:
        head = f"POST /internal/task-claim HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        gone.sendall(head.encode() + body)
        wait_for(lambda: control_plane.control.waiting.number_waiting == 1)
    wait_for(lambda: control_plane.control.waiting.number_waiting == 0)
    control_plane.run_source()
    [task] = worker.post("/internal/task-claim", content=claim_body(wait_s=30).model_dump_json()).json()["claimed"]
    assert task["fence"]["attempt"] == 1


def wait_for(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def test_a_long_poll_over_http_is_woken(control_plane: ControlPlane, worker: httpx2.Client):
    control_plane.deploy(NOOP)
    found: list[dict] = []
    poll = threading.Thread(target=lambda: found.extend(worker.post("/internal/task-claim", content=claim_body(wait_s=30).model_dump_json()).json()["claimed"]))
    poll.start()
    wait_for(lambda: control_plane.control.waiting.number_waiting == 1)
    task = control_plane.run_source()
    poll.join(timeout=30)
    assert [item["fence"]["task_id"] for item in found] == [str(task)]


@pytest.mark.proves("T2.8")
def test_metrics_say_how_deep_the_queue_is_and_that_every_event_is_accounted_for(control_plane: ControlPlane, api_url: str):
    control_plane.deploy(NOOP)
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=v)) for v in range(3)]))
    text = scraped(api_url, control_plane.control.settings.home)
    assert 'tracelake_tasks{state="queued"} 3.0' in text
    assert "tracelake_events_unaccounted 0.0" in text
    control_plane.query("ALTER TABLE event_ledger DISABLE TRIGGER ALL")
    control_plane.query("DELETE FROM event_ledger")
    assert "tracelake_events_unaccounted 3.0" in scraped(api_url, control_plane.control.settings.home)


def test_metrics_are_for_the_org_that_operates_the_installation(api_url: str, admin: httpx2.Client):
    assert httpx2.get(f"{api_url}/metrics", timeout=60).status_code == 401
    other = admin.post("/v1/admin/orgs", json={"name": "other"}).json()["token"]
    assert status_of(api_url, other) == 403
    for scope in ("metrics", "pin"):
        wanted = {"kind": "service", "label": "x", "scopes": [scope]}
        assert httpx2.post(f"{api_url}/v1/admin/tokens", json=wanted, headers={"Authorization": f"Bearer {other}"}, timeout=60).json()["code"] == "forbidden"
    scraper = admin.post("/v1/admin/tokens", json={"kind": "service", "label": "prometheus", "scopes": ["metrics"]}).json()["token"]
    assert status_of(api_url, scraper) == 200
    assert admin.post("/v1/admin/users", json={"name": "rex", "roles": ["reader", "writer", "auditor"]}).status_code == 200
    rex = admin.post("/v1/admin/tokens", json={"kind": "user", "label": "rex", "user": "rex"}).json()["token"]
    assert status_of(api_url, rex) == 403


def status_of(api_url: str, token: str) -> int:
    return httpx2.get(f"{api_url}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code


def test_the_page_of_the_api_needs_no_other_host(api_url: str):
    page = httpx2.get(f"{api_url}/docs", timeout=60)
    assert page.status_code == 200
    assert re.findall(r"https?://[^\"'\s]*", page.text) == []
    assets = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert len(assets) == 3
    for asset in (*assets, "/openapi.json"):
        assert httpx2.get(api_url + asset, timeout=60).status_code == 200, asset
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert httpx2.get(f"{api_url}/redoc", timeout=60).status_code == 404


@pytest.mark.proves("T1.5")
def test_metrics_count_every_unfinished_task_by_what_it_waits_for(control_plane: ControlPlane, api_url: str):
    control_plane.deploy(NOOP)
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=value)) for value in range(9)]))
    every = [*({"state": "queued", "waits": waits.value} for waits in Waits), {"state": "running"}, {"state": "queued"}]
    tasks = [id for (id,) in control_plane.query("SELECT id FROM task WHERE state = 'queued' ORDER BY id")]
    for id, given in zip(tasks, every, strict=False):
        control_plane.query(
            "UPDATE task SET state = %s::task_state, waits = %s::waits, seq = CASE WHEN %s = 'queued' AND %s::text IS NULL THEN seq END, due_at = now() + interval '1 day',"
            " ordinal = CASE WHEN %s = 'turn' THEN 1 END, lease_expires_at = CASE WHEN %s = 'running' THEN now() + interval '1 day' END WHERE id = %s",
            given["state"], given.get("waits"), given["state"], given.get("waits"), given.get("waits"), given["state"], id,
        )  # fmt: skip
    text = scraped(api_url, control_plane.control.settings.home)
    for waits in Waits:
        assert f'tracelake_tasks{{state="waits_{waits.value}"}} 1.0' in text
        assert f'tracelake_job_tasks{{dag="sample",job="end",org="main",pool="default",runtime="dispatcher",state="waits_{waits.value}"}} 1.0' in text
    left = 9 - len(Waits) - 1
    assert f'tracelake_tasks{{state="queued"}} {left}.0' in text and 'tracelake_tasks{state="running"} 1.0' in text
    assert 'tracelake_tasks{state="committing"} 0.0' in text
    [status] = control_plane.services.tasks.views.status(control_plane.admin, "sample")
    [end] = [job for job in status.jobs if job.name == "end"]
    assert end.tasks.waiting == {waits.value: 1 for waits in Waits} and (end.tasks.queued, end.tasks.running, end.tasks.more) == (left, 1, False)


@pytest.mark.proves("T2.8")
def test_the_metric_of_unaccounted_events_forgets_nothing(control_plane: ControlPlane, api_url: str):
    control_plane.deploy(NOOP)
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=value)) for value in range(3)]))
    accounting = Accounting(control_plane.control.database)
    assert accounting.run_once() == 0, "what may still be joined by an earlier one is not verified yet"
    lost = control_plane.query("SELECT event_id, generation_id, task_id FROM event_ledger LIMIT 1")[0]
    control_plane.query("ALTER TABLE event_ledger DISABLE TRIGGER ALL")
    control_plane.query("DELETE FROM event_ledger WHERE event_id = %s", lost[0])
    later = datetime.now(UTC) + timedelta(days=2)
    assert (accounting.run_once(now=later), accounting.run_once(now=later)) == (1, 0)
    with control_plane.control.database.transaction("test") as tx:
        assert events.unaccounted(tx, since=first_id_of(later)) == 1, "however old it is"
    assert "tracelake_events_unaccounted 1.0" in scraped(api_url, control_plane.control.settings.home)
    control_plane.query("INSERT INTO event_ledger VALUES (%s, %s, 'task', %s)", *lost)
    assert "tracelake_events_unaccounted 0.0" in scraped(api_url, control_plane.control.settings.home)


def test_the_api_describes_itself(api_url: str):
    paths = httpx2.get(api_url + "/openapi.json", timeout=60).json()["paths"]
    assert {"/v1/dags", "/v1/runs", "/v1/tasks/{task_id}/cancel", "/internal/task-claim"} <= set(paths)
    assert httpx2.get(api_url + "/healthz", timeout=60).json() == {"status": "alive"}
    assert httpx2.get(api_url + "/readyz", timeout=60).json() == {"status": "ready"}


def test_a_batch_beyond_the_bound_is_refused(worker: httpx2.Client):
    fence = {"task_id": str(uuid4()), "attempt": 1, "lease_token": "x" * 43}
    body = {"items": [{"fence": fence, "outcome": "succeeded"}] * 501}
    assert worker.post("/internal/task-complete", json=body).json()["code"] == "malformed"
    CompleteRequest.model_validate({"items": body["items"][:500]})
