"""Queries while versions are committed: what is read is of one moment, is what the receipt says, and can be read again."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.lakes import BRONZE
from support.queries import QueryLake, query_lake
from support.sizes import size

from tracelake.control.queries import resolving
from tracelake.control.registry import store as registry
from tracelake_sdk.errors import NotReplayable, Unavailable
from tracelake_sdk.query_results import QueryResult

# Every version replaces all rows, and each row carries the number of its version.
STAMPED = BRONZE.replace("update_strategy: append\n    unique_key: [id]", "update_strategy: replace")
JOINED = "SELECT DISTINCT a.value, b.value FROM first_raw a JOIN second_raw b USING (id)"
ROWS = 20
ASKING = 4


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[QueryLake]:
    with query_lake(database, tmp_path, engines=2, waiting=64, patience_seconds=120, max_seconds=60) as running:
        yield running


def stamp(lake: QueryLake, version: int) -> None:
    """The next version of both, the first one first: at every moment the first is as far as the second, or one further."""
    for name in ("first", "second"):
        lake.commit(name, [(id, str(version)) for id in range(ROWS)])


def check(result: QueryResult) -> tuple[int, int]:
    """The versions that were read: those of the receipt, in every row, and of one moment."""
    [(first, second)] = result.rows
    pins = {pin.name: pin.version for pin in result.receipt.pins}
    assert (int(first), int(second)) == (pins["first_raw"], pins["second_raw"])
    assert 0 <= pins["first_raw"] - pins["second_raw"] <= 1, f"of two moments: {pins}"
    return pins["first_raw"], pins["second_raw"]


@pytest.mark.proves("T6.2")
def test_a_join_is_of_one_moment_while_both_sides_are_committed(lake: QueryLake):
    for name in ("first", "second"):
        lake.publish(name, definition=STAMPED)
    stamp(lake, 1)
    over = threading.Event()

    def ask(number: int) -> list[tuple[int, int]]:
        with lake.client() as client:
            return [check(client.query(JOINED)) for _ in range(number)]

    def commit() -> int:
        version = 1
        while not over.wait(0.05):  # a breath: it is the queries that are tried here
            version += 1
            stamp(lake, version)
            if version % 10 == 0:
                # A name for one version moves while it is read: it is taken away and given to another.
                if version > 10:
                    lake.services.snapshots.unpin(lake.admin, "kept")
                lake.services.snapshots.pin(lake.admin, "first_raw", "kept", version=version)
        return version

    with ThreadPoolExecutor(ASKING + 1) as pool:
        committing = pool.submit(commit)
        try:
            seen = [pins for asked in [pool.submit(ask, size(2_000, 100_000) // ASKING) for _ in range(ASKING)] for pins in asked.result()]
        finally:
            over.set()
        committed = committing.result()
    assert len(set(seen)) > 5, "nothing was committed while it was asked"
    assert max(first for first, _ in seen) <= committed


@pytest.mark.proves("T6.2")
def test_resolving_one_by_one_would_be_seen(lake: QueryLake, monkeypatch: pytest.MonkeyPatch):
    for name in ("first", "second"):
        lake.publish(name, definition=STAMPED)
    stamp(lake, 1)
    together = registry.resolve

    def one_by_one(tx, org, names):
        found = []
        for name in names:
            found += together(tx, org, [name])
            if name == "first_raw":
                stamp(lake, 2)
        return found

    with lake.client() as client:
        assert check(client.query(JOINED)) == (1, 1)
        monkeypatch.setattr(resolving.registry, "resolve", one_by_one)
        with pytest.raises(AssertionError, match="of two moments"):
            check(client.query(JOINED))


REPLAYED = [
    "SELECT * FROM first_raw",
    "SELECT count(*), sum(id) FROM first_raw JOIN second_raw USING (id)",
    'SELECT * FROM "first_raw@1" ORDER BY id DESC LIMIT 3',
    "SELECT value, avg(id) FROM first_raw GROUP BY value",
    "SELECT id FROM second_raw ORDER BY ALL LIMIT 5",
    "SELECT a.id FROM first_raw AT (VERSION => 2) a, second_raw b WHERE a.id = b.id",
    "SELECT id, row_number() OVER (ORDER BY id) FROM first_raw",
]
NOT_REPLAYED = {
    "SELECT now(), count(*) FROM first_raw": "now()",
    "SELECT current_date FROM first_raw": "current_date",
    "SELECT random() FROM first_raw": "random()",
    "SELECT * FROM first_raw LIMIT 3": "LIMIT",
    "SELECT * FROM first_raw ORDER BY value LIMIT 3": "LIMIT",
    "SELECT count(*) FROM (SELECT * FROM first_raw LIMIT 3)": "LIMIT",
    "SELECT first(id) FROM first_raw": "first()",
    "SELECT * FROM first_raw USING SAMPLE 3 ROWS": "sample",
    "SELECT row_number() OVER (), id FROM first_raw": "row_number()",
}


@pytest.mark.proves("T6.2")
def test_receipts_replay_to_the_same_rows_after_fifty_commits(lake: QueryLake):
    for name in ("first", "second"):
        lake.publish(name)
    for version in (1, 2):
        for name in ("first", "second"):
            lake.commit(name, [(version * 1000 + n, "x") for n in range(ROWS)])
    with lake.client() as client:
        asked = {sql: client.query(sql) for sql in REPLAYED}
        for number in range(50):
            lake.commit("first" if number % 2 else "second", [(10_000 + number, "later")])
        for sql, before in asked.items():
            after = client.replay(before.receipt.id)
            assert after.replay is not None and after.replay.same, sql
            assert after.receipt.result_hash == before.receipt.result_hash, sql
            assert after.receipt.pins == before.receipt.pins, sql
            assert sorted(after.rows) == sorted(before.rows), sql
            assert client.query_run(after.receipt.id).replay_of == before.receipt.id
        # The same statement now reads other versions, and says so.
        assert client.query(REPLAYED[0]).receipt.result_hash != asked[REPLAYED[0]].receipt.result_hash


@pytest.mark.proves("T6.2")
def test_what_cannot_be_replayed_says_so_at_once(lake: QueryLake):
    lake.publish("first", definition=STAMPED)
    lake.commit("first", [(n, "x") for n in range(ROWS)])
    with lake.client() as client:
        for sql, reason in NOT_REPLAYED.items():
            receipt = client.query(sql).receipt
            assert not receipt.replayable and reason.lower() in (receipt.why_not or "").lower(), sql
            before = len(client.query_runs(limit=500).items)
            with pytest.raises(NotReplayable, match=r".+"):
                client.replay(receipt.id)
            assert len(client.query_runs(limit=500).items) == before, "it was refused before it was asked again"


def test_a_client_of_a_dead_query_process_is_told_to_try_again(lake: QueryLake):
    lake.queries.should_exit = True
    deadline = threading.Event()
    for _ in range(100):
        if lake.queries.servers and not lake.queries.servers[0].is_serving():
            break
        deadline.wait(0.05)
    with lake.client() as client, pytest.raises(Unavailable, match="query process does not answer"):
        client.query("SELECT 1")
