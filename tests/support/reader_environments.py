"""The readers that our tables must be good for and that do not live in `.venv`: fetched once, kept in `.tools/readers`.

What cannot be fetched is an error: a reader that was not asked has not agreed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark

from tools.environment import find_uv, install_uv, uv_environment
from tracelake_spark.java import find_java

_ROOT = Path(__file__).resolve().parents[2]
_KEPT = _ROOT / ".tools" / "readers"
_LONGEST = 600  # seconds to fetch one of them

# Without what it would bring in older versions than Spark has.
_DELTA_CONNECTOR = """\
<ivy-module version="2.0">
  <info organisation="tests" module="delta-connector"/>
  <dependencies>
    <dependency org="io.delta" name="delta-spark_4.2_2.13" rev="4.4.0" conf="default"/>
    <exclude org="com.fasterxml.jackson.core"/>
    <exclude org="org.apache.hadoop" module="hadoop-client-.*" matcher="regexp"/>
    <exclude org="org.apache.logging.log4j"/>
    <exclude org="org.apache.parquet"/>
    <exclude org="org.apache.spark"/>
    <exclude org="org.scala-lang"/>
    <exclude org="org.slf4j"/>
  </dependencies>
</ivy-module>
"""
_DUCKDB = ("duckdb==1.5.5", "duckdb-extension-delta==1.5.5", "pyarrow>=26")


def delta_connector_jars() -> list[Path]:
    """Spark's own Delta connector and what it needs beside Spark, by the Ivy that PySpark carries."""
    return sorted(_kept("delta-connector", _DELTA_CONNECTOR, _fetch_jars).glob("*.jar"))


def duckdb_python() -> Path:
    """A Python with the DuckDB that its Delta extension fits."""
    return _kept("duckdb", repr((_DUCKDB, sys.version)), _make_duckdb) / "bin" / "python"


def _kept(name: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """The folder that this recipe made, now or on an earlier run; whole or absent, however many processes ask at once."""
    folder = _KEPT / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / f"{name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        finished = folder / ".finished"
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            finished.touch()
    return folder


def _fetch_jars(folder: Path) -> None:
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    (folder / "ivy.xml").write_text(_DELTA_CONNECTOR)
    java = find_java().path / "bin" / "java"
    command = [java, "-jar", ivy, "-ivy", folder / "ivy.xml", "-confs", "default", "-types", "jar", "bundle", "-cache", folder / "cache",
               "-retrieve", folder / "[artifact]-[revision].[ext]"]
    _run(command, folder)
    shutil.rmtree(folder / "cache", ignore_errors=True)
    assert any(folder.glob("delta-spark_*.jar")), f"the Delta connector was not fetched; see {folder / 'log'}"


def _make_duckdb(folder: Path) -> None:
    uv = find_uv() or install_uv()
    environment = uv_environment(os.environ)
    _run([uv, "venv", "--clear", "--python", sys.executable, folder], folder.parent, environment)
    _run([uv, "pip", "install", "--python", folder / "bin" / "python", *_DUCKDB], folder.parent, environment)


def _run(command: list[str | Path], folder: Path, environment: dict[str, str] | None = None) -> None:
    with (folder / "log").open("a") as log:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_LONGEST, env=environment)
