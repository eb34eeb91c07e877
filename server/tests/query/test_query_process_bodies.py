"""What a query process reads of a request before it knows that it may."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.queries import QueryLake, query_lake
from support.slow_clients import HUGE, Connection


@pytest.fixture
def query_url(database: StateDatabase, tmp_path: Path) -> Iterator[str]:
    with query_lake(database, tmp_path) as lake:
        yield url_of(lake)


def url_of(lake: QueryLake) -> str:
    return f"http://127.0.0.1:{lake.queries.port}"


def test_a_request_that_cannot_be_a_question_is_answered_before_its_body_is_sent(query_url: str):
    for headers, refused in (
        ((f"Content-Length: {HUGE}",), (401, "unauthenticated")),
        (("Transfer-Encoding: chunked",), (401, "unauthenticated")),
        ((f"Content-Length: {HUGE}", "Authorization: Bearer tl_any"), (413, "too_large")),
        (("Content-Length: 9", "Content-Encoding: gzip", "Authorization: Bearer tl_any"), (400, "malformed")),
    ):
        with Connection(query_url) as connection:
            connection.head("POST", "/query", *headers)
            status, told, problem = connection.answer()
            assert (status, problem["code"], told["connection"]) == (*refused, "close")
            assert connection.sends_until_it_is_closed() < HUGE
