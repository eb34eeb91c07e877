"""The readers that our tables must be good for and that do not live in `.venv`: fetched once, kept in `.tools/readers`.

What cannot be fetched is an error: a reader that was not asked has not agreed.
"""

import os
import sys
from pathlib import Path

from support.fetched import jars, kept, run
from tools.environment import find_uv, install_uv, uv_environment

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
    """Spark's own Delta connector and what it needs beside Spark."""
    return jars("delta-connector", _DELTA_CONNECTOR, "delta-spark_*.jar")


def duckdb_python() -> Path:
    """A Python with the DuckDB that its Delta extension fits."""
    return kept("duckdb", repr((_DUCKDB, sys.version)), _make_duckdb) / "bin" / "python"


def _make_duckdb(folder: Path) -> None:
    uv = find_uv() or install_uv()
    environment = uv_environment(os.environ)
    run([uv, "venv", "--clear", "--python", sys.executable, folder], folder.parent, environment)
    run([uv, "pip", "install", "--python", folder / "bin" / "python", *_DUCKDB], folder.parent, environment)
