"""Pinned reads: exactly the files that an order names, with the schema that was recorded for them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from tracelake_sdk.tasks.operator_files import OrderInput
from tracelake_spark.scoping import scope_condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_SPARKS_THRESHOLD = 32

__all__ = ["exact_files", "input_frame", "schema_of", "scope_condition"]


def input_frame(spark: "SparkSession", pinned: OrderInput) -> "DataFrame":
    """The rows of one input; columns that older files lack are null."""
    schema = schema_of(pinned.table_schema)
    if not pinned.files:
        return spark.range(0).select(*[F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields])
    frame = exact_files(spark, pinned.files).schema(schema).parquet(*pinned.files)
    condition = scope_condition(pinned.scopes, pinned.partition_by)
    return frame if condition is None else frame.where(condition)


def exact_files(spark: "SparkSession", files: Sequence[str]) -> "DataFrameReader":
    """A reader for literal names: no pattern is expanded, and no folder becomes a partition column."""
    # On this machine files are listed in the driver: above the threshold Spark would start a job to list them.
    if len(files) > _SPARKS_THRESHOLD:
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(len(files) + 1))
    return spark.read.option("__globPaths__", "false").option("recursiveFileLookup", "true")


def schema_of(table_schema: dict[str, Any]) -> StructType:
    """Delta's form of a schema as a Spark schema; every column is nullable."""
    return _nullable(StructType.fromJson(table_schema))


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, _inside(field.dataType)) for field in schema.fields])


def _inside(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return _nullable(kind)
        case ArrayType():
            return ArrayType(_inside(kind.elementType))
        case MapType():
            return MapType(_inside(kind.keyType), _inside(kind.valueType))
        case _:
            return kind
