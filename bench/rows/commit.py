"""`commit`: from a completion to its visible version: decision, freeze, put, record, events and the tasks behind them.

Control is the process as it ships, with a clock at the ends of its steps. The row is the worker: its files lie ready and what is in
them is known, so that nothing but control is measured. Single changes come one after the other, each when the one before is
visible; grouped ones come from several connections at once.
"""

import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from deltalake import CommitProperties, DeltaTable
from deltalake.schema import Schema
from deltalake.transaction import AddAction

from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import BenchFailed, Figure, Measured, percentile
from bench.played_worker import ROWS, PlayedWorker
from bench.programs import stamps
from bench.rows import Row
from bench.system import STAMPED_CONTROL, Commands, System, running_system
from tracelake.storage.local import LocalStorage

CONNECTIONS = 24
AT_ONCE = 96      # changes that wait for their decision together, as many as a line may have unrecorded
_LONGEST_WAIT = 120.0
_STEPS = {"decide": "complete:after_commit", "freeze": "freeze:after_commit", "put": "put:answered", "record": "record:after_commit"}
_DAG = """
name: {name}
defaults: {{domain: bench, owner: bench, timeout_seconds: 600}}
jobs:
  - name: start
    activation: source
    source: {{kind: manual}}
    runtime: dispatcher
    operator: emit
    config: {{cursor: integer}}
    outputs: [{{layer: bronze, description: Cursors}}]
  - name: products
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: nowhere, format: parquet}}
    outputs: [{{layer: bronze, description: What rows are joined with}}]
    update_strategy: append
    unique_key: [id]
  - name: load
    activation: reactive
    inputs: [{{from: {{job: start, output: 0}}}}, {{from: {{job: products, output: 0}}, trigger: false}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM input_1}}
    outputs: [{{layer: silver, description: Rows of each cursor, partition_by: {{column: batch, cursor: integer}}}}]
    update_strategy: append
    unique_key: [id]
  - name: hear
    activation: reactive
    inputs: [{{from: {{job: load, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: noop
publish:
  {name}: {{job: load, output_index: 0}}
"""


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    database = stage.database("tracelake")
    folder = stage.folder / f"{database}-stamps"
    folder.mkdir()
    environment = {stamps.FOLDER: str(folder), stamps.MOMENTS: ",".join(_STEPS.values()), "TRACELAKE__TASKS__LEASE_SECONDS": "600", "TRACELAKE__LOCATIONS": '{"nowhere": "/nowhere"}'}
    with running_system(stage.postgres, stage.folder, database, commands=Commands(STAMPED_CONTROL, None), extra=environment) as system:
        ours = _Ours(system, folder, PlayedWorker(system))
        ours.run(min(n, 20))
        others = [_delta_rs(stage.folder), _log_entry(stage.folder)] if stage.limits else []
        yield [Contender(OURS, our_version(), ours.run, database), *others]


class _Ours:
    def __init__(self, system: System, stamped: Path, worker: PlayedWorker) -> None:
        self._system: System = system
        self._stamped: Path = stamped
        self._worker: PlayedWorker = worker
        self._tables: int = 0

    def run(self, n: int) -> Measured:
        single, parts = self._single(n)
        grouped, entries = self._grouped(n)
        seconds = sum(single) / 1000
        return Measured(n, seconds, tuple(single), beside={"changes": n / grouped, "changes a log entry": n / entries}, parts_ms=parts)

    def _single(self, n: int) -> tuple[list[float], dict[str, float]]:
        """Milliseconds of each, from before its report is sent to the commit that made it visible; and where they went."""
        dag = self._table(n)
        samples: list[float] = []
        parts: dict[str, list[float]] = {name: [] for name in _STEPS}
        tail = stamps.Tail(self._stamped, "control")
        for _ in range(n):
            [task] = self._worker.take(1)  # a base that is as new as it can be, as a worker's is
            report = self._worker.report(task)
            sent = time.monotonic_ns()
            self._worker.complete([report])
            seen = self._until(tail, recorded=1)
            before = sent
            for name, moment in _STEPS.items():
                # The first one after the previous step: the process that moved the line checks once more when it is done, and that check is recorded too.
                at = next(stamp.ns for stamp in seen if stamp.name == moment and stamp.ns > before)
                parts[name].append((at - before) / 1e6)
                before = at
            samples.append((before - sent) / 1e6)
        self._check(dag, n, entries=n)
        return samples, {name: median(values) for name, values in parts.items()}

    def _grouped(self, n: int) -> tuple[float, int]:
        """Seconds that n changes took of which up to AT_ONCE were under way together, and how many log entries they became."""
        dag = self._table(n)
        seconds = 0.0
        entries = 0
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            for first in range(0, n, AT_ONCE):
                reports = [self._worker.report(task) for task in self._worker.take(min(AT_ONCE, n - first))]
                tail = stamps.Tail(self._stamped, "control")
                start = time.perf_counter()
                list(pool.map(self._worker.complete_each, [reports[number::CONNECTIONS] for number in range(CONNECTIONS)]))
                entries += self._until_all_visible(tail, dag, first + len(reports))
                seconds += time.perf_counter() - start
        self._check(dag, n, entries=entries)
        return seconds, entries

    def _table(self, n: int) -> str:
        """A DAG whose table is empty, with n waiting tasks; each change creates a task for its subscriber, which never runs."""
        self._tables += 1
        dag = f"bench_{self._tables}"
        self._system.client.dags.deploy(_DAG.format(name=dag))
        self._system.client.dags.pause(dag, "hear")
        self._system.client.dags.run(dag, "products")
        tail = stamps.Tail(self._stamped, "control")
        self._worker.complete([self._worker.report(task) for task in self._worker.take(1)])
        self._until(tail, recorded=1)
        self._worker.tell(dag, range(n))
        return dag

    def _until(self, tail: stamps.Tail, *, recorded: int) -> list[stamps.Stamp]:
        """What control noted, up to this many commits that made something visible."""
        seen: list[stamps.Stamp] = []
        deadline = time.monotonic() + _LONGEST_WAIT
        while sum(stamp.name == _STEPS["record"] for stamp in seen) < recorded:
            self._system.check_alive()
            if time.monotonic() > deadline:
                raise BenchFailed(f"a change did not become visible within {_LONGEST_WAIT:.0f} s; the logs are in {self._system.folder}")
            time.sleep(0.0005)  # a look costs a read of a file
            seen += tail.new()
        return seen

    def _until_all_visible(self, tail: stamps.Tail, dag: str, places: int) -> int:
        """How many log entries it took."""
        entries = 0
        while self._recorded(dag) < places:
            entries += sum(stamp.name == _STEPS["record"] for stamp in self._until(tail, recorded=1))
        return entries + sum(stamp.name == _STEPS["record"] for stamp in tail.new())

    def _recorded(self, dag: str) -> int:
        return self._system.value(
            "SELECT line.recorded FROM line JOIN generation ON generation.id = line.generation_id JOIN job_key ON job_key.id = generation.job_key_id"
            " JOIN dag ON dag.id = job_key.dag_id WHERE dag.name = %s AND job_key.name = 'load'",
            dag,
        )

    def _check(self, dag: str, n: int, *, entries: int) -> None:
        """Checks the result: all rows exist, in as many versions as log entries, and all events were emitted."""
        found = self._system.client.datasets.get(dag)
        emitted = self._system.value(
            "SELECT count(*) FROM task JOIN dag ON dag.id = task.dag_id WHERE dag.name = %s AND task.waits = 'paused'", dag
        )
        if (found.row_count, found.version, emitted) != (n * ROWS, entries, n):
            raise BenchFailed(f"{n} changes became {found.row_count} rows in {found.version} versions (and {entries} log entries), and {emitted} events were emitted")


def _log_entry(folder: Path) -> Contender:
    """The limit: an entry of the same size put where Delta readers look, durably, and nothing around it."""
    body = b"x" * 900

    def run(n: int) -> Measured:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            storage = LocalStorage(Path(place), lambda moment: None)
            return _timed(n, lambda number: storage.put_new(f"table/_delta_log/{number:020}.json", body, datetime.now(UTC)))

    return Contender("own log entry with fsync", our_version(), run)


def _delta_rs(folder: Path) -> Contender:
    """What delta-rs itself takes to commit a file that is there, without gate, ledger and fsync: the yardstick for another machine."""

    def run(n: int) -> Measured:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            schema = Schema.from_json('{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"value","type":"string","nullable":true,"metadata":{}}]}')
            table = DeltaTable.create(place, schema)

            def commit(number: int) -> None:
                add = AddAction(f"part-{number}.parquet", 1500, {}, time.time_ns() // 1_000_000, True, '{"numRecords":100,"minValues":{"id":0},"maxValues":{"id":99}}')
                table.create_write_transaction([add], "append", schema, commit_properties=CommitProperties())

            return _timed(n, commit)

    return Contender("delta-rs", version("deltalake"), run, is_limit=True)


def _timed(n: int, step: Callable[[int], object]) -> Measured:
    samples: list[float] = []
    start = time.perf_counter()
    for number in range(n):
        begun = time.perf_counter()
        step(number)
        samples.append((time.perf_counter() - begun) * 1000)
    return Measured(n, time.perf_counter() - start, tuple(samples))


def _at(share: float, *, goal: float, limit_there: float) -> Figure:
    return Figure(f"visible p{share * 100:.0f}", "ms", lambda run: percentile(run.samples_ms, share), more_is_better=False, goal=goal, limit_there=limit_there)


ROW = Row(
    "commit",
    "from a completion to its visible version: decision, freeze, put, record, events; single ones, and many at once",
    (
        _at(0.5, goal=25, limit_there=22),
        _at(0.99, goal=100, limit_there=22),
        Figure("commits", "commits/s", lambda run: run.rate, more_is_better=True, goal=50),
        Figure("changes", "changes/s", lambda run: run.beside.get("changes", run.rate), more_is_better=True, goal=500),
    ),
    {"small": 100, "full": 500},
    contenders,
)
