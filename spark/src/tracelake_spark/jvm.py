"""Access to the JVM of a session for what PySpark does not offer: plans, classes, and statistics."""

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


def jvm_of(spark: "SparkSession") -> Any:
    inner: Any = spark.sparkContext
    return inner._jvm


def gateway_of(spark: "SparkSession") -> Any:
    """The connection to the JVM; a process has one at a time."""
    inner: Any = spark.sparkContext
    return inner._gateway


def java_class(spark: "SparkSession", name: str) -> Any:
    """A class by its full name: one call to Java, where `jvm.org.apache…` makes one for every dot."""
    return getattr(jvm_of(spark), name)


def context_of(spark: "SparkSession") -> Any:
    """Java's own SparkContext."""
    inner: Any = spark.sparkContext
    return inner._jsc.sc()


def session_state(spark: "SparkSession") -> Any:
    inner: Any = spark
    return inner._jsparkSession.sessionState()


def parsed_plan(spark: "SparkSession", statement: str) -> Any:
    """The plan of a statement from Spark's own parser; nothing is resolved and nothing runs."""
    return session_state(spark).sqlParser().parsePlan(statement)


def analyzed_plan(spark: "SparkSession", plan: Any) -> Any:
    """A parsed plan with its names resolved and its types checked; nothing runs except what Spark evaluates during analysis: constants of VALUES, of range() and the like."""
    skip = java_class(spark, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    return session_state(spark).executePlan(plan, skip).analyzed()


def frame_of(spark: "SparkSession", plan: Any) -> "DataFrame":
    """The frame of an analyzed plan. A plan with a command would run it here."""
    from pyspark.sql import DataFrame  # noqa: PLC0415

    inner: Any = spark
    return DataFrame(java_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(inner._jsparkSession, plan), spark)


def execution_of(frame: "DataFrame") -> Any:
    inner: Any = frame
    return inner._jdf.queryExecution()


def java_process(spark: "SparkSession") -> Any:
    """The JVM as a child of this process, a Popen."""
    return gateway_of(spark).proc


def estimated_bytes(frame: "DataFrame") -> int:
    """Spark's estimate of the maximum size of a frame; for joins it is far too high."""
    return int(str(execution_of(frame).optimizedPlan().stats().sizeInBytes()))


def infer_csv(spark: "SparkSession", reader: "DataFrameReader", records: "DataFrame") -> StructType:
    """The schema that Spark infers from the records in a frame's only column."""
    inner: Any = records
    texts = getattr(inner._jdf, "as")(java_class(spark, "org.apache.spark.sql.Encoders").STRING())
    outer: Any = reader
    return StructType.fromJson(json.loads(outer._jreader.csv(texts).schema().json()))


def schema_json(frame: "DataFrame") -> str:
    """As a string of Java, before Python turns it into classes."""
    inner: Any = frame
    return str(inner._jdf.schema().json())
