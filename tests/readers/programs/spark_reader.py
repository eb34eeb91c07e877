"""Reads with Spark's own Delta connector, and writes Parquet as Spark does: `spark_reader.py JAR,JAR…`."""

import sys

import pyarrow as pa
from serving import serve

from tracelake_spark.session import local_session

SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # the default runs 50 tasks to read a log of three lines
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",           # each table here is asked once: compiling costs more than it saves
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def main(jars: str) -> None:
    spark = local_session("readers", memory="1g", **SESSION, **{"spark.jars": jars, "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"})

    def read(path: str, version: int | None, where: str) -> pa.Table:
        reader = spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(path).where(where).toArrow()

    def read_at(path: str, at: str) -> pa.Table:
        return spark.read.format("delta").option("timestampAsOf", at).load(path).toArrow()

    def write(query: str, path: str) -> None:
        spark.sql(query).write.mode("append").parquet(path)

    serve({"read": read, "read_at": read_at, "write": write})


if __name__ == "__main__":
    main(*sys.argv[1:])
