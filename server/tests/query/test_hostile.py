"""Hostile SQL is refused or bounded with a stable code, honest SQL is answered, and nobody is harmed by another's bomb."""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from support.databases import fresh_database
from support.queries import QueryLake, query_lake

from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake_sdk.access import TokenKind
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


@pytest.fixture
def bombed(postgres: EmbeddedPostgres, tmp_path: Path) -> Iterator[QueryLake]:
    """Three engines: two bombs at a time leave one."""
    with fresh_database(postgres) as database, query_lake(database, tmp_path, engines=3, max_seconds=2, waiting=100, patience_seconds=120) as lake:
        lake.publish("orders")
        lake.commit("orders", [(n, "x") for n in range(40)])
        yield lake


@pytest.mark.proves("T6.4", "T6.5")
def test_a_bomb_is_limited_and_other_queries_succeed(bombed: QueryLake):
    """A second user, who may read one dataset and nothing else, asks all the time."""
    with bombed.client() as admin:
        admin.admin.create_role("analysts")
        admin.admin.create_user("ana", roles=["analysts"])
        admin.admin.set_read_roles("orders_raw", ["analysts"])
        token = admin.admin.create_token(TokenKind.USER, "ana", user="ana").token
    over = threading.Event()
    answered: list[tuple[int, str]] = []

    def ask_all_the_time() -> None:
        with httpx2.Client(base_url=bombed.api_url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as second:
            while not over.is_set():
                answered.append(code_of(second, COUNT))

    def throw(bombs: Sequence[str]) -> list[tuple[str, int, str]]:
        headers = {"Authorization": f"Bearer {HomeFiles(bombed.control.settings.home).admin_token()}"}
        with httpx2.Client(base_url=bombed.api_url, headers=headers, timeout=120) as first:
            return [(sql, *found) for sql in bombs if (found := code_of(first, sql)) not in {(422, OVER), (422, "query_invalid")}]

    with ThreadPoolExecutor(3) as pool:
        beside = pool.submit(ask_all_the_time)
        try:
            wrong = [each for thrown in [pool.submit(throw, BOMBS[0::2]), pool.submit(throw, BOMBS[1::2])] for each in thrown.result(timeout=300)]
        finally:
            over.set()
        beside.result(timeout=60)
    assert wrong == []
    assert len(answered) > len(BOMBS)
    assert set(answered) == {(200, "")}
    with bombed.client(token) as ana:
        assert {run.actor for run in ana.queries.list().items} == {"ana"}


@pytest.mark.proves("T6.5")
def test_rows_beyond_the_limit_are_cut_and_reported(http: httpx2.Client):
    answer = http.post("/v1/query", json={"sql": "SELECT i FROM range(100000000000) t(i)", "limit": 7})
    assert answer.status_code == 200, answer.text
    endless = answer.json()
    assert (len(endless["rows"]), endless["more"], endless["receipt"]["row_count"]) == (7, True, 7)
    assert endless["receipt"]["replayable"] is False
    assert "cut" in endless["receipt"]["why_not"]
    exact = http.post("/v1/query", json={"sql": "SELECT i FROM range(7) t(i)", "limit": 7}).json()
    assert (len(exact["rows"]), exact["more"], exact["receipt"]["replayable"]) == (7, False, True)
