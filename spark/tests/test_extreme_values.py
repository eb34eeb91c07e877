"""Extreme values that Spark wrote pass the whole line as those do that others wrote."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.extreme_values import CASES, DEFINITION, ExtremeLake, extreme_lake
from support.sizes import full

from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake_sdk.tasks.operator_files import OrderOutput, OutputStaged
from tracelake_spark.staging import stage

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.proves("G3.3", "T2.4")]
KEYS = ("account", "text", "at")
LONGEST = max(len(case.values) for case in CASES)


@pytest.fixture(scope="module")
def extremes(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtremeLake]:
    with extreme_lake(postgres, tmp_path_factory.mktemp("extremes")) as lake:
        yield lake


def by_spark(spark: SparkSession, table: pa.Table) -> Callable[[Path], OutputStaged]:
    def write(folder: Path) -> OutputStaged:
        output = OrderOutput(index=0, staging=folder.as_uri(), everything=True, scopes=[], partition_by=None, table_schema=None)
        return stage(spark.createDataFrame(table), output)

    return write


def every_type() -> pa.Table:
    """One column for each type, with nulls where it has fewer extremes than others."""
    columns = {case.name: pa.array([*case.values, *[None] * (LONGEST - len(case.values))], case.type) for case in CASES}
    return pa.table({"k": pa.array(range(LONGEST), pa.int64()), **columns})


@pytest.mark.parametrize("key", [None, *(KEYS if full() else KEYS[:1])], ids=lambda key: key or "every_type")
def test_extreme_values_that_spark_wrote_pass_the_whole_line_unchanged(spark: SparkSession, extremes: ExtremeLake, key: str | None):
    name = key or "every_type"
    written = every_type() if key is None else next(case for case in CASES if case.name == key).table()
    extremes.lake.deploy(DEFINITION, name=name)
    assert extremes.load(name, by_spark(spark, written)).result == "committing"
    assert extremes.load(name, by_spark(spark, written)).result == "unchanged"  # every key already exists
    extremes.assert_holds(f"{name}_raw", written)
