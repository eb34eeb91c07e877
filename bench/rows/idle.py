"""`idle`: what `tracelaked up` costs while nothing happens: processor time and memory of all its processes, Postgres included."""

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import psutil

from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import BenchFailed, Figure, Measured
from bench.rows import Row
from bench.system import ROOT
from tracelake.embedded.processes import Child
from tracelake_sdk.home import HomeFiles

_READY_SECONDS = 120
_SETTLE_SECONDS = 5


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    home = stage.folder / "idle"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("TRACELAKE")}
    command = (sys.executable, "-m", "tracelake.main", "up")
    with Child("up", command, log=stage.folder / "idle.log", folder=ROOT, environment=kept | {"TRACELAKE_HOME": str(home)}) as supervisor:
        deadline = time.monotonic() + _READY_SECONDS
        while HomeFiles(home).api_url() is None:
            if supervisor.exit_code is not None or time.monotonic() > deadline:
                raise BenchFailed(f"the embedded system did not come up; its log is {supervisor.log}")
            time.sleep(0.1)
        time.sleep(min(_SETTLE_SECONDS, n))  # what the start leaves behind, a checkpoint above all, is not idling
        yield [Contender(OURS, our_version(), lambda n: measure(supervisor.pid, n))]


def measure(supervisor: int, seconds: int) -> Measured:
    before, start = _cpu_seconds(supervisor), time.perf_counter()
    time.sleep(seconds)
    used, passed = _cpu_seconds(supervisor) - before, time.perf_counter() - start
    return Measured(seconds, passed, cpu_percent=100 * used / passed, pss_mib=_pss(supervisor) / 2**20)


def _tree(supervisor: int) -> list[psutil.Process]:
    root = psutil.Process(supervisor)
    return [root, *root.children(recursive=True)]


def _cpu_seconds(supervisor: int) -> float:
    """Of everyone alive, and through their parents of those that have ended: Postgres starts short-lived processes."""
    total = 0.0
    for process in _tree(supervisor):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # its parent has counted it
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _pss(supervisor: int) -> int:
    total = 0
    for process in _tree(supervisor):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def _cpu(run: Measured) -> float:
    return run.cpu_percent or 0.0


def _memory(run: Measured) -> float:
    return run.pss_mib or 0.0


ROW = Row(
    "idle",
    "the embedded system doing nothing: processor time and memory of all its processes, Postgres included",
    (Figure("processor", "% of a core", _cpu, more_is_better=False, goal=1.0), Figure("memory", "MiB", _memory, more_is_better=False, goal=400.0)),
    {"small": 20, "full": 60},
    contenders,
)
