"""Who hangs up ends the query: its engine is for others again, its pin is given back, and its line says so."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest
from support.databases import StateDatabase
from support.processes import wait_until
from support.queries import QueryLake, query_lake

from tracelake.kept_connections import Call, KeptConnections, NoAnswer
from tracelake.query.engines import Listener
from tracelake_sdk.home import HomeFiles

ENDLESS = "SELECT count(*) FROM orders_raw, range(1000000000000)"

pytestmark = pytest.mark.proves("T6.5")


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[QueryLake]:
    """One engine, which an endless query has for an hour."""
    with query_lake(database, tmp_path, engines=1, waiting=4, max_seconds=3600, patience_seconds=600) as running:
        running.publish("orders")
        running.commit("orders", [(1, "x"), (2, "y")])
        yield running


def asked(lake: QueryLake, sql: str) -> HTTPConnection:
    """A question whose answer nobody has read yet."""
    connection = HTTPConnection(urlsplit(lake.api_url).netloc, timeout=60)
    headers = {"authorization": f"Bearer {HomeFiles(lake.control.settings.home).admin_token()}", "content-type": "application/json"}
    connection.request("POST", "/v1/query", orjson.dumps({"sql": sql}), headers)
    return connection


def held(lake: QueryLake) -> int:
    return lake.one("SELECT count(*) FROM pin WHERE released_at IS NULL")


def test_a_query_whose_asker_has_gone_is_ended_and_its_engine_serves_others(lake: QueryLake):
    asking = asked(lake, ENDLESS)
    wait_until(lambda: held(lake) == 1, "it runs")
    asking.close()
    with lake.client() as client:
        assert client.query("SELECT count(*) FROM orders_raw").rows == [(2,)]
        runs = client.queries.list().items
    assert [(run.status.value, run.error_code) for run in runs] == [("done", None), ("failed", "query_abandoned")]
    assert held(lake) == 0


def test_one_who_went_while_waiting_in_line_has_no_engine(lake: QueryLake, monkeypatch: pytest.MonkeyPatch):
    gone: list[Listener] = []
    hang_up = Listener.hang_up
    monkeypatch.setattr(Listener, "hang_up", lambda listener: (hang_up(listener), gone.append(listener)))
    running = asked(lake, ENDLESS)
    wait_until(lambda: held(lake) == 1, "one runs")
    waiting = asked(lake, ENDLESS)
    wait_until(lambda: lake.queries.engines._waiting == 1, "one waits")
    waiting.close()
    wait_until(lambda: len(gone) == 1, "it is noticed before the engine is free")
    running.close()
    with lake.client() as client:
        assert client.query("SELECT count(*) FROM orders_raw").rows == [(2,)]
        assert [run.error_code for run in client.queries.list().items] == [None, "query_abandoned"]


def test_an_aborted_query_is_not_repeated():
    call = Call()
    call.break_off()
    connections = KeptConnections("http://127.0.0.1:9")
    with pytest.raises(NoAnswer):
        connections.request("POST", "/", b"", {}, seconds=1, call=call, repeat=True)
