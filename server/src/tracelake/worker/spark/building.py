"""Builds the workers of one process from its settings."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from tracelake.chaos import Chaos
from tracelake.child_processes import BoundedLog, Starter, clean_environment
from tracelake.settings import Settings
from tracelake.storage.opening import open_storage
from tracelake.storage.operator_credentials import AMBIENT, OfTheMachine, operator_credentials
from tracelake.storage.private_places import private_places
from tracelake.worker.measuring.contract import CHAOS_VARIABLE, Limits
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.spark.host_process import HostProcess
from tracelake.worker.spark.measuring_process import MeasuringProcess
from tracelake.worker.spark.operator_processes import CommandProcess, OperatorProcess, OperatorProcesses
from tracelake.worker.spark.spark_worker import SparkWorker
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.spark_settings import S3Connection

_HOST = (sys.executable, "-m", "tracelake_spark.host")
_JAVA = (sys.executable, "-m", "tracelake_spark.java")
_JAVA_SECONDS = 120
_UNITS = {"m": "MB", "g": "GB"}


def build_spark_worker(settings: Settings, control: TaskClient, name: str, watch: Callable[[str], None]) -> SparkWorker:
    starter = Starter()
    environment = clean_environment(os.environ)
    of_storage = storage_environment(settings, os.environ)
    logs = settings.home / "logs"
    chaos = Chaos({CHAOS_VARIABLE: settings.chaos.kill_at} if settings.chaos.kill_at else None)
    commands: dict[str, OperatorProcess] = {
        operator: CommandProcess(starter, command, environment=environment | of_storage, log=BoundedLog(logs / f"operator-{operator}.log"), chaos=chaos)
        for operator, command in settings.worker.commands.items()
    }
    host = HostProcess(
        starter, host_command(settings), environment=environment | of_storage | home_of(settings), folder=settings.home / "scratch", log=BoundedLog(logs / "spark-host.log"), chaos=chaos,
        idle_seconds=settings.worker.host_idle_seconds, explain=lambda: java_missing(environment | home_of(settings)),
    )  # fmt: skip
    measuring = MeasuringProcess(
        starter, storage=storage_section(settings), environment=environment, folder=settings.home / "scratch", log=BoundedLog(logs / "measuring.log"), chaos=chaos,
        limits=limits_of(settings),
    )  # fmt: skip
    return SparkWorker(
        control,
        name=name,
        slots=settings.worker.slots,
        poll_seconds=settings.worker.poll_seconds,
        storage=open_storage(settings, watch),
        operators=OperatorProcesses(commands, host if find_spec("tracelake_spark") else None),
        credentials=operator_credentials(settings, os.environ),
        measuring=measuring,
        scratch=settings.home / "scratch",
        private=private_places(settings),
        watch=watch,
    )


def limits_of(settings: Settings) -> Limits:
    """The limits of the measuring process, in its units."""
    return Limits(threads=settings.measuring.cores, memory=settings.measuring.memory[:-1] + _UNITS[settings.measuring.memory[-1]])


def home_of(settings: Settings) -> dict[str, str]:
    """The environment variable of the folder in which Spark's programs keep files such as a launcher of Java."""
    return {"TRACELAKE_HOME": str(settings.home)}


def host_command(settings: Settings) -> list[str]:
    """The command of the warm host with all Spark settings; it contains no secret."""
    spark, given = settings.spark, settings.storage
    command = [*_HOST, "--cores", str(spark.cores), "--memory", spark.memory, "--jars-folder", str(settings.jars_folder)]
    if spark.master is not None:
        command += ["--master", spark.master]
    for package in spark.packages:
        command += ["--package", package]
    for name, value in spark.conf.items():
        command += ["--conf", f"{name}={value}"]
    if given.is_s3:
        connection = S3Connection(endpoint=given.endpoint, region=given.region, allow_http=given.allow_http, timeout_seconds=given.timeout_seconds)
        command += ["--s3", connection.model_dump_json()]
    return command


def storage_section(settings: Settings) -> dict[str, Any]:
    """The section `storage` as the measuring process reads it: secrets in plain text, with the default folder of the home."""
    given = settings.storage
    secret = given.secret_access_key
    return given.model_dump(mode="json") | {
        "url": given.url or (settings.home / "lake").resolve().as_uri(),
        "secret_access_key": secret.get_secret_value() if secret else None,
    }


def storage_environment(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the object store that every operator gets, under the names that S3 libraries read; never a key of the settings.

    Each attempt has its own credentials. Only if none are configured do operators use the credentials of this machine.
    """
    given = settings.storage
    if not given.is_s3:
        return {}
    ambient = isinstance(operator_credentials(settings, environment), OfTheMachine)
    found = {name: value for name, value in environment.items() if ambient and name in AMBIENT}
    return found | {"AWS_REGION": given.region} | ({"AWS_ENDPOINT_URL": given.endpoint} if given.endpoint else {})


def java_missing(environment: Mapping[str, str]) -> OperatorFailed | None:
    """The error if Spark could not start because there is no Java; called after a failed start."""
    try:
        answer = subprocess.run(_JAVA, env=dict(environment), capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    return OperatorFailed("java_missing", answer.stderr.strip()[-2000:], retry=True) if answer.returncode == 1 else None
