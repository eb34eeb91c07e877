"""Starts the Spark program of compaction as a child process: it ends with this process, has no token, and imports none of our code."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from tracelake.child_processes import MACHINE, clean_environment
from tracelake.launch import command_that_dies_with_us
from tracelake_sdk.records.compaction_program import CompactionOrder, compact
from tracelake_sdk.spark_settings import LocalSpark

Compacting = Callable[[CompactionOrder, Path], list[Path]]


def compact_by_spark(log: Path, spark: LocalSpark, home: Path) -> Compacting:
    """Runs as a child of the calling thread and ends with it; its output goes to the log."""
    local = LocalSpark(cores=spark.cores, memory=spark.memory, conf=spark.conf)  # its files are on this machine, also when a cluster is configured

    def compacting(order: CompactionOrder, folder: Path) -> list[Path]:
        environment = clean_environment(os.environ, MACHINE) | {"TRACELAKE_HOME": str(home)}
        return compact(order.model_copy(update={"spark": local}), folder, log, environment=environment, launch=_dies_with_us)

    return compacting


def _dies_with_us(command: Sequence[str]) -> Sequence[str]:
    return command_that_dies_with_us(command, death=signal.SIGKILL, rights="untracing")
