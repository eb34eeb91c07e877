"""Builds Spark sessions on this machine that need nothing installed, write what every engine reads, and keep stderr clean."""

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
    `spark.master` the driver alone is on this machine.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415  # a second of imports that only sessions need

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
    arrow = str(all(find_spec(package) for package in ("pandas", "pyarrow"))).lower()  # asked for and missing, each function warns
    return {
        "spark.driver.memory": memory,
        # XML that is data never makes Java open a file or an address.
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={logging.as_uri()} -Djavax.xml.accessExternalDTD= -Djavax.xml.accessExternalSchema=",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(cores),            # 200 tasks for ten rows are 200 times nothing
        "spark.sql.execution.arrow.pyspark.enabled": arrow,
        "spark.sql.execution.pythonUDF.arrow.enabled": arrow,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 comes back as another date in other engines
        "spark.speculation": "false",                          # a second try of a task would write its files twice
    }


@contextmanager
def _launch_environment(*, local: bool) -> Generator[None]:
    """The environment in which a JVM is started, given back afterwards; what the machine says of other Sparks is not for this one."""
    import pyspark  # noqa: PLC0415

    java = find_java()
    java_home = java.path if java.origin == "wheel" else launcher_home(default_home(), java.path / "bin" / "java")
    ours = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,    # else functions run on whatever `python3` is on the path
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
