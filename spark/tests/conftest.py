"""One Spark for all tests of this package that need one."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tracelake_spark.session import local_session


@pytest.fixture(scope="session")
def whole_run_spark() -> Iterator[SparkSession]:
    session = local_session("tests", **{"spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "spark.sql.ansi.enabled": "true"})
    session.sparkContext.setLogLevel("FATAL")
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye after the tests have closed their log
    yield session
    session.stop()


@pytest.fixture
def spark(whole_run_spark: SparkSession) -> SparkSession:
    """As an operator gets it: a session of its own."""
    return whole_run_spark.newSession()


@pytest.fixture
def staged_rows(spark: SparkSession, tmp_path: Path) -> Callable[[list[str]], list[Row]]:
    """The rows of files that a manifest names, read as anybody would."""

    def rows(files: list[str]) -> list[Row]:
        frame: DataFrame = spark.read.option("__globPaths__", "false").parquet(*[f"file://{tmp_path}/staging/{file}" for file in files])
        return sorted(frame.collect(), key=str)

    return rows
