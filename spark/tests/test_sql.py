"""The operator `sql`, called as a plain PySpark test would call it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from support.orders import order_of

from tracelake_sdk.operating import OperatorOutcome
from tracelake_spark.operators.registry import OPERATORS
from tracelake_spark.operators.sql import run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

LONG = {"type": "long", "nullable": True, "metadata": {}}


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> list[dict[str, Any]]:
    """Two inputs: `input_0`, also called `orders`, and `input_1` without a name."""
    inputs: list[dict[str, Any]] = []
    for index, name in enumerate(["orders", None]):
        folder = tmp_path / f"input-{index}"
        spark.range(10).selectExpr(f"id + {index} AS id", "id % 3 AS kind").coalesce(1).write.parquet(f"file://{folder}")
        schema = {"type": "struct", "fields": [{"name": "id"} | LONG, {"name": "kind"} | LONG]}
        files = [f"file://{path}" for path in folder.glob("part-*.parquet")]
        inputs.append({"index": index, "name": name, "version": 1, "table_schema": schema, "files": files, "scopes": None, "partition_by": None})
    return inputs


def told(spark: SparkSession, folder: Path, inputs: list[dict[str, Any]], query: str, **more: Any) -> OperatorOutcome:
    return run(spark, order_of(folder, "sql", {"query": query}, inputs=inputs, **more))


def test_a_query_over_the_inputs_by_number_and_by_name_becomes_output_0(
    spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]], staged_rows: Callable[[list[str]], list[Row]]
) -> None:
    outcome = told(spark, tmp_path, orders, "WITH both AS (SELECT kind FROM orders UNION ALL SELECT kind FROM input_1) SELECT kind, count(*) AS n FROM both GROUP BY kind")
    assert outcome.error is None
    assert [row.asDict() for row in staged_rows(outcome.outputs[0].files)] == [{"kind": 0, "n": 8}, {"kind": 1, "n": 6}, {"kind": 2, "n": 6}]
    assert OPERATORS["sql"] is run


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT nope, 'a secret' FROM input_0", "UNRESOLVED_COLUMN.WITH_SUGGESTION: A column, variable, or function parameter with name `nope` cannot be resolved."),
        ("SELECT 'a secret' FROM nowhere", "`nowhere` cannot be found"),
        ("SELECT 'a secret' FRM input_0 WHERE", "PARSE_SYNTAX_ERROR"),
        ("SELECT cast(concat('a secret', id) AS INT) AS n FROM input_0", "CAST_INVALID_INPUT"),
        ("SELECT 1 / (id - 5) AS n, 'a secret' AS s FROM input_0", "DIVIDE_BY_ZERO"),
        ("SELECT id, id FROM input_0 WHERE 'a secret' <> ''", "COLUMN_ALREADY_EXISTS: The column `id` already exists."),
        ("SELECT raise_error('a secret') AS n FROM input_0", "USER_RAISED_EXCEPTION"),
        ("SELECT no_such_function('a secret')", "UNRESOLVED_ROUTINE"),
    ],
)
def test_a_query_that_fails_says_why_without_its_text_and_without_data(spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]], query: str, said: str) -> None:
    outcome = told(spark, tmp_path, orders, query)
    assert outcome.error is not None
    assert outcome.error.error_class == "sql_failed"
    assert said in outcome.error.message
    assert not [word for word in ("secret", "SELECT", "FRM", "concat") if word in outcome.error.message]
    assert outcome.outputs == []


@pytest.mark.parametrize(
    "query",
    [
        "DROP VIEW input_0", "CREATE TABLE t AS SELECT 1", "INSERT INTO input_0 SELECT 1, 2", "SET spark.sql.ansi.enabled=false", "CACHE TABLE input_0",
        "WITH a AS (SELECT 1) INSERT INTO input_0 SELECT * FROM a", "EXECUTE IMMEDIATE 'SELECT 1'", "BEGIN SELECT 1; END", "ADD JAR '/x.jar'", "DELETE FROM input_0",
        "SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM input_0", "SELECT (SELECT max(x) FROM (SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM input_0)) AS y",
    ],
)
def test_what_is_not_a_select_is_refused_and_not_done(spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]], query: str) -> None:
    outcome = told(spark, tmp_path, orders, query)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retry) == ("sql_not_a_select", False)
    assert spark.table("input_0").count() == 10


@pytest.mark.parametrize(
    "query",
    ["SELECT 1; SELECT 2", "SELECT * FROM parquet.`/etc`", "SELECT * FROM csv.`/etc/passwd`", "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
     "SELECT java_method('java.lang.System', 'getProperty', 'user.home')", "SELECT * FROM text.`file:///etc/passwd`",
     "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getProperty', 'user.home')", "SELECT system.builtin.reflect('java.lang.System', 'getProperty', 'user.home')"],
)
def test_a_query_reaches_nothing_but_its_inputs(spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]], query: str) -> None:
    outcome = told(spark, tmp_path, orders, query)
    assert outcome.error is not None
    assert outcome.error.error_class == "sql_failed"


def test_a_config_without_a_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    outcome = run(spark, order_of(tmp_path, "sql", {"qeury": "SELECT 1"}))
    assert outcome.error is not None
    assert outcome.error.error_class == "config_invalid"


def test_rows_go_to_the_scopes_of_the_output(spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]]) -> None:
    output = {"partition_by": {"column": "kind", "cursor": "integer", "range_size": 2}}
    outcome = told(spark, tmp_path, orders, "SELECT * FROM input_0", output=output)
    assert sorted(map(str, outcome.outputs[0].scopes)) == ["range:0_2", "range:2_4"]
