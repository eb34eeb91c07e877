"""Spark by itself: one warm session that runs one request per line and returns how long it took.

`python -m bench.programs.bare_spark` reads {"do": …} on stdin and writes {"seconds": …} on stdout; with an argument it does that one
line and ends, which is what a fresh process for each job costs.
"""

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.gate_rules import EXPRESSIONS, FAULTY, name_of
from tracelake_spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEMORY = "3g"
_WRITE = {"compression": "zstd", "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries is not part of the answer
    spark = local_session("bench", memory=MEMORY, **{"spark.sql.ansi.enabled": "true", "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem"})
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.argv[1:] or sys.stdin:
        answers.write(json.dumps(_do(spark, json.loads(line))) + "\n")
    spark.stop()


def _do(spark: "SparkSession", request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "write":  # the rows of the gate row
            shutil.rmtree(request["folder"], ignore_errors=True)
            rows = spark.sql(FAULTY).coalesce(1) if request["rows"] is None else spark.range(request["rows"], numPartitions=2).selectExpr(*EXPRESSIONS)
            start = time.perf_counter()
            rows.write.options(**_WRITE).parquet(request["folder"])
            return {"seconds": time.perf_counter() - start}
        case "append":  # the same rows from another number on
            shutil.rmtree(request["folder"], ignore_errors=True)
            first = request["after"]
            spark.range(first, first + request["rows"], numPartitions=1).selectExpr(*EXPRESSIONS).write.options(**_WRITE).parquet(request["folder"])
            return {"seconds": 0.0}
        case "rules":
            rows = spark.read.parquet(request["folder"])
            start = time.perf_counter()
            broken = _broken(rows, request["rules"])
            return {"seconds": time.perf_counter() - start, "broken": broken}
        case "sql":  # the job of the Spark task row
            shutil.rmtree(request["folder"], ignore_errors=True)
            start = time.perf_counter()
            spark.read.parquet(*request["files"]).createOrReplaceTempView("input_0")
            spark.sql(request["query"]).coalesce(1).write.options(**_WRITE).parquet(request["folder"])
            return {"seconds": time.perf_counter() - start}
        case unknown:
            raise ValueError(f"unknown action {unknown!r}")


def _broken(rows: "DataFrame", rules: list[dict[str, Any]]) -> list[str]:
    """Plain Spark as one would write it: all counts in one pass, and a grouping for each unique column."""
    counted = [rule for rule in rules if rule["rule"] != "UNIQUE"]
    found = rows.selectExpr(*[f"count_if({_condition(rule)}) AS `{number}`" for number, rule in enumerate(counted)]).first()
    broken = [name_of(rule) for number, rule in enumerate(counted) if found is not None and found[str(number)]]
    for rule in rules:
        if rule["rule"] == "UNIQUE":
            twice = rows.where(f"{rule['column']} IS NOT NULL").groupBy(rule["column"]).count().where("count > 1")
            broken += [name_of(rule)] if twice.count() else []
    return broken


def _condition(rule: dict[str, Any]) -> str:
    """True for a row that breaks the rule, in SQL."""
    column = rule["column"]
    match rule["rule"]:
        case "NOT_NULL":
            return f"{column} IS NULL"
        case "RANGE":
            low, high = (f"DATE'{bound}'" if column == "day" else str(bound) for bound in (rule["low"], rule["high"]))
            return f"NOT ({column} BETWEEN {low} AND {high})"
        case "ENUM":
            return f"{column} NOT IN ({', '.join(map(repr, rule['values']))})"
        case _:
            return f"NOT ({column} RLIKE '^({rule['pattern']})$')"


if __name__ == "__main__":
    main()
