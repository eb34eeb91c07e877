"""Failures that no operator names itself: Spark's own words, without a value of any row, and another attempt only where it may help."""

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tracelake_spark.failures import operator_error
from tracelake_spark.jvm import java_class

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize(
    ("work", "error_class", "retry"),
    [
        (lambda spark, _: spark.range(3).select("nope"), "UNRESOLVED_COLUMN.WITH_SUGGESTION", False),
        (lambda spark, _: spark.range(3).selectExpr("concat('row-', id)::INT").collect(), "CAST_INVALID_INPUT", False),
        (lambda spark, _: spark.range(3).selectExpr("1 / id").collect(), "DIVIDE_BY_ZERO", False),
        (lambda spark, folder: spark.read.parquet(f"file://{folder}/gone"), "PATH_NOT_FOUND", True),
        (lambda spark, _: java_class(spark, "java.lang.Integer").parseInt("row-1"), "NumberFormatException", True),
    ],
)
def test_what_would_fail_again_is_not_tried_again(
    spark: SparkSession, tmp_path: Path, work: Callable[[SparkSession, Path], object], error_class: str, *, retry: bool
) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        work(spark, tmp_path)
    error = operator_error(spark, caught.value)
    assert (error.error_class, error.retry) == (error_class, retry)
    assert "row-" not in error.message
    assert str(tmp_path) not in error.message
