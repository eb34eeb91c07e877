"""`query`: an aggregate over a version of 200 Parquet files, sent over HTTP with pins and a receipt, beside DuckDB on the same list of files.

Both have a connection that was opened before the question came and was never used; ours is another process, locked to these files.
"""

import os
import secrets
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import BenchFailed, Figure, Measured, percentile
from bench.rows import Row
from bench.system import ROOT, Commands, System, running_system
from tracelake.embedded.ports import free_port
from tracelake.embedded.processes import Child
from tracelake.embedded.readiness import is_ready
from tracelake.storage.delta_schemas import delta_schema, schema_hash
from tracelake_sdk.datasets.measurements import FileStatistics, OutputMeasured, StagedFile
from tracelake_sdk.datasets.scopes import FullScope, folder_of
from tracelake_sdk.tasks import ClaimRequest, CompleteRequest, Completion, Outcome

FILES = 200
ROWS = 2_000  # of each file
_PAUSE = 0.06  # between two queries: the client has the answer, and the next connection is opened
_READY_SECONDS = 60
_SCHEMA = pa.schema([("id", pa.int64()), ("bucket", pa.string()), ("amount", pa.int64())])
_SELECT = "SELECT bucket, count(*) AS orders, sum(amount) AS amount FROM {} GROUP BY bucket ORDER BY bucket"
_DAG = """
name: bench
defaults: {domain: bench, owner: bench, timeout_seconds: 600}
jobs:
  - name: load
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: nowhere, format: parquet}
    outputs: [{layer: bronze, description: Rows as they came}]
    update_strategy: append
    unique_key: [id]
publish:
  orders: {job: load, output_index: 0}
"""


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    database = stage.database("tracelake")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running_system(stage.postgres, stage.folder, database, commands=Commands(worker=None), extra={"TRACELAKE__QUERY__URL": url, "TRACELAKE__LOCATIONS": '{"nowhere": "/nowhere"}'}) as system:
        files = _commit(system)
        with _query_process(system, port, url):
            system.client.query("SELECT 1")  # starts the engine
            time.sleep(_PAUSE)
            own = Contender(OURS, our_version(), lambda n: _ours(system, n), database)
            limits = [Contender("DuckDB, list of files", version("duckdb"), lambda n: _file_list(files, n), is_limit=True)] if stage.limits else []
            yield [own, *limits]


@contextmanager
def _query_process(system: System, port: int, url: str) -> Generator[Child]:
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("TRACELAKE")}
    variables = {"TRACELAKE_HOME": str(system.folder), "TRACELAKE__QUERY__API_URL": system.client.api_url, "TRACELAKE__QUERY__PORT": str(port)}
    command = (sys.executable, "-m", "tracelake.main", "query")
    with Child("query", command, log=system.folder / "query.log", folder=ROOT, environment=kept | variables) as process:
        deadline = time.monotonic() + _READY_SECONDS
        while not is_ready(url):
            if process.exit_code is not None or time.monotonic() > deadline:
                raise BenchFailed(f"the query process did not become ready; its log is {process.log}")
            time.sleep(0.05)
        yield process


def _commit(system: System) -> list[str]:
    """One version of many files; their paths."""
    system.client.dags.deploy(_DAG)
    system.client.dags.run("bench", "load")
    request = ClaimRequest(worker="bench", claim_id=secrets.token_urlsafe(32), runtime="spark", room={"default": 1}, wait_s=5)
    [task] = system.as_worker.claim(request).claimed
    staged = task.payload.outputs[0].staged
    if staged is None:
        raise BenchFailed("a task that writes files was handed out without a place for them")
    lake = system.folder / "lake"
    folder = lake / staged.staging / folder_of(FullScope())
    folder.mkdir(parents=True)
    files = [_file(folder / f"part-{number:03}.parquet", number, lake / staged.location) for number in range(FILES)]
    schema = delta_schema(_SCHEMA)
    measured = OutputMeasured(
        index=0, files=files, scopes=[FullScope()], table_schema=schema, schema_hash=schema_hash(schema), rows=FILES * ROWS, bytes=sum(f.size for f in files)
    )
    report = Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=task.payload.base, outputs=[measured], state={"rows": FILES * ROWS})
    [answer] = system.as_worker.complete(CompleteRequest(items=[report])).results
    deadline = time.monotonic() + _READY_SECONDS
    while system.client.datasets.get("orders").version is None:
        if time.monotonic() > deadline:
            raise BenchFailed(f"the version was not recorded (its report was answered with {answer.result}); the logs are in {system.folder}")
        time.sleep(0.05)
    return [str(lake / staged.location / file.path) for file in files]


def _file(path: Path, number: int, location: Path) -> StagedFile:
    low = number * ROWS
    ids = list(range(low, low + ROWS))
    pq.write_table(pa.table([ids, [f"bucket {id % 7}" for id in ids], [id % 1000 for id in ids]], _SCHEMA), path)
    return StagedFile(
        path=str(path.relative_to(location)), size=path.stat().st_size, rows=ROWS, scope=FullScope(), seal="sealed", key_min=low, key_max=low + ROWS - 1,
        statistics=FileStatistics(),
    )  # fmt: skip


def _ours(system: System, n: int) -> Measured:
    samples: list[float] = []
    inside: list[float] = []
    for _ in range(n):
        time.sleep(_PAUSE)
        start = time.perf_counter()
        answer = system.client.queries.answer(_SELECT.format("orders"))
        samples.append((time.perf_counter() - start) * 1000)
        inside.append(answer.receipt.milliseconds)
        if len(answer.rows) != 7 or answer.receipt.pins[0].version != 1:
            raise BenchFailed("the answer is not that of the version")
    parts = {"from question to receipt in the query process": median(inside), "the way there and back": median(samples) - median(inside)}
    return Measured(n, sum(samples) / 1000, tuple(samples), parts_ms=parts)


def _file_list(files: list[str], n: int) -> Measured:
    samples: list[float] = []
    for _ in range(n):
        connection: Any = duckdb.connect(":memory:")
        time.sleep(_PAUSE)
        start = time.perf_counter()
        rows = connection.execute(_SELECT.format(f"read_parquet({files!r}, hive_partitioning = false)")).fetchall()
        samples.append((time.perf_counter() - start) * 1000)
        connection.close()
        if len(rows) != 7:
            raise BenchFailed("DuckDB read something else")
    return Measured(n, sum(samples) / 1000, tuple(samples))


ROW = Row(
    "query",
    f"milliseconds of one aggregate over a pinned version of {FILES} Parquet files, from question to answer with its receipt",
    (
        Figure("p50", "ms", lambda run: percentile(run.samples_ms, 0.5), more_is_better=False, goal=1.1 * 42 + 10, limit_factor=1.1, above_limit=10),
        Figure("p99", "ms", lambda run: percentile(run.samples_ms, 0.99), more_is_better=False, goal=2 * (1.1 * 42 + 10), limit_factor=1.1, above_limit=10),
    ),
    {"small": 50, "full": 300},
    contenders,
)
