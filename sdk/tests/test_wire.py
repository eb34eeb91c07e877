"""A request whose connection breaks is sent again, a few times, and never where that could not help."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from support.wire import Said, serving

from tracelake_sdk.client.wire import Unanswered, Unreached, connect, error_in, send
from tracelake_sdk.errors import NotFound


@contextmanager
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    made: list[float] = []
    with monkeypatch.context() as patched:
        patched.setattr(time, "sleep", made.append)
        yield made


def test_an_answer_is_returned_unchanged_and_requested_once() -> None:
    with serving(lambda asked: Said(503, {"no": "more"})) as server, connect(server.url, "a token", timeout=5) as http:
        answer = send(http, "POST", "/v1/x", json={"a": 1})
    assert (answer.status_code, answer.json()) == (503, {"no": "more"})
    assert [(asked.method, asked.path, asked.body, asked.headers["authorization"]) for asked in server.asked] == [("POST", "/v1/x", {"a": 1}, "Bearer a token")]


def test_what_broke_is_sent_again_with_a_longer_pause_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, None, Said(200, "done")])
    with serving(lambda asked: next(answers)) as server, connect(server.url, "t", timeout=5) as http, pauses(monkeypatch) as made:
        assert send(http, "POST", "/v1/x", json=[1], headers={"Idempotency-Key": "k"}).json() == "done"
    assert [(asked.body, asked.headers["idempotency-key"]) for asked in server.asked] == [([1], "k")] * 3
    assert made == pytest.approx([0.1, 0.2])


def test_what_stays_broken_is_unanswered_after_three_tries() -> None:
    with serving(lambda asked: None) as server, connect(server.url, "t", timeout=5) as http, pytest.raises(Unanswered) as caught:
        send(http, "GET", "/v1/x")
    assert len(server.asked) == 3
    assert isinstance(caught.value.__cause__, httpx2.TransportError)


def test_where_nothing_listens_nothing_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:  # bound and not listening: nobody else can take the port meanwhile
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with connect(url, "t", timeout=5) as http, pauses(monkeypatch) as made, pytest.raises(Unreached):
            send(http, "GET", "/v1/x")
    assert made == []


def test_who_is_gone_after_it_heard_the_request_is_unanswered_and_not_unreached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def hear_and_go() -> None:
            heard, _ = listening.accept()
            listening.close()
            heard.recv(65536)
            heard.close()

        going = threading.Thread(target=hear_and_go)
        going.start()
        with connect(url, "t", timeout=5) as http, pytest.raises(Unanswered):
            send(http, "GET", "/v1/x")
        going.join()


def test_a_request_that_times_out_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pauses(monkeypatch) as made:
        with connect(f"http://127.0.0.1:{silent.getsockname()[1]}", "t", timeout=0.2) as http, pytest.raises(Unanswered):
            send(http, "GET", "/v1/x")
        assert made == []


def test_an_error_is_raised_as_its_class_and_other_answers_are_not_errors() -> None:
    said = NotFound("Dataset x was not found.").problem()
    kind = "application/problem+json"
    found = error_in(httpx2.Response(404, json=said, headers={"content-type": f"{kind}; charset=utf-8"}))
    assert isinstance(found, NotFound)
    assert found.detail == "Dataset x was not found."
    assert error_in(httpx2.Response(404, json=said)) is None
    assert error_in(httpx2.Response(404, content=b'{"half":', headers={"content-type": kind})) is None
    assert error_in(httpx2.Response(404, json=["no object"], headers={"content-type": kind})) is None
