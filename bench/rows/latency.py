"""`latency`: from the commit of an event to the start of the operator behind it, everything idle before.

Ours is measured twice in each run: an event that a task of the same worker emits, and a request that wakes the worker from its
long poll. The peers and the limit have only the second, and are compared with both.
"""

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from bench import limits
from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import BenchFailed, Figure, Measured, percentile
from bench.programs import stamps
from bench.rows import Row
from bench.rows.driving import dag_of, drive, peers
from bench.system import STAMPED_CONTROL, STAMPED_WORKER, Commands, System, running_system

_LONGEST_WAIT = 30.0


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    database = stage.database("tracelake")
    folder = stage.folder / f"{database}-stamps"
    folder.mkdir()
    commands = Commands(STAMPED_CONTROL, STAMPED_WORKER)
    with running_system(stage.postgres, stage.folder, database, commands=commands, extra={stamps.FOLDER: str(folder)}) as system:
        system.client.dags.deploy(dag_of(1))
        drive(system, 100)
        own = Contender(OURS, our_version(), lambda n: measure(system, folder, n), database)
        yield [own, *peers(stage, "latency"), *([limits.notify(stage)] if stage.limits else [])]


def measure(system: System, folder: Path, n: int) -> Measured:
    """One request at a time; what the two processes noted is read when all are done."""
    started = len(stamps.read(folder, "worker"))
    start = time.perf_counter()
    for number in range(n):
        time.sleep(random.uniform(0.01, 0.02))  # until the worker is back in its poll, and then a little
        before = system.finished()
        system.client.dags.run("bench", "start", {"cursors": [number]})
        _wait_until_finished(system, before + 2)
    seconds = time.perf_counter() - start
    operators = stamps.read(folder, "worker")[started:]
    if [stamp.name for stamp in operators] != ["emit", "noop"] * n:
        raise BenchFailed(f"the worker started other operators than one emit and one noop for each request; the logs are in {system.folder}")
    commits = stamps.read(folder, "control")
    return Measured(n, seconds, _since("complete:after_commit", commits, operators[1::2]), _since("accept:after_commit", commits, operators[0::2]))


def _wait_until_finished(system: System, attempts: int) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT
    while system.finished() < attempts:
        system.check_alive()
        if time.monotonic() > deadline:
            raise BenchFailed(f"a task did not end within {_LONGEST_WAIT:.0f} s; the logs are in {system.folder}")
        time.sleep(0.004)  # seldom: on two cores, looking takes time from what is looked at


def _since(moment: str, commits: list[stamps.Stamp], operators: list[stamps.Stamp]) -> tuple[float, ...]:
    """Milliseconds from the last such commit before each start: only one request is under way at a time."""
    times = [stamp.ns for stamp in commits if stamp.name == moment]
    return tuple((start.ns - times[bisect_right(times, start.ns) - 1]) / 1e6 for start in operators)


def _event(run: Measured) -> tuple[float, ...]:
    return run.samples_ms


def _woken(run: Measured) -> tuple[float, ...]:
    return run.woken_ms or run.samples_ms


def _at(name: str, share: float, samples: Callable[[Measured], tuple[float, ...]], *, goal: float, limit_there: float) -> Figure:
    return Figure(f"{name} p{share * 100:.0f}", "ms", lambda run: percentile(samples(run), share), more_is_better=False, goal=goal, limit_there=limit_there)


ROW = Row(
    "latency",
    "milliseconds from the commit of an event (or of a request that wakes an idle worker) to the start of its operator",
    (
        _at("event", 0.5, _event, goal=2.5, limit_there=1.2),
        _at("event", 0.99, _event, goal=6, limit_there=3),
        _at("woken", 0.5, _woken, goal=2.5, limit_there=1.2),
        _at("woken", 0.99, _woken, goal=6, limit_there=3),
    ),
    {"small": 200, "full": 1000},
    contenders,
)
