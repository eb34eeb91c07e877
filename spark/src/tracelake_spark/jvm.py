"""The JVM behind a session, where PySpark itself offers no way: plans, classes, and what Java says of itself."""

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


def jvm_of(spark: "SparkSession") -> Any:
    inner: Any = spark.sparkContext
    return inner._jvm


def java_class(spark: "SparkSession", name: str) -> Any:
    """A class by its whole name: one question to Java, where `jvm.org.apache…` asks at every dot."""
    return getattr(jvm_of(spark), name)


def context_of(spark: "SparkSession") -> Any:
    """Java's own SparkContext."""
    inner: Any = spark.sparkContext
    return inner._jsc.sc()


def session_state(spark: "SparkSession") -> Any:
    inner: Any = spark
    return inner._jsparkSession.sessionState()


def execution_of(frame: "DataFrame") -> Any:
    inner: Any = frame
    return inner._jdf.queryExecution()


def java_process(spark: "SparkSession") -> Any:
    """The JVM as a child of this process, a Popen."""
    inner: Any = spark.sparkContext
    return inner._gateway.proc


def estimated_bytes(frame: "DataFrame") -> int:
    """What Spark expects the rows of a frame to be at most; joins are far overestimated."""
    return int(str(execution_of(frame).optimizedPlan().stats().sizeInBytes()))


def infer_csv(spark: "SparkSession", reader: "DataFrameReader", records: "DataFrame") -> StructType:
    """The schema that Spark infers from the records in a frame's only column."""
    inner: Any = records
    texts = getattr(inner._jdf, "as")(java_class(spark, "org.apache.spark.sql.Encoders").STRING())
    outer: Any = reader
    return StructType.fromJson(json.loads(outer._jreader.csv(texts).schema().json()))
