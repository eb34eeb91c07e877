"""`python -m tracelake_spark.compacting ORDER OUTCOME`: writes lines of JSON as sorted Parquet files, for the compaction of records."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType, StructField, StructType

from tracelake_sdk.records.compaction_program import ColumnType, CompactionOrder, CompactionOutcome
from tracelake_spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IN_LINES: dict[ColumnType, DataType] = {
    "string": StringType(),
    "strings": ArrayType(StringType()),
    "integer": IntegerType(),
    "long": LongType(),
    "timestamp": LongType(),
}
_GROUP_BYTES = 4 << 20   # a record is looked up by reading its row group
_SMALL_BYTES = 64 << 20  # size of the lines below which one task sorts all of them
_LABEL = "__apart"
_SETTINGS: dict[str, Any] = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no checksum files beside the data
    "spark.sql.ansi.enabled": "true",
}


def compact(spark: "SparkSession", order: CompactionOrder) -> CompactionOutcome:
    """Writes every line of the order's source; a line that cannot be parsed is an error, never a row of nulls."""
    schema = StructType([StructField(name, _IN_LINES[type]) for name, type in order.columns.items()])
    # Not as_uri(): Hadoop does not decode `%20`, and would look for a folder of that name.
    lines = spark.read.schema(schema).option("mode", "FAILFAST").json(f"file://{Path(order.source).absolute()}")
    rows = lines.select(
        *(F.timestamp_micros(F.col(name)).alias(name) if type == "timestamp" else F.col(name) for name, type in order.columns.items())
    )
    write(rows, order, small=Path(order.source).stat().st_size <= _SMALL_BYTES)
    files = sorted(path.relative_to(order.target).as_posix() for path in Path(order.target).rglob("*.parquet") if not path.name.startswith((".", "_")))
    return CompactionOutcome(files=files)


def write(rows: "DataFrame", order: CompactionOrder, *, small: bool) -> None:
    keys = [_LABEL, *order.sort] if order.apart else order.sort
    if order.apart:
        rows = rows.withColumn(_LABEL, F.col(order.apart))
    ordered = rows.coalesce(1).sortWithinPartitions(*keys) if small else rows.sort(*keys)
    writer = ordered.write.partitionBy(_LABEL) if order.apart else ordered.write
    writer.options(
        **{
            "compression": "zstd",
            "maxRecordsPerFile": str(order.rows_per_file),
            "parquet.block.size": str(_GROUP_BYTES),
            "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        }
    ).parquet(f"file://{Path(order.target).absolute()}")


def main(order: str, outcome: str) -> int:
    request = CompactionOrder.model_validate_json(Path(order).read_bytes())
    spark = local_session("compacting", cores=request.spark.cores, memory=request.spark.memory, **(request.spark.conf | _SETTINGS))
    try:
        done = compact(spark, request)
    finally:
        spark.stop()
    draft = Path(f"{outcome}.draft")
    draft.write_text(json.dumps(done.model_dump()))
    draft.replace(outcome)  # atomic
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
