"""The client finds its system, speaks for it in its own classes, and repeats what broke without a second effect."""

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.ports import refusing
from support.wire import Asked, Said, serving

from tracelake_sdk.client import Client
from tracelake_sdk.errors import Invalid, NotFound, NotRunning, OutcomeUnknown, SettingInvalid, TracelakeError, Unauthenticated, Unavailable
from tracelake_sdk.tasks import TaskState

ME = {"org": "main", "name": "admin", "kind": "user", "roles": ["admin"], "scopes": []}


def task(state: str = "queued", **parts: Any) -> dict[str, Any]:
    known = {
        "id": str(uuid4()), "dag": "d", "job": "j", "state": state, "waits": None, "trigger_kind": "request", "trigger_id": str(uuid4()), "scope": None,
        "attempt": 0, "failures": 0, "created_at": "2026-01-01T00:00:00Z", "finished_at": None, "due_at": None, "cancel_asked_at": None,
    }  # fmt: skip
    return known | parts


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and nothing of this machine's settings."""
    for name in ("TRACELAKE_API_URL", "TRACELAKE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRACELAKE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.proves("X.1")
@pytest.mark.parametrize("kind", TracelakeError.registered.values(), ids=lambda kind: kind.code)
def test_every_error_arrives_as_the_class_that_was_raised(kind: type[TracelakeError]) -> None:
    raised = kind("It went wrong; do this.", id="0f", retry_after=7, place="jobs[1]", line=3)
    with serving(lambda asked: Said(kind.status, raised.problem(), "application/problem+json")) as server, Client(server.url, "t") as client:
        with pytest.raises(TracelakeError) as caught:
            client.me()
        error = caught.value
        assert type(error) is kind
        assert (error.detail, error.id, error.retry_after, error.extra) == ("It went wrong; do this.", "0f", 7, {"place": "jobs[1]", "line": 3})
        assert error.problem() == raised.problem()


def test_an_error_that_this_release_does_not_know_keeps_its_words() -> None:
    problem = {"code": "from_the_future", "status": 418, "detail": "Upgrade the SDK.", "title": "T", "type": "urn:x"}
    with serving(lambda asked: Said(418, problem, "application/problem+json")) as server, Client(server.url, "t") as client:
        with pytest.raises(TracelakeError, match=r"Upgrade the SDK\.") as caught:
            client.me()
        assert type(caught.value) is TracelakeError


def test_the_home_has_address_and_token(alone: Path) -> None:
    with serving(lambda asked: Said(200, ME)) as server:
        (alone / "running.json").write_text(json.dumps({"api_url": server.url, "pid": 1}))
        (alone / "credentials.json").write_text(json.dumps({"admin_token": "the-admin"}))
        with Client() as client:
            assert client.me().name == "admin"
    assert server.asked[0].headers["authorization"] == "Bearer the-admin"


def test_the_environment_goes_before_the_home_and_an_argument_before_both(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (alone / "credentials.json").write_text(json.dumps({"admin_token": "the-admin"}))
    with refusing() as nobody, serving(lambda asked: Said(200, ME)) as server:
        (alone / "running.json").write_text(json.dumps({"api_url": nobody, "pid": 1}))
        monkeypatch.setenv("TRACELAKE_API_URL", server.url)
        monkeypatch.setenv("TRACELAKE_TOKEN", "from-the-environment\n")
        with Client() as client:
            client.me()
        with Client(token="given") as client:
            client.me()
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer from-the-environment", "Bearer given"]


def test_the_token_of_the_home_stays_on_this_machine(alone: Path) -> None:
    (alone / "credentials.json").write_text(json.dumps({"admin_token": "the-admin"}))
    with pytest.raises(Unauthenticated, match=r"No token for http://tracelake\.example; set TRACELAKE_TOKEN"):
        Client("http://tracelake.example")


def test_without_a_system_the_error_says_how_to_start_one(alone: Path) -> None:
    with pytest.raises(NotRunning, match=f"No Tracelake system runs in {alone}; start one with `tracelake up`"):
        Client()
    with refusing() as url, Client(url, "t") as client, pytest.raises(NotRunning, match=f"Nothing answers at {url}"):
        client.me()


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:80", "http://", "http://h:99999", "http://[::1"])
def test_a_wrong_address_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(SettingInvalid, match="TRACELAKE_API_URL"):
        Client(url, "t")


def test_a_damaged_home_is_named_and_a_token_of_two_lines_never_repeated(alone: Path) -> None:
    with pytest.raises(SettingInvalid) as caught:
        Client("http://127.0.0.1:9", "sec\nret")
    assert "sec" not in caught.value.detail
    (alone / "running.json").write_text("{")
    with pytest.raises(SettingInvalid, match="TRACELAKE_HOME"):
        Client()


@pytest.mark.parametrize(("status", "kind"), [(200, NotRunning), (307, NotRunning), (404, NotRunning), (502, Unavailable)])
def test_another_server_at_the_address_is_reported_as_such(status: int, kind: type[TracelakeError]) -> None:
    with serving(lambda asked: Said(status, b"<html>hello</html>", "text/html")) as server, Client(server.url, "t") as client, pytest.raises(kind, match=server.url):
        client.me()


def test_a_run_whose_connection_broke_is_sent_again_with_the_same_key() -> None:
    answers = iter([None, None, Said(200, task())])
    with serving(lambda asked: next(answers)) as server, Client(server.url, "t") as client:
        assert client.dags.run("d", "j", {"cursors": [1]}).state is TaskState.QUEUED
    assert len(server.asked) == 3
    assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 1
    assert {json.dumps(asked.body) for asked in server.asked} == {'{"dag": "d", "job": "j", "request": {"cursors": [1]}}'}


def test_two_runs_have_two_keys_and_a_given_key_is_kept() -> None:
    with serving(lambda asked: Said(200, task())) as server, Client(server.url, "t") as client:
        client.dags.run("d", "j")
        client.dags.run("d", "j")
        client.dags.run("d", "j", idempotency_key="mine")
    keys = [asked.headers["idempotency-key"] for asked in server.asked]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_what_stays_broken_is_an_unknown_outcome_for_a_change_and_unavailable_for_a_question() -> None:
    with serving(lambda asked: None) as server, Client(server.url, "t") as client:
        with pytest.raises(OutcomeUnknown, match="the idempotency key mine"):
            client.dags.run("d", "j", idempotency_key="mine")
        with pytest.raises(OutcomeUnknown, match="repeat it, which is safe"):
            client.dags.pause("d")
        with pytest.raises(Unavailable):
            client.me()


def test_a_system_that_is_gone_after_it_heard_the_request_may_have_done_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def hear_and_go() -> None:
            heard, _ = listening.accept()
            listening.close()
            heard.recv(65536)
            heard.close()

        going = threading.Thread(target=hear_and_go)
        going.start()
        with Client(url, "t") as client, pytest.raises(OutcomeUnknown):
            client.dags.run("d", "j")
        going.join()


def test_a_service_that_times_out_is_called_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, "t", timeout=0.2) as client, pytest.raises(OutcomeUnknown):
            client.tasks.cancel(uuid4())


def test_pages_are_followed_to_their_end() -> None:
    pages = {None: (["a", "b"], "b"), "b": (["c"], "c"), "c": ([], None)}
    ids = {name: str(uuid4()) for name in "abc"}

    def answer(asked: Asked) -> Said:
        token = asked.path.partition("token=")[2] or None
        names, after = pages[token]
        return Said(200, {"items": [task(id=ids[name]) for name in names], "next": after})

    with serving(answer) as server, Client(server.url, "t") as client:
        assert [str(found.id) for found in client.tasks.iterate(dag="d", state=TaskState.QUEUED)] == list(ids.values())
    assert server.asked[0].path == "/v1/tasks?dag=d&state=queued&limit=500"


def test_a_task_is_followed_to_its_end_over_a_restart_of_the_system() -> None:
    down = Said(503, Unavailable().problem(), "application/problem+json")
    answers = iter([Said(200, task()), down, down, Said(200, task("running")), Said(200, task("completed"))])
    with serving(lambda asked: next(answers)) as server, Client(server.url, "t") as client:
        assert [seen.state.value for seen in client.tasks.follow(uuid4(), every=0)] == ["queued", "running", "completed"]
    with serving(lambda asked: down) as server, Client(server.url, "t") as client, pytest.raises(Unavailable):
        next(client.tasks.follow(uuid4(), every=0, patience=0))


def test_a_name_cannot_leave_its_place_in_the_address() -> None:
    gone = Said(404, NotFound().problem(), "application/problem+json")
    with serving(lambda asked: gone) as server, Client(server.url, "t") as client, pytest.raises(NotFound):
        client.dags.pause("../../internal?x=1", "a/b")
    assert server.asked[0].path == "/v1/dags/..%2F..%2Finternal%3Fx%3D1/jobs/a%2Fb/pause"


@pytest.mark.proves("M4.3")
def test_the_client_loads_nothing_but_pydantic_and_httpx() -> None:
    program = """
import sys, pydantic, httpx2
pydantic.BaseModel, pydantic.TypeAdapter, httpx2.Client()
before = {name.partition(".")[0] for name in sys.modules}
import tracelake_sdk.client
after = {name.partition(".")[0] for name in sys.modules} - before - set(sys.stdlib_module_names)
print(sorted(after))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "['annotated_types', 'tracelake_sdk']\n"


@pytest.mark.parametrize("value", ["\ud800", float("nan"), float("-inf")])
def test_what_cannot_be_json_is_refused_before_it_is_sent(value: object):
    with serving(lambda asked: pytest.fail("it was sent")) as server, Client(server.url, "t") as client, pytest.raises(Invalid, match="cannot be encoded as JSON"):
        client.dags.run("sales", "load", {"value": value})
