"""Rules mean the same in Spark, in DuckDB and in plain Python: over nulls, NaN, infinities, decimals, far dates, and any text."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from support import rule_oracle as oracle
from support.sizes import size

from tracelake.storage.delta_schemas import delta_schema
from tracelake.worker.measuring.contract import Limits
from tracelake.worker.measuring.engine import CountingEngine
from tracelake.worker.measuring.footers import read_footer
from tracelake.worker.measuring.rule_measuring import Counter, Rows
from tracelake_sdk.rules import NotNull, Range, Regex, RowCount, RuleTree, Unique
from tracelake_sdk.rules.trees import columns_of
from tracelake_spark.measure.scanning import violations

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
LIMITS = Limits(threads=1, memory="500MB")
trees = st.one_of(st.sampled_from(sorted(oracle.TYPES)).map(lambda column: NotNull(column=column)), oracle.ranges(), oracle.enums())
# Few and large examples: a scan of Spark's costs the same for one row as for thousands.
FEW = settings(max_examples=size(4, 150), suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target])


@pytest.fixture(scope="module")
def engines(whole_run_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("meaning")
    with CountingEngine(LIMITS, [folder], folder) as engine:
        yield whole_run_spark, Counter(engine), folder


def compare(engines: Any, table: pa.Table, rules: list[RuleTree], wanted: list[int]) -> None:
    spark, counter, folder = engines
    file: Path = folder / "rows.parquet"
    shutil.rmtree(file, ignore_errors=True)
    pq.write_table(table, file)
    columns = columns_of(delta_schema(read_footer(file).schema))
    asked = oracle.numbered(rules)
    by_duckdb = counter.measure(Rows((file,), ((table.num_rows, {}),), columns, frozenset(columns)), asked)
    by_spark = violations(spark.read.parquet(f"file://{file}"), asked)
    named = [(repr(rule), measurement.violations) for rule, measurement in zip(rules, by_spark, strict=True)]
    assert named == [(repr(rule), count) for rule, count in zip(rules, wanted, strict=True)]
    assert [measurement.violations for measurement in by_duckdb] == wanted
    assert {measurement.examined for measurement in by_spark} <= {table.num_rows}


@pytest.mark.proves("G2.3")
@given(table=oracle.tables(most=40), rules=st.lists(trees, min_size=20, max_size=40), keys=st.lists(oracle.uniques, max_size=2))
@FEW
def test_spark_and_duckdb_count_what_a_rule_means(engines: Any, table: dict[str, list[Any]], rules: list[RuleTree], keys: list[Unique]):
    every = [*rules, *keys]
    compare(engines, oracle.to_arrow(table), every, [oracle.violations(tree, table) for tree in every])


@pytest.mark.proves("G2.3")
@given(texts=st.lists(st.text(oracle.SIGNS, max_size=6) | st.none(), min_size=20, max_size=60), patterns=st.lists(oracle.patterns, min_size=20, max_size=40))
@FEW
def test_spark_and_duckdb_read_patterns_alike(engines: Any, texts: list[str | None], patterns: list[oracle.Pattern]):
    table = {"text": texts}
    rules: list[RuleTree] = [Regex(column="text", pattern=pattern.written, null_passes=bool(number % 2)) for number, pattern in enumerate(patterns)]
    compare(engines, pa.table({"text": pa.array(texts, pa.string())}), rules, [oracle.violations(tree, table, pattern.python) for tree, pattern in zip(rules, patterns, strict=True)])


@pytest.mark.proves("G2.3")
def test_what_engines_are_known_to_read_differently(engines: Any):
    """Ends of lines, digits and letters of other scripts, letters that fold, and NaN."""
    texts = ["a\n", "a\r", "a\u0085", "a\u2028", "\u0665", "é", "K", "\u212a", "a\x0b", "\n", "", None, "x]y", "a^b", "\U0001f600"]
    wanted = {"a.": 4, "a$": 0, r"\d": 0, r"\w": 1, "k": 0, r"a\s": 2, "[^a]": 6, r"x\]y": 1, "a[|^]b": 1, r"\x{1F600}": 1, ".": 5, "(?:a|)*": 1, "": 1}
    rules: list[RuleTree] = [Regex(column="text", pattern=pattern) for pattern in wanted]
    compare(engines, pa.table({"text": pa.array(texts, pa.string())}), rules, [14 - count for count in wanted.values()])
    numbers = pa.table({"ratio": pa.array([float("nan"), float("inf"), 0.0, -0.0, None], pa.float64())})
    compare(engines, numbers, [Range(column="ratio"), Range(column="ratio", low=0), Range(column="ratio", high=0, null_passes=False), Unique(columns=("ratio",))], [1, 1, 3, 1])


def test_what_cannot_be_measured_says_why_and_harms_no_other(engines: Any):
    spark, _, _ = engines
    rows = spark.range(3).withColumnRenamed("id", "a.b`c")
    found = violations(rows, oracle.numbered([NotNull(column="gone"), Range(column="a.b`c", low=1), RowCount(least=1), Unique(columns=("a.b`c",))]))
    assert [(measurement.rule_id.int, measurement.violations, measurement.error) for measurement in found] == [(0, None, "The column gone does not exist."), (1, 1, None), (3, 0, None)]
    assert found[1].examined == 3
