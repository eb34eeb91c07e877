"""The operator `sql`, called as a plain PySpark test would call it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from support.orders import order_of

from tracelake_sdk.tasks.operator_files import OperatorOutcome
from tracelake_spark.failures import operator_error
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


def run_sql(spark: SparkSession, folder: Path, inputs: list[dict[str, Any]], query: str, **more: Any) -> OperatorOutcome:
    return run(spark, order_of(folder, "sql", {"query": query}, inputs=inputs, **more))


def test_a_query_over_the_inputs_by_number_and_by_name_becomes_output_0(
    spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]], staged_rows: Callable[[list[str]], list[Row]]
) -> None:
    outcome = run_sql(spark, tmp_path, orders, "WITH both AS (SELECT kind FROM orders UNION ALL SELECT kind FROM input_1) SELECT kind, count(*) AS n FROM both GROUP BY kind")
    assert outcome.error is None
    assert [row.asDict() for row in staged_rows(outcome.outputs[0].files)] == [{"kind": 0, "n": 8}, {"kind": 1, "n": 6}, {"kind": 2, "n": 6}]
    assert OPERATORS["sql"] is run


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT 1 AS one,\n  nope FROM orders",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION, line 2, column 3: A column, variable, or function parameter with name `nope` cannot be resolved."
            " Did you mean one of the following? [`",
        ),
        ("SELECT *\nFROM ordrs", "TABLE_OR_VIEW_NOT_FOUND, line 2, column 6: The table or view `ordrs` cannot be found."),
        ("SELECT *\nFROM ordrs", "A query reads `input_0`, `input_1`, `orders`. Did you mean `orders`?"),
        ("SELECT id,\n kind FRM orders WHERE", "PARSE_SYNTAX_ERROR, line 2, column 11: Syntax error at or near 'orders'"),
        ("SELECT 1; SELECT 2", "PARSE_SYNTAX_ERROR, line 1, column 11: Syntax error at or near 'SELECT': extra input 'SELECT'"),
        ("SELECT", "PARSE_SYNTAX_ERROR, line 1, column 7: Syntax error at or near end of input"),
        ("SELECT upperr('x')", "UNRESOLVED_ROUTINE, line 1, column 8: Cannot resolve routine `upperr`"),
        ("SELECT id + 's3://lake/orders' || array(1) FROM orders", "DATATYPE_MISMATCH"),
        ("SELECT kind, id FROM orders GROUP BY kind", "MISSING_AGGREGATION"),
    ],
)
def test_a_statement_that_spark_cannot_read_says_why_where_and_what_is_near(
    spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]], query: str, said: str
) -> None:
    outcome = run_sql(spark, tmp_path, orders, query)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retry) == ("sql_invalid", False)
    assert said in outcome.error.message
    assert "://" not in outcome.error.message
    assert str(tmp_path) not in outcome.error.message
    assert outcome.outputs == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT id,\n  cast(concat('row-', id) AS INT) AS n FROM orders", "CAST_INVALID_INPUT, line 2, column 3, in `cast(concat('row-', id) AS INT)`: The value …"),
        ("SELECT 1 / (id - 5) AS n FROM orders", "DIVIDE_BY_ZERO, line 1, column 8, in `1 / (id - 5)`: Division by zero."),
        ("SELECT id, id FROM orders", "COLUMN_ALREADY_EXISTS: The column `id` already exists."),
        ("SELECT raise_error(concat('row-', id)) AS n FROM orders", "USER_RAISED_EXCEPTION"),
        ("SELECT (SELECT id FROM orders) AS n", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
        ("SELECT array(1)[cast(id + 7 AS INT)] AS n FROM orders", "INVALID_ARRAY_INDEX, line 1, column 8"),
    ],
)
def test_a_statement_that_fails_on_a_row_names_the_expression_and_no_value(
    spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]], query: str, said: str
) -> None:
    outcome = run_sql(spark, tmp_path, orders, query)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retry) == ("sql_failed", False)
    assert said in outcome.error.message
    assert not re.search(r"row-\d", outcome.error.message)
    assert str(tmp_path) not in outcome.error.message


def test_an_input_whose_file_is_gone_is_not_the_statements_fault(spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]]) -> None:
    orders[0]["files"] = [f"file://{tmp_path}/input-0/gone.parquet"]
    with pytest.raises(AnalysisException) as caught:
        run_sql(spark, tmp_path, orders, "SELECT * FROM orders")
    error = operator_error(spark, caught.value)
    assert (error.error_class, error.retry) == ("PATH_NOT_FOUND", True)
    assert str(tmp_path) not in error.message


def test_a_statement_that_overwrites_a_folder_is_refused_and_the_folder_stays(spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]]) -> None:
    kept = tmp_path / "precious" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("kept")
    outcome = run_sql(spark, tmp_path, orders, f"INSERT OVERWRITE DIRECTORY '{kept.parent}' USING csv SELECT * FROM orders")
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retry) == ("sql_refused", False)
    assert kept.read_text() == "kept"


def test_a_config_without_a_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    outcome = run(spark, order_of(tmp_path, "sql", {"qeury": "SELECT 1"}))
    assert outcome.error is not None
    assert outcome.error.error_class == "config_invalid"


def test_rows_go_to_the_scopes_of_the_output(spark: SparkSession, tmp_path: Path, orders: list[dict[str, Any]]) -> None:
    output = {"partition_by": {"column": "kind", "cursor": "integer", "range_size": 2}}
    outcome = run_sql(spark, tmp_path, orders, "SELECT * FROM input_0", output=output)
    assert sorted(map(str, outcome.outputs[0].scopes)) == ["range:0_2", "range:2_4"]
