"""The gate of the operator `sql`: hostile statements are refused before anything is done, honest ones run."""

import getpass
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.sizes import full

from tracelake_spark.failures import OperatorFailed
from tracelake_spark.jvm import session_state
from tracelake_spark.operators.sql_gate import FUNCTION_GROUPS, FUNCTIONS, TABLE_FUNCTIONS, select

from .honest_sql import HONEST
from .hostile_sql import HARMLESS, SQL

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

INPUTS = ("input_0", "orders", "input_1")
BAIT = "bait-5d1c"
# Judged and refused. A Spark that brings a function which no list names makes a test fail, and somebody judge it.
REFUSED_GROUPS = {"avro_funcs", "protobuf_funcs", "misc_funcs", "xml_funcs"}
REFUSED_FUNCTIONS = {
    "current_catalog", "current_database", "current_path", "current_schema", "current_user", "from_xml", "input_file_block_length", "input_file_block_start",
    "input_file_name", "java_method", "reflect", "schema_of_xml", "session_user", "to_xml", "try_reflect", "user", "version", "xpath",
    "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number", "xpath_short", "xpath_string",
}
REFUSED_TABLE_FUNCTIONS = {"collations", "python_worker_logs", "sql_keywords"}


class Bait:
    """Files that no statement may change or read."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.root = folder
        self.folder = folder / "folder"
        self.folder.mkdir()
        (self.folder / "kept.txt").write_text(BAIT)
        self.secret = folder / "secret.txt"
        self.secret.write_text(BAIT)
        spark.sql(f"SELECT '{BAIT}' AS value").coalesce(1).write.parquet(f"file://{folder}/parquet")
        self.parquet = next((folder / "parquet").glob("part-*"))

    def baited(self, sql: str) -> str:
        return sql.replace("{folder}", str(self.folder)).replace("{secret}", str(self.secret)).replace("{parquet}", str(self.parquet)).replace("\\n", "\n")

    def state(self) -> dict[str, str]:
        here = [*self.root.rglob("*"), *Path.cwd().glob("spark-warehouse/**/*"), *Path.cwd().glob("metastore_db")]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in here}


@pytest.fixture(scope="module")
def given(whole_run_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkSession, Bait]]:
    """One session with two inputs over files, a view that is not an input, and bait."""
    spark, folder = whole_run_spark.newSession(), tmp_path_factory.mktemp("sql_gate")
    bait = Bait(folder, spark)
    for index in (0, 1):
        spark.range(10).selectExpr(f"id + {index} AS id", "id % 3 AS kind").coalesce(1).write.parquet(f"file://{folder}/input-{index}")
        rows = spark.read.schema("id BIGINT, kind BIGINT").parquet(f"file://{folder}/input-{index}")
        for name in INPUTS[:2] if index == 0 else INPUTS[2:]:
            rows.createOrReplaceTempView(name)
    spark.createDataFrame([(BAIT,)], "value STRING").createOrReplaceTempView("others")
    spark.createDataFrame([(BAIT,)], "value STRING").createOrReplaceGlobalTempView("others")
    yield spark, bait
    spark.catalog.dropGlobalTempView("others")


def refusal(spark: SparkSession, sql: str) -> OperatorFailed | None:
    try:
        select(spark, sql, INPUTS)
    except OperatorFailed as failed:
        return failed
    return None


def test_the_corpus_is_large_enough() -> None:
    assert len({sql for sql, _ in SQL}) >= 120
    assert len(set(HONEST)) >= 40


def test_hostile_statements_are_refused_with_a_stable_code_and_change_nothing(given: tuple[SparkSession, Bait]) -> None:
    spark, bait = given
    before, wrong = bait.state(), list[tuple[str, Any]]()
    for sql, codes in SQL:
        failed = refusal(spark, bait.baited(sql))
        if failed is None or failed.error.error_class not in codes or failed.error.retry or BAIT in failed.error.message:
            wrong.append((sql, failed and failed.error))
        elif failed.error.error_class == "sql_refused" and not re.match(r"Line \d+, column \d+: .* Only one SELECT over `input_0`, `input_1`, `orders` is allowed", failed.error.message):
            wrong.append((sql, failed.error.message))
    assert wrong == []
    assert bait.state() == before
    assert spark.table("input_0").count() == 10
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_allowed_statements_show_nothing_of_the_machine(given: tuple[SparkSession, Bait]) -> None:
    spark, bait = given
    for sql in HARMLESS:
        try:
            shown = str(select(spark, bait.baited(sql), INPUTS).collect())
        except Exception as error:  # whatever it raises, it is what the statement got to see
            shown = str(error)
        assert not [word for word in (BAIT, str(Path.home()), str(bait.root), getpass.getuser()) if word in shown.replace(bait.baited(sql), "")], sql


def test_honest_statements_run(given: tuple[SparkSession, Bait]) -> None:
    spark, _ = given
    wrong: list[tuple[str, str]] = []
    for sql in HONEST:
        try:
            rows = select(spark, sql, INPUTS)
            if full():  # planning is what the gate decides; running each takes a minute
                rows.collect()
        except Exception as error:  # all of them are shown, not the first
            wrong.append((sql, str(error)[:500]))
    assert wrong == []


@pytest.mark.parametrize(
    "deep",
    [
        pytest.param("SELECT " + "(" * 1000 + "1" + ")" * 1000, id="parentheses"),
        pytest.param("SELECT " + "1 + " * 10_000 + "1", id="additions"),
        pytest.param("SELECT * FROM " + "(SELECT * FROM " * 500 + "orders" + ")" * 500, id="subqueries"),
    ],
)
def test_a_statement_that_is_too_deep_is_invalid(given: tuple[SparkSession, Bait], deep: str) -> None:
    failed = refusal(given[0], deep)
    assert failed is None or (failed.error.error_class, failed.error.retry) == ("sql_invalid", False)


def test_every_function_of_this_spark_was_judged(spark: SparkSession) -> None:
    state = session_state(spark)
    groups: dict[str, set[str]] = {}
    found = state.functionRegistry().listFunction().iterator()
    while found.hasNext():
        function = found.next()
        groups.setdefault(state.functionRegistry().lookupFunction(function).get().getGroup(), set()).add(function.funcName())
    assert set(groups) == FUNCTION_GROUPS | REFUSED_GROUPS
    assert groups["misc_funcs"] | groups["xml_funcs"] == FUNCTIONS | REFUSED_FUNCTIONS
    tables: set[str] = set()
    found = state.tableFunctionRegistry().listFunction().iterator()
    while found.hasNext():
        tables.add(found.next().funcName())
    assert tables == TABLE_FUNCTIONS | REFUSED_TABLE_FUNCTIONS


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("INSERT OVERWRITE DIRECTORY 's3a://lake/x' USING csv SELECT 1", "Line 1, column 1: `InsertIntoDir` is not allowed."),
        ("SELECT id,\n  reflect('a', 'b') AS x\nFROM orders", "Line 2, column 3: the function `reflect` is not allowed."),
        ("SELECT *\nFROM orders\nJOIN csv.`x` ON true", "Line 3, column 6: `csv.x` is not an input."),
        ("SELECT *\nFROM read_files('x')", "Line 2, column 6: the table function `read_files` is not allowed."),
        ("SELECT 1 AS a,\n current_user AS b", "Line 2, column 2: `CurrentUser` is not allowed."),
    ],
)
def test_a_refusal_names_the_place_and_what_is_allowed(given: tuple[SparkSession, Bait], sql: str, said: str) -> None:
    failed = refusal(given[0], sql)
    assert failed is not None
    assert failed.error.message == f"{said} Only one SELECT over `input_0`, `input_1`, `orders` is allowed, using Spark's built-in functions."
