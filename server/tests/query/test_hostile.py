"""Hostile SQL is refused or bounded with a stable code, honest SQL is answered, and nobody is harmed by another's bomb."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from support.queries import QueryLake

from tracelake_sdk.home import HomeFiles

from .honest import HONEST
from .hostile import BOMBS, DEEP, OVER, REFUSED, SQL

COUNT = "SELECT count(*) FROM orders_raw"


@pytest.fixture(scope="module")
def http(asked: QueryLake) -> Iterator[httpx2.Client]:
    token = HomeFiles(asked.control.settings.home).admin_token()
    with httpx2.Client(base_url=asked.api_url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as client:
        yield client


def code_of(http: httpx2.Client, sql: str) -> tuple[int, str]:
    answer = http.post("/v1/query", json={"sql": sql})
    return answer.status_code, "" if answer.status_code == 200 else answer.json()["code"]


def state_of(lake: QueryLake) -> dict[str, str]:
    """Every file of the home's lake, by what is in it."""
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(lake.root.rglob("*")) if file.is_file()}


def test_the_corpus_is_large_enough():
    assert len({sql for sql, _ in SQL}) + len(BOMBS) + len(DEEP) >= 200
    assert len(set(HONEST)) >= 60


@pytest.mark.proves("T6.4")
def test_hostile_statements_are_refused_with_a_stable_code_and_change_nothing(asked: QueryLake, http: httpx2.Client, tmp_path: Path):
    file = next(asked.root.rglob("*.parquet"))
    before = state_of(asked)
    wrong: list[tuple[str, int, str]] = []
    for sql, codes in SQL:
        status, code = code_of(http, sql.replace("{file}", str(file)).replace("{folder}", str(tmp_path)))
        if not 400 <= status < 500 or code not in codes:
            wrong.append((sql, status, code))
    assert wrong == []
    assert state_of(asked) == before
    assert list(tmp_path.iterdir()) == []
    assert code_of(http, COUNT) == (200, "")


@pytest.mark.proves("T6.4", "T6.1")
def test_honest_statements_are_answered(http: httpx2.Client):
    wrong = [(sql, *found) for sql in HONEST if (found := code_of(http, sql)) != (200, "")]
    assert wrong == []


@pytest.mark.proves("T6.4")
def test_deep_nesting_is_refused(http: httpx2.Client):
    for sql in DEEP:
        status, code = code_of(http, sql)
        assert status == 200 or (status == 422 and code in {REFUSED, OVER, "query_invalid"}), (sql[:60], status, code)
    assert code_of(http, COUNT) == (200, "")


@pytest.mark.proves("T6.4", "T6.5")
def test_a_bomb_is_bounded_and_harms_nobody_else(http: httpx2.Client, asked: QueryLake):
    """A second user asks all the time: there are two engines, and a bomb has one of them."""
    over = threading.Event()
    answered: list[tuple[int, str]] = []
    token = HomeFiles(asked.control.settings.home).admin_token()

    def ask_all_the_time() -> None:
        with httpx2.Client(base_url=asked.api_url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as second:
            while not over.is_set():
                answered.append(code_of(second, COUNT))

    beside = threading.Thread(target=ask_all_the_time)
    beside.start()
    try:
        wrong = [(sql, *found) for sql in BOMBS if (found := code_of(http, sql)) not in {(422, OVER), (422, "query_invalid")}]
    finally:
        over.set()
        beside.join(60)
    assert wrong == []
    assert len(answered) > len(BOMBS)
    assert set(answered) == {(200, "")}


@pytest.mark.proves("T6.5")
def test_rows_beyond_the_limit_are_cut_and_said_so(http: httpx2.Client):
    answer = http.post("/v1/query", json={"sql": "SELECT i FROM range(100000000000) t(i)", "limit": 7})
    assert answer.status_code == 200, answer.text
    endless = answer.json()
    assert (len(endless["rows"]), endless["more"], endless["receipt"]["row_count"]) == (7, True, 7)
    assert endless["receipt"]["replayable"] is False
    assert "cut" in endless["receipt"]["why_not"]
    exact = http.post("/v1/query", json={"sql": "SELECT i FROM range(7) t(i)", "limit": 7}).json()
    assert (len(exact["rows"]), exact["more"], exact["receipt"]["replayable"]) == (7, False, True)
