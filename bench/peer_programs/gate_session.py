"""What the peers of the gate row have in common: a warm Spark session, rows with faults that they must find first, and a clock.

`python <peer>.py gate N` prints {n, seconds, samples_ms}: the time of one judgement of all rows by all rules, the session being warm.
"""
# pyright: basic, reportMissingImports=false

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Rule = dict[str, Any]
Judge = Callable[[DataFrame, list[Rule]], set[str]]  # the names of the rules that are broken


def name_of(rule: Rule) -> str:
    return f"{rule['rule']} {rule['column']}"


def run(judge: Judge) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries is not part of the answer
    given = json.loads(Path(os.environ["PEER_RULES"]).read_text())
    spark = _session()
    found = judge(spark.read.parquet(os.environ["PEER_FAULTY"]), given["rules"])
    if found != set(given["broken"]):
        sys.exit(f"found other faults than there are: {sorted(found ^ set(given['broken']))}")
    start = time.perf_counter()
    found = judge(spark.read.parquet(os.environ["PEER_ROWS"]), given["rules"])
    seconds = time.perf_counter() - start
    if found:
        sys.exit(f"found faults where there are none: {sorted(found)}")
    answers.write(json.dumps({"n": int(sys.argv[2]), "seconds": seconds, "samples_ms": []}) + "\n")
    answers.close()
    spark.stop()


def _session() -> SparkSession:
    """As the sessions of the other contenders of the row are: two cores, as many shuffle partitions, no page to look at."""
    settings = {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("peer").master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
