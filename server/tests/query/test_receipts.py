"""Receipts and replay: who sees what, whose rights count, and what differs is called different."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.processes import wait_until
from support.queries import QueryLake, query_lake

from tracelake.embedded.processes import ProcessIdentity
from tracelake.loops import Loop
from tracelake_sdk.access import TokenKind
from tracelake_sdk.client import Client
from tracelake_sdk.errors import NotFound, NotReplayable, QueryOverLimit, TooManyQueries


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[QueryLake]:
    with query_lake(database, tmp_path, engines=1, waiting=1, max_seconds=3) as running:
        running.publish("orders")
        running.commit("orders", [(1, "x"), (2, "y")])
        yield running


def reader(lake: QueryLake, name: str, *roles: str) -> Client:
    """A user of these roles."""
    with lake.client() as admin:
        admin.admin.create_user(name, roles=roles)
        token = admin.admin.create_token(TokenKind.USER, name, user=name).token
    return lake.client(token)


@pytest.mark.proves("T6.1", "T5.2")
def test_only_who_may_read_a_dataset_queries_it(lake: QueryLake):
    with lake.client() as admin, reader(lake, "ana", "reader") as ana:
        with pytest.raises(NotFound, match="No dataset 'orders_raw' that ana may read"):
            ana.query("SELECT * FROM orders_raw")
        admin.admin.create_role("analysts")
        admin.admin.add_member("analysts", "ana")
        admin.admin.set_read_roles("orders_raw", ["analysts"])
        # What a token may is remembered for a moment.
        lake.services.access._remembered.clear()
        assert sorted(ana.query("SELECT * FROM orders_raw")) == [(1, "x"), (2, "y")]
        with pytest.raises(NotFound, match="did you mean orders_raw"):
            ana.query("SELECT * FROM order_raw")


@pytest.mark.proves("T6.2", "T6.7")
def test_the_statement_is_its_authors_and_replay_asks_for_todays_rights(lake: QueryLake):
    sql = "SELECT * FROM orders_raw"
    with lake.client() as admin, reader(lake, "ana", "reader") as ana, reader(lake, "eve", "auditor") as eve:
        admin.admin.create_role("analysts")
        admin.admin.add_member("analysts", "ana")
        admin.admin.set_read_roles("orders_raw", ["analysts"])
        receipt = ana.query(sql).receipt
        assert ana.queries.get(receipt.id).sql == sql
        assert admin.queries.get(receipt.id).sql is None
        assert (eve.queries.get(receipt.id).actor, eve.queries.get(receipt.id).sql) == ("ana", None)
        assert [run.id for run in ana.queries.list().items] == [receipt.id]
        # Who has the receipt's statement may replay it, if it may read; who has not, may not.
        assert admin.queries.replay(receipt.id, sql=sql).replay.same  # pyright: ignore[reportOptionalMemberAccess]
        with pytest.raises(NotFound):
            admin.queries.replay(receipt.id)
        with pytest.raises(NotFound):
            admin.queries.replay(receipt.id, sql="SELECT 1")
        with pytest.raises(NotFound, match="No dataset"):
            eve.queries.replay(receipt.id, sql=sql)
        assert ana.queries.replay(receipt.id).replay.same  # pyright: ignore[reportOptionalMemberAccess]
        admin.admin.set_read_roles("orders_raw", [])
        with pytest.raises(NotFound, match="No dataset"):
            ana.queries.replay(receipt.id)


@pytest.mark.proves("T6.2")
def test_a_result_that_differs_is_called_different(lake: QueryLake):
    with lake.client() as client:
        receipt = client.query("SELECT * FROM orders_raw").receipt
        # As if the files of the version were others: the line says another hash.
        lake.query("ALTER TABLE query_run DISABLE TRIGGER append_only")
        lake.query("UPDATE query_run SET result_hash = 'another' WHERE id = %s", receipt.id)
        again = client.queries.replay(receipt.id)
        assert again.replay is not None
        assert (again.replay.same, again.replay.expected_hash) == (False, "another")


@pytest.mark.proves("T6.2")
def test_a_name_that_moved_does_not_change_what_a_receipt_means(lake: QueryLake):
    with lake.client() as client:
        receipt = client.query("SELECT * FROM orders_raw").receipt
        lake.query("UPDATE dataset_name SET name = 'elsewhere' WHERE name = 'orders_raw'")
        with pytest.raises(NotFound):
            client.query("SELECT * FROM orders_raw")
        again = client.queries.replay(receipt.id)
        assert again.replay is not None and again.replay.same
        assert again.receipt.pins == receipt.pins


def test_what_never_had_a_result_is_not_replayed(lake: QueryLake):
    with lake.client() as client:
        for sql in ("DROP TABLE x", "SELECT nothing FROM orders_raw", "SELECT * FROM nowhere"):
            with pytest.raises(Exception, match=r".+"):
                client.query(sql)
        runs = client.queries.list().items
        assert [(run.status.value, run.error_code) for run in runs] == [("refused", "not_found"), ("failed", "query_invalid"), ("refused", "query_refused")]
        for run in runs:
            with pytest.raises(NotReplayable):
                client.queries.replay(run.id)


@pytest.mark.proves("T6.5")
def test_beyond_the_line_a_query_is_sent_away_and_a_slow_one_is_ended(lake: QueryLake):
    slow = "SELECT count(*) FROM range(1000000000000)"
    ended: list[str] = []
    refused: list[int | None] = []

    def ask() -> None:
        with lake.client() as client:
            try:
                client.query(slow)
            except QueryOverLimit as error:
                ended.append(error.extra["limit"])
            except TooManyQueries as error:
                refused.append(error.retry_after)

    with lake.client() as client:
        client.query("SELECT 1")
    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(60)
    # One runs, one waits for it, the others are sent away at once.
    assert (ended, refused) == (["time"] * 2, [1] * 2)
    with lake.client() as client:
        assert client.query("SELECT count(*) FROM orders_raw").rows == [(2,)]


def test_saved_queries_are_their_authors(lake: QueryLake):
    with lake.client() as admin, reader(lake, "ana", "reader") as ana:
        admin.saved_queries.save("top", "SELECT 1", description="the first")
        admin.saved_queries.save("top", "SELECT 2")
        ana.saved_queries.save("top", "SELECT 3")
        assert [(saved.name, saved.sql) for saved in admin.saved_queries.list()] == [("top", "SELECT 2")]
        assert ana.saved_queries.get("top").sql == "SELECT 3"
        ana.saved_queries.forget("top")
        with pytest.raises(NotFound):
            ana.saved_queries.get("top")
        with pytest.raises(NotFound):
            ana.saved_queries.forget("top")
        assert admin.saved_queries.get("top").sql == "SELECT 2"


@pytest.mark.proves("T6.4")
def test_an_engine_that_is_killed_is_replaced(lake: QueryLake):
    with lake.client() as client:
        client.query("SELECT 1")
        [pid] = lake.queries.engines.pids
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: ProcessIdentity.find(pid) is None and len(list(Path("/proc").glob(f"{pid}/task/*"))) <= 1, "all of its threads have ended")
        assert client.query("SELECT count(*) FROM orders_raw").rows == [(2,)]
        assert lake.queries.engines.pids != [pid]


@pytest.mark.proves("T6.4")
def test_an_engine_holds_no_credential_and_no_power(lake: QueryLake):
    with lake.client() as client:
        client.query("SELECT 1")
    [pid] = lake.queries.engines.pids
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"TRACELAKE" not in environment and b"tl_" not in environment
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0


def test_idle_engines_end(lake: QueryLake):
    with lake.client() as client:
        client.query("SELECT 1")
    engines = lake.queries.engines
    assert (engines.end_idle(), len(engines.pids)) == (0, 1)
    engines._clock = lambda: 10**9
    assert (engines.end_idle(), engines.pids) == (1, [])


def test_the_loop_that_ends_idle_engines_pauses_while_one_waits_for_queries(lake: QueryLake):
    with lake.client() as client:
        client.query("SELECT 1")
    assert len(lake.queries.engines.pids) == 1
    assert Loop("idle", lake.queries.engines.end_idle, pause=30).take_turn() == 30
