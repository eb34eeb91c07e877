"""What a query process reads of a request before it knows that it may."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from structlog.testing import capture_logs
from support.databases import StateDatabase
from support.queries import QueryLake, query_lake
from support.slow_clients import HUGE, Connection

from tracelake_sdk.home import HomeFiles


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[QueryLake]:
    with query_lake(database, tmp_path) as running:
        yield running


def url_of(lake: QueryLake) -> str:
    return f"http://127.0.0.1:{lake.queries.port}"


@pytest.mark.proves("T3.1")
def test_a_request_that_cannot_be_a_question_is_answered_before_its_body_is_sent(lake: QueryLake):
    files = HomeFiles(lake.control.settings.home)
    known = f"Authorization: Bearer {files.admin_token()}"
    for headers, refused in (
        ((f"Content-Length: {HUGE}",), (401, "unauthenticated")),
        (("Transfer-Encoding: chunked",), (401, "unauthenticated")),
        (("Content-Length: 9", "Authorization: Bearer tl_unknown"), (401, "unauthenticated")),
        (("Content-Length: 9", f"Authorization: Bearer {files.worker_token()}"), (403, "forbidden")),
        (("Content-Length: 9", f"Authorization: Bearer {files.query_token()}"), (403, "forbidden")),
        ((f"Content-Length: {HUGE}", known), (413, "too_large")),
        (("Content-Length: 9", "Content-Encoding: gzip", known), (400, "malformed")),
    ):
        with Connection(url_of(lake)) as connection:
            connection.head("POST", "/query", *headers)
            status, answer_headers, problem = connection.answer()
            assert (status, problem["code"], answer_headers["connection"]) == (*refused, "close")
            assert connection.sends_until_it_is_closed() < HUGE


def test_an_unexpected_error_is_logged_with_its_place_and_without_the_statement(lake: QueryLake, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("the inner secret")

    monkeypatch.setattr("tracelake.query.front.Front.answer", broken)
    token = HomeFiles(lake.control.settings.home).admin_token()
    with capture_logs() as logged:
        answer = httpx2.post(f"{url_of(lake)}/query", json={"sql": "SELECT 'a secret'"}, headers={"Authorization": f"Bearer {token}"}, timeout=60)
    [entry] = [entry for entry in logged if entry["event"] == "an unexpected error"]
    assert (answer.status_code, answer.json()["id"], entry["error"]) == (500, entry["id"], "ZeroDivisionError")
    assert entry["raised_in"][-1].startswith("test_query_process_bodies.py:")
    assert "secret" not in str(logged) + answer.text
