"""Queries while versions are committed: what is read is of one moment, is what the receipt says, and can be read again."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from support.databases import StateDatabase
from support.lakes import BRONZE
from support.processes import wait_until
from support.queries import QueryLake, query_lake
from support.sizes import size

from tracelake.control.database.ids import new_id
from tracelake.control.queries import resolving
from tracelake.control.registry import store as registry
from tracelake_sdk.errors import NotReplayable, Unavailable
from tracelake_sdk.queries.results import QueryResult

# Every version replaces all rows, and each row carries the number of its version.
STAMPED = BRONZE.replace("update_strategy: append\n    unique_key: [id]", "update_strategy: replace")
JOINED = "SELECT DISTINCT a.value, b.value FROM first_raw a JOIN second_raw b USING (id)"
ROWS = 20
ASKING = 4


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[QueryLake]:
    with query_lake(database, tmp_path, engines=2, threads=1, waiting=64, patience_seconds=120, max_seconds=60) as running:
        yield running


def publish_both(lake: QueryLake) -> None:
    """A job with two outputs. No operator has two yet: it is given the second one around every check."""
    lake.publish("first", definition=STAMPED)
    dataset, table = new_id(), new_id()
    statements: list[tuple[LiteralString, list[Any]]] = [
        ("INSERT INTO dataset (id, org_id, job_key_id, output_index, layer, has_files) SELECT %s, dag.org_id, job_key.id, 1, 'bronze', true FROM job_key JOIN dag ON dag.id = dag_id", [dataset]),
        ("INSERT INTO dataset_revision (dataset_id, revision, domain, owner, description, active, actor) VALUES (%s, 1, 'd', 'o', 's', true, 'test')", [dataset]),
        ("INSERT INTO dataset_version (id, dataset_id, generation_id) SELECT %s, %s, id FROM generation", [table, dataset]),
        ("INSERT INTO pointer (dag_version_id, dataset_id, dataset_version_id) SELECT id, %s, %s FROM dag_version", [dataset, table]),
        ("INSERT INTO dataset_name (org_id, name, dataset_id) SELECT org_id, 'second_raw', %s FROM dag", [dataset]),
        ("UPDATE job SET spec = jsonb_set(spec, '{outputs,1}', spec->'outputs'->0)", []),
    ]
    with psycopg.connect(lake.database.superuser_url) as connection:
        connection.execute("ALTER TABLE job DISABLE TRIGGER USER")
        for statement, values in statements:
            connection.execute(statement, values)


def stamp(lake: QueryLake, version: int) -> None:
    """The next version of both, by one task."""
    lake.run("load", "first")
    task = lake.take_one()
    rows = [(id, str(version)) for id in range(ROWS)]
    second = task.model_copy(update={"payload": task.payload.model_copy(update={"outputs": task.payload.outputs[::-1]})})
    outputs = [lake.measured([lake.stage(each, rows)]).model_copy(update={"index": index}) for index, each in enumerate((task, second))]
    assert lake.report(task, *outputs, state={"version": version}).result == "committing"
    lake.move()


def check(result: QueryResult) -> int:
    """The version that was read: that of the receipt, in every row, of both."""
    [(first, second)] = result.rows
    pins = {pin.name: pin.version for pin in result.receipt.pins}
    assert (int(first), int(second)) == (pins["first_raw"], pins["second_raw"])
    assert pins["first_raw"] == pins["second_raw"], f"of two moments: {pins}"
    return pins["first_raw"]


@pytest.mark.proves("T6.2")
def test_a_join_of_two_outputs_is_of_one_moment_while_both_are_committed(lake: QueryLake):
    publish_both(lake)
    stamp(lake, 1)
    over = threading.Event()

    def ask(number: int) -> list[int]:
        seen: list[int] = []
        with lake.client() as client:
            while len(seen) < number or (len(set(seen)) <= 10 and not committing.done()):  # as long as it takes to see some versions
                seen.append(check(client.query(JOINED)))
        return seen

    def commit() -> int:
        version = 1
        while not over.wait(0.25):  # a breath: it is the queries that are tried here
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
            seen = [version for asked in [pool.submit(ask, size(400, 25_000) // ASKING) for _ in range(ASKING)] for version in asked.result()]
        finally:
            over.set()
        committed = committing.result()
    assert len(set(seen)) > 10, "nothing was committed while it was asked"
    assert max(seen) <= committed


@pytest.mark.proves("T6.2")
def test_resolving_one_by_one_would_be_seen(lake: QueryLake, monkeypatch: pytest.MonkeyPatch):
    publish_both(lake)
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
        assert check(client.query(JOINED)) == 1
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
            after = client.queries.replay(before.receipt.id)
            assert after.replay is not None and after.replay.same, sql
            assert after.receipt.result_hash == before.receipt.result_hash, sql
            assert after.receipt.pins == before.receipt.pins, sql
            assert sorted(after.rows) == sorted(before.rows), sql
            assert client.queries.get(after.receipt.id).replay_of == before.receipt.id
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
            before = len(client.queries.list(limit=500).items)
            with pytest.raises(NotReplayable, match=r".+"):
                client.queries.replay(receipt.id)
            assert len(client.queries.list(limit=500).items) == before, "it was refused before it was asked again"


def test_a_client_of_a_dead_query_process_gets_a_retryable_error(lake: QueryLake):
    lake.queries.should_exit = True
    wait_until(lambda: bool(lake.queries.servers) and not lake.queries.servers[0].is_serving(), "it has ended")
    with lake.client() as client, pytest.raises(Unavailable, match="query process does not answer"):
        client.query("SELECT 1")
