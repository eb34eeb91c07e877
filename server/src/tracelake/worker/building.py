"""Builds the workers of one process from its settings."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from tracelake.settings import Settings
from tracelake.storage.opening import open_storage
from tracelake.worker.control_client import ControlClient
from tracelake.worker.measuring.contract import CHAOS_VARIABLE
from tracelake.worker.measuring_process import MeasuringProcess
from tracelake.worker.operator_processes import CommandProcess, HostProcess, OperatorProcess, OperatorProcesses
from tracelake.worker.operators.contract import OperatorFailed
from tracelake.worker.process_groups import BoundedLog, Chaos, Starter, clean_environment
from tracelake.worker.wrapping import SparkWorker

_HOST = (sys.executable, "-m", "tracelake_spark.host")
_JAVA = (sys.executable, "-m", "tracelake_spark.java")
_JAVA_SECONDS = 120
_S3_NAMES = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"})


def build_spark_worker(settings: Settings, control: ControlClient, name: str, watch: Callable[[str], None]) -> SparkWorker:
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
        starter, _HOST, environment=environment | of_storage, folder=settings.home / "scratch", log=BoundedLog(logs / "spark-host.log"), chaos=chaos,
        idle_seconds=settings.worker.host_idle_seconds, explain=lambda: java_missing(environment),
    )  # fmt: skip
    measuring = MeasuringProcess(
        starter, storage=storage_section(settings), environment=environment, folder=settings.home / "scratch", log=BoundedLog(logs / "measuring.log"), chaos=chaos,
    )  # fmt: skip
    return SparkWorker(
        control,
        name=name,
        slots=settings.worker.slots,
        poll_seconds=settings.worker.poll_seconds,
        storage=open_storage(settings, watch),
        operators=OperatorProcesses(commands, host if find_spec("tracelake_spark") else None),
        measuring=measuring,
        scratch=settings.home / "scratch",
        variables=settings.vars,
        watch=watch,
    )


def storage_section(settings: Settings) -> dict[str, Any]:
    """The section `storage` as the measuring process reads it: secrets in the clear, the home's own folder named."""
    given = settings.storage
    secret = given.secret_access_key
    return given.model_dump(mode="json") | {
        "url": given.url or (settings.home / "lake").resolve().as_uri(),
        "secret_access_key": secret.get_secret_value() if secret else None,
    }


def storage_environment(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """What an operator needs to stage files on an object store, under the names that every S3 library knows; nothing where tables are local files."""
    given = settings.storage
    if not (given.url or "").startswith("s3:"):
        return {}
    found = {name: value for name, value in environment.items() if name in _S3_NAMES}
    if given.access_key_id and given.secret_access_key:
        found = {"AWS_ACCESS_KEY_ID": given.access_key_id, "AWS_SECRET_ACCESS_KEY": given.secret_access_key.get_secret_value()}
    return found | {"AWS_REGION": given.region} | ({"AWS_ENDPOINT_URL": given.endpoint} if given.endpoint else {})


def java_missing(environment: Mapping[str, str]) -> OperatorFailed | None:
    """Why Spark cannot start where that is for lack of a Java; asked after it did not."""
    try:
        answer = subprocess.run(_JAVA, env=dict(environment), capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    return OperatorFailed("java_missing", answer.stderr.strip()[-2000:], retry=True) if answer.returncode == 1 else None
