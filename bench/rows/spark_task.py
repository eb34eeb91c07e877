"""`spark_task`: what the platform adds to a small Spark job.

Ours: an event about a dataset starts a `sql` job on a warm host, and its result is measured, passes the gate and becomes a version;
from the commit that emitted the event to the commit that made the version visible. Beside it, the same query over the same files in a
warm session with nothing around it, and in a process that is started for it.
"""

import time
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median

from bench.bare_spark import BareSpark, once
from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import BenchFailed, Figure, Measured, percentile
from bench.programs import stamps
from bench.rows import Row
from bench.system import STAMPED_CONTROL, STAMPED_SPARK_WORKER, Commands, System, running_system
from tracelake_sdk.tasks import TaskState

ROWS = 2000  # of each file that arrives
QUERY = "SELECT customer, sum(amount) AS amount, count(*) AS orders, max(day) AS last_day FROM input_0 WHERE amount > 1 GROUP BY customer"
_DAG = f"""
name: shop
defaults: {{domain: bench, owner: bench, timeout_seconds: 600}}
jobs:
  - name: load
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: landing, format: csv, schema: "id BIGINT, customer STRING, amount DECIMAL(10,2), day DATE"}}
    outputs: [{{layer: bronze, description: Orders as they came}}]
    update_strategy: append
    unique_key: [id]
  - name: sums
    activation: reactive
    inputs: [{{from: {{job: load, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: "{QUERY}"}}
    outputs: [{{layer: silver, description: Sums by customer}}]
    update_strategy: replace
publish:
  orders: {{job: load, output_index: 0}}
  sums: {{job: sums, output_index: 0}}
"""
# The moments of one task, in the order in which they come, and what happens before each.
_WALK = (
    ("claim", "control", "claim:after_commit"),
    ("order", "worker", "operator_started"),
    ("Spark", "worker", "operator_ended"),
    ("measuring", "worker", "measured"),
    ("decide", "control", "complete:after_commit"),
    ("freeze", "control", "freeze:after_commit"),
    ("put", "control", "put:answered"),
    ("record", "control", "record:after_commit"),
)
_RECORD = "record:after_commit"
_LONGEST_WAIT = 300.0


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    database = stage.database("tracelake")
    stamped, landing = stage.folder / f"{database}-stamps", stage.folder / "landing"
    stamped.mkdir()
    landing.mkdir()
    environment = {
        stamps.FOLDER: str(stamped),
        stamps.MOMENTS: ",".join(sorted({moment for _, _, moment in _WALK})),
        "TRACELAKE__LOCATIONS": f'{{"landing": "{landing}"}}',
        "TRACELAKE__WORKER__RUNTIMES": '["spark"]',
    }
    commands = Commands(STAMPED_CONTROL, STAMPED_SPARK_WORKER)
    with running_system(stage.postgres, stage.folder, database, commands=commands, extra=environment) as system, BareSpark(stage.folder / "spark.log") as spark:
        system.client.dags.deploy(_DAG)
        ours = _Ours(system, stamped, landing)
        ours.run(min(n, 3))  # until host, measuring and plans are warm
        others = [_bare(spark, ours, stage.folder), _fresh(ours, stage.folder)] if stage.limits else []
        if others:
            others[0].run(min(n, 3))
        yield [Contender(OURS, our_version(), ours.run, database), *others]


class _Ours:
    def __init__(self, system: System, stamped: Path, landing: Path) -> None:
        self._system: System = system
        self._stamped: Path = stamped
        self._landing: Path = landing
        self._files: int = 0

    def run(self, n: int) -> Measured:
        samples: list[float] = []
        parts: dict[str, list[float]] = {name: [] for name, _, _ in _WALK}
        start = time.perf_counter()
        for _ in range(n):
            walked = self._task()
            for name, milliseconds in walked.items():
                parts[name].append(milliseconds)
            samples.append(sum(walked.values()))
        return Measured(n, time.perf_counter() - start, tuple(samples), parts_ms={name: median(values) for name, values in parts.items()})

    def files(self) -> list[str]:
        """What the newest version of the input is made of."""
        table = self._system.value(
            "SELECT 'org/' || dataset.org_id || '/dataset/' || dataset.id || '/version/' || version.id FROM dataset_name AS name"
            " JOIN dataset ON dataset.id = name.dataset_id JOIN dataset_version AS version ON version.dataset_id = dataset.id WHERE name.name = 'orders'"
        )
        paths = self._system.value(
            "SELECT array_agg(file.path ORDER BY file.path) FROM data_file AS file JOIN dataset_version AS version ON version.id = file.dataset_version_id"
            " JOIN dataset_name AS name ON name.dataset_id = version.dataset_id WHERE name.name = 'orders' AND file.removed_version IS NULL"
        )
        return [str(self._system.folder / "lake" / table / path) for path in paths]

    def _task(self) -> dict[str, float]:
        """A file arrives; milliseconds of each step of the task that its event causes."""
        first, self._files = self._files * ROWS, self._files + 1
        rows = "".join(f"{id},customer {id % 50},{id % 90}.{id % 100:02},2024-01-{1 + id % 28:02}\n" for id in range(first, first + ROWS))
        draft = self._landing.parent / "draft.csv"
        draft.write_text("id,customer,amount,day\n" + rows)
        draft.rename(self._landing / f"{self._files:06}.csv")
        tails = {program: stamps.Tail(self._stamped, program) for program in ("control", "worker")}
        self._system.client.dags.run("shop", "load")
        seen: dict[str, list[stamps.Stamp]] = {program: [] for program in tails}
        deadline = time.monotonic() + _LONGEST_WAIT
        while sum(stamp.name == _RECORD for stamp in seen["control"]) < 2:  # the input's version, and the one behind it
            self._system.check_alive()
            if time.monotonic() > deadline:
                raise BenchFailed(f"no version within {_LONGEST_WAIT:.0f} s: {self._errors()}; the logs are in {self._system.folder}")
            time.sleep(0.005)
            for program, tail in tails.items():
                seen[program] += tail.new()
        return _walked(seen)

    def _errors(self) -> str:
        failed = self._system.client.tasks.list(state=TaskState.FAILED).items
        return f"{len(failed)} tasks failed" if failed else "and no task has failed"


def _walked(seen: dict[str, list[stamps.Stamp]]) -> dict[str, float]:
    """From the first version's commit, step by step, to the second one's."""
    before = next(stamp.ns for stamp in seen["control"] if stamp.name == _RECORD)
    started = next(stamp.ns for stamp in seen["worker"] if stamp.name == "operator_started" and stamp.ns > before)
    parts: dict[str, float] = {}
    for name, program, moment in _WALK:
        times = [stamp.ns for stamp in seen[program] if stamp.name == moment]
        # Polls that found nothing commit too: the claim is the last one before the operator.
        at = times[bisect_right(times, started) - 1] if name == "claim" else next(ns for ns in times if ns > before)
        parts[name] = (at - before) / 1e6
        before = at
    return parts


def _bare(spark: BareSpark, ours: _Ours, folder: Path) -> Contender:
    def run(n: int) -> Measured:
        files = ours.files()
        samples = [spark.do("sql", files=files, query=QUERY, folder=str(folder / "bare"))["seconds"] * 1000 for _ in range(n)]
        return Measured(n, sum(samples) / 1000, tuple(samples))

    return Contender("bare warm session", version("pyspark"), run, is_limit=True)


def _fresh(ours: _Ours, folder: Path) -> Contender:
    def run(n: int) -> Measured:
        """Runs once, whatever the number: it is ten times as slow."""
        start = time.perf_counter()
        once(folder / "fresh.log", "sql", files=ours.files(), query=QUERY, folder=str(folder / "fresh"))
        seconds = time.perf_counter() - start
        return Measured(1, seconds, (seconds * 1000,))

    return Contender("fresh process", version("pyspark"), run)


ROW = Row(
    "spark_task",
    "a small Spark job through the platform: from the commit of an event to the commit of the version that it led to",
    (Figure("task p50", "ms", lambda run: percentile(run.samples_ms, 0.5), more_is_better=False, goal=850, above_limit=150),),
    {"small": 5, "full": 20},
    contenders,
)
