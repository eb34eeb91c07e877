"""What a statement reads, whether it may run, and whether it must answer the same again: read off the engine's own tree."""

import re
from pathlib import Path

import duckdb
import pytest

from tracelake.query.engine import functions
from tracelake.query.engine.contract import EngineLimits
from tracelake.query.engine.engine import Engine
from tracelake.query.engine.gate import judge
from tracelake.query.engine.replayability import Replayability, judge_replay
from tracelake_sdk.errors import QueryRefused

from .hostile import FILES, INSIDE, MADE_OF_TEXTS

LIMITS = EngineLimits(threads=1, memory_mib=128, spill_mib=16, max_seconds=5, max_bytes=2**20)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):
    engine = Engine(LIMITS, tmp_path_factory.mktemp("engine"))
    yield engine
    engine.close()


def names(engine: Engine, sql: str) -> list[str]:
    return [name.called for name in engine.read(sql).names]


def replay(engine: Engine, sql: str) -> Replayability:
    return judge_replay(judge(engine._parse(sql)).tree, {"orders": ["id"], "lines": ["id", "line"]})


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM orders", ["orders"]),
        ("SELECT * FROM Orders o, ORDERS p", ["orders"]),
        ("SELECT * FROM orders JOIN customers USING (id)", ["orders", "customers"]),
        ('SELECT * FROM "orders@3", orders', ["orders@3", "orders"]),
        ("SELECT * FROM orders AT (VERSION => 3)", ["orders@3"]),
        ("SELECT * FROM orders at (version => 3) AS o", ["orders@3"]),
        ("SELECT * FROM orders o AT (VERSION => 3)", ["orders@3"]),
        ("SELECT * FROM orders AT (VERSION => 3) old JOIN orders AT (VERSION => 4) new USING (id)", ["orders@3", "orders@4"]),
        ("SELECT 'ä', \"ö\" FROM orders /* AT (VERSION => 9) */ AT (VERSION => 3) -- AT (VERSION => 8)", ["orders@3"]),
        ("WITH x AS (SELECT * FROM orders) SELECT * FROM x", ["orders"]),
        ("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders", ["orders"]),
        ("WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x WHERE n < 3) SELECT * FROM x", []),
        ("WITH x AS (SELECT 1) SELECT * FROM (SELECT * FROM x), (WITH y AS (FROM z) SELECT * FROM y)", ["z"]),
        ("SELECT (SELECT max(id) FROM a), EXISTS (FROM b) FROM c WHERE id IN (SELECT id FROM d) ORDER BY (SELECT 1 FROM e)", ["a", "b", "c", "d", "e"]),
        ("SELECT 'FROM secret' AS text -- FROM secret", []),
    ],
)
def test_the_datasets_of_a_statement(engine: Engine, sql: str, read: list[str]):
    assert sorted(names(engine, sql)) == sorted(read)


def test_the_bare_at_sign_is_refused_with_the_way_to_ask(engine: Engine):
    for sql in ("SELECT * FROM orders@3", "SELECT * FROM orders @ 3", "SELECT * FROM a JOIN orders@3 ON true", "SELECT id@3 FROM orders"):
        with pytest.raises(QueryRefused, match=r'FROM "orders@3" or FROM orders AT \(VERSION => 3\)'):
            engine.read(sql)


def test_an_alias_of_a_version_is_what_its_columns_are_called_by(engine: Engine):
    engine.read("SELECT o.id FROM orders AT (VERSION => 3) o")
    assert engine._statement is not None
    assert engine._statement[0] == 'SELECT o.id FROM "orders@3" AS "o"'
    engine.read("SELECT orders.id FROM orders AT (VERSION => 3)")
    assert engine._statement[0] == 'SELECT orders.id FROM "orders@3" AS "orders"'


def test_every_function_on_the_list_is_one_of_the_engine_and_none_reads_or_acts():
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT lower(function_name), list(DISTINCT function_type), list(DISTINCT stability) FROM duckdb_functions() GROUP BY 1").fetchall()
    known = {name: (set(kinds), set(stabilities)) for name, kinds, stabilities in rows}
    spelt_by_the_parser = {"->", "coalesce", "grouping", "grouping_id", "ifnull"}
    assert functions.FUNCTIONS - set(known) == spelt_by_the_parser
    assert {name for name in functions.TABLE_FUNCTIONS if "table" not in known[name][0]} == set()
    # What the engine itself calls changing is on the list of what cannot be replayed.
    changing = {name for name in functions.FUNCTIONS & set(known) if known[name][1] - {"CONSISTENT", None}}
    assert changing <= functions.VOLATILE
    words = ("read_", "scan", "pragma", "duckdb", "secret", "glob", "setting", "variable", "serialize", "query", "sleep", "attach", "copy", "log_", "pg_")
    assert [name for name in functions.FUNCTIONS | functions.TABLE_FUNCTIONS if any(word in name for word in words)] == []


@pytest.mark.proves("T6.2")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM orders",
        "SELECT * FROM orders ORDER BY ALL LIMIT 3",
        "SELECT id, a FROM orders ORDER BY a, id LIMIT 3",
        "SELECT * FROM orders ORDER BY id LIMIT 3",
        "SELECT o.a FROM orders o ORDER BY o.id DESC LIMIT 3 OFFSET 2",
        "SELECT a FROM lines ORDER BY id, line LIMIT 3",
        "SELECT a, count(*) FROM orders GROUP BY a ORDER BY a LIMIT 3",
        "SELECT a AS b, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 3",
        "SELECT a AS b, count(*) AS n FROM orders GROUP BY a ORDER BY n DESC, b LIMIT 3",
        "SELECT count(*) FROM orders LIMIT 1",
        "SELECT string_agg(a, ',' ORDER BY a), list(a ORDER BY id) FROM orders",
        "SELECT rank() OVER (ORDER BY a), sum(a) OVER (PARTITION BY b) FROM orders",
        "SELECT age(a, b) FROM orders",
    ],
)
def test_a_statement_that_must_answer_the_same_again(engine: Engine, sql: str):
    assert replay(engine, sql).why_not is None


@pytest.mark.proves("T6.2")
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT now() FROM orders", r"now\(\)"),
        ("SELECT * FROM orders WHERE day = current_date", "current_date"),
        ("SELECT * FROM orders WHERE id IN (SELECT id FROM b WHERE random() > 0.5)", r"random\(\)"),
        ("SELECT gen_random_uuid()", "gen_random_uuid"),
        ("SELECT age(a) FROM orders", "age"),
        ("SELECT * FROM orders LIMIT 3", "LIMIT"),
        ("SELECT * FROM orders ORDER BY a LIMIT 3", "LIMIT"),
        ("SELECT * FROM orders OFFSET 3", "LIMIT"),
        ("SELECT a FROM lines ORDER BY id LIMIT 3", "LIMIT"),
        ("SELECT unnest(tags) FROM orders ORDER BY id LIMIT 3", "LIMIT"),
        ("SELECT o.id, p.id FROM orders o, orders p ORDER BY o.id LIMIT 3", "LIMIT"),
        ("SELECT a, sum(b) FROM orders GROUP BY a, b ORDER BY a LIMIT 3", "LIMIT"),
        ("SELECT id FROM orders UNION ALL SELECT id FROM b ORDER BY id LIMIT 3", "LIMIT"),
        ("WITH x AS (SELECT * FROM orders LIMIT 3) SELECT count(*) FROM x", "LIMIT"),
        ("SELECT first(a) FROM orders", r"first\(\)"),
        ("SELECT list(a) FROM orders", r"list\(\)"),
        ("SELECT arg_max(a, b) FROM orders", "arg_max"),
        ("SELECT row_number() OVER () FROM orders", "row_number"),
        ("SELECT sum(a) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders", "sum"),
        ("SELECT DISTINCT ON (a) a, b FROM orders", "DISTINCT ON"),
        ("SELECT * FROM orders TABLESAMPLE 10%", "sample"),
        ("SELECT * FROM orders USING SAMPLE 3 ROWS", "sample"),
        ("SELECT * FROM orders POSITIONAL JOIN b", "positional"),
    ],
)
def test_a_statement_that_need_not(engine: Engine, sql: str, reason: str):
    why_not = replay(engine, sql).why_not
    assert why_not is not None and re.search(reason, why_not), why_not


@pytest.mark.parametrize(
    ("sql", "computed"),
    [
        ("SELECT a, b FROM orders", frozenset()),
        ("SELECT * FROM orders", frozenset()),
        ("SELECT a, b * 2, sum(c) FROM orders GROUP BY ALL", frozenset({1, 2})),
        ("SELECT s FROM (SELECT sum(a) AS s FROM orders)", frozenset({0})),
        ("WITH x AS (SELECT avg(a) AS s FROM orders) SELECT s, 1 FROM x", frozenset({0, 1})),
        ("SELECT *, a * 2 FROM orders", None),
        ("SELECT sum(a) FROM orders UNION ALL SELECT b FROM orders", None),
    ],
)
def test_which_columns_of_a_result_are_computed(engine: Engine, sql: str, computed: frozenset[int] | None):
    assert replay(engine, sql).computed == computed


@pytest.mark.proves("T6.4")
@pytest.mark.parametrize("sql", [*FILES, *INSIDE, *MADE_OF_TEXTS])
def test_what_reads_acts_or_looks_inside_does_not_pass_the_gate(engine: Engine, sql: str):
    """Before anything is pinned or opened, whatever the engine's own lock would say."""
    with pytest.raises(QueryRefused):
        engine.read(sql)


def test_a_statement_that_is_nested_too_deeply_is_refused(engine: Engine, tmp_path: Path):
    for sql in ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT " + "NOT " * 3000 + "true"):
        with pytest.raises(QueryRefused, match="nested too deeply"):
            engine.read(sql)
    assert names(engine, "SELECT * FROM orders") == ["orders"]
