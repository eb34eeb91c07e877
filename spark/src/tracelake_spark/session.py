"""Builds local Spark sessions that need no installation, write files that every engine can read, and keep stderr clean."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tracelake_sdk.home import default_home
from tracelake_spark.java import find_java, launcher_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def local_session(app_name: str, *, cores: int = 2, memory: str = "1g", **conf: str) -> "SparkSession":
    """A session with its own JVM on this machine; a process has one JVM, so memory and cores are those of its first session.

    Further settings are given by their Spark names: `local_session("load", **{"spark.sql.ansi.enabled": "true"})`. With another
    `spark.master` only the driver runs on this machine.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415  # importing it takes a second, and only sessions need it

    local = conf.get("spark.master", "local").startswith("local")
    with as_file(files("tracelake_spark") / "log4j2.properties") as logging, _launch_environment(local=local):
        ours = _settings(cores, memory, logging) | (_ON_THIS_MACHINE if local else {"spark.executor.memory": memory, "spark.cores.max": str(cores)})
        given = conf | ({_JAVA_OPTIONS: f"{ours[_JAVA_OPTIONS]} {conf[_JAVA_OPTIONS]}"} if _JAVA_OPTIONS in conf else {})
        builder = SparkSession.builder.appName(app_name).master(f"local[{cores}]")
        for name, value in (ours | given).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


_ON_THIS_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def _settings(cores: int, memory: str, logging: Path) -> dict[str, str]:
    arrow = str(all(find_spec(package) for package in ("pandas", "pyarrow"))).lower()  # if enabled but missing, each function warns
    return {
        "spark.driver.memory": memory,
        # XML in data must not make Java open a file or an address.
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={logging.as_uri()} -Djavax.xml.accessExternalDTD= -Djavax.xml.accessExternalSchema=",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(cores),            # the default of 200 is too many for small data
        "spark.sql.execution.arrow.pyspark.enabled": arrow,
        "spark.sql.execution.pythonUDF.arrow.enabled": arrow,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other engines read INT96 as another date
        "spark.speculation": "false",                          # a speculative task would write its files twice
    }


@contextmanager
def _launch_environment(*, local: bool) -> Generator[None]:
    """Sets the environment in which a JVM is started and restores it afterwards; variables for other Spark installations are removed."""
    import pyspark  # noqa: PLC0415

    java = find_java()
    java_home = java.path if java.origin == "wheel" else launcher_home(default_home(), java.path / "bin" / "java")
    ours = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,    # else functions run on the `python3` of the path
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    } | ({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {})  # else Spark warns about the host's name
    theirs = {name: value for name, value in os.environ.items() if name in ours or name.startswith(("SPARK_", "PYSPARK_"))}
    for name in theirs:
        del os.environ[name]
    os.environ |= ours
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        os.environ |= theirs
