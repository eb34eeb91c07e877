"""The Spark operators, by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tracelake_sdk.tasks.operator_files import OperatorOutcome, Order
from tracelake_spark.operators import ingest_files, sql
from tracelake_spark.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Operator = Callable[["SparkSession", Order, Progress], OperatorOutcome]

OPERATORS: Mapping[str, Operator] = MappingProxyType({"ingest_files": ingest_files.run, "sql": sql.run})
