"""`records`: metadata records in a service that holds n of them already: bulks, single ones, the newest, history; and in files.

The service is control as it ships, called over HTTP; every record is validated by its kind's schema. Its limit is the same bytes by
COPY, by single inserts and by index on a plain table, with no sameness, no schema and no HTTP around them. Its peers tell one fact
after the other into a store of their own, in their own process: Dagster's event log and MLflow's runs on Postgres, OpenLineage's client
into a file, which is compared with `emit`.
"""

import random
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import orjson
import psycopg

from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import BenchFailed, Figure, Measured, percentile
from bench.record_files import RecordFiles
from bench.record_service import CONTEXT, EACH, KIND, Line, bulk, fill, open_streams, record
from bench.rows import Row
from bench.rows.driving import peers
from bench.system import Commands, System, running_system
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.records.emitter import Emitter
from tracelake_sdk.testing import MemoryRepository

AT_ONCE = 5_000      # records of one request
CONNECTIONS = 4
STREAMS = 200
_IN_FILES = 100_000  # of n, as many as files hold


def _number(n: int, most: int) -> int:
    return max(1, min(n, most))


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    database = stage.database("tracelake")
    with running_system(stage.postgres, stage.folder, database, commands=Commands(worker=None)) as system, tempfile.TemporaryDirectory(dir=stage.folder) as folder:
        fill(stage.postgres.url(database), n)
        files = _Files(Path(folder), _number(n, _IN_FILES))
        ours = _Ours(system, files)
        yield [Contender(OURS, our_version(), ours.run, database), *peers(stage, "records"), *([_raw_sql(stage, n)] if stage.limits else [])]


class _Ours:
    def __init__(self, system: System, files: "_Files") -> None:
        self._system: System = system
        self._token: str = HomeFiles(system.folder).admin_token() or ""
        self._worker_token: str = HomeFiles(system.folder).worker_token() or ""
        self._files: _Files = files
        self._runs: int = 0

    def run(self, n: int) -> Measured:
        self._runs += 1
        lines = [Line(self._system.client.api_url, self._token) for _ in range(CONNECTIONS)]
        try:
            bulked, seconds = self._bulk(lines, _number(n, 40_000))
            single = self._single(lines, _number(n, 400))
            newest, history = self._latest(lines[0], n), self._history(lines[0], n)
        finally:
            for line in lines:
                line.close()
        beside = {"bulk": bulked / seconds, "single": single, "latest": percentile(newest, 0.5), "history": percentile(history, 0.5), "streams": self._beside_streams(n)}
        return Measured(n, seconds, tuple(newest), beside=beside | self._files.run(n))

    def _bulk(self, lines: list[Line], number: int) -> tuple[int, float]:
        """From several connections; what is sent is prepared before."""
        records = [record(place, self._runs) for place in range(number)]
        bodies = [bulk(records[first : first + AT_ONCE]) for first in range(0, number, AT_ONCE)]
        with ThreadPoolExecutor(len(lines)) as pool:
            start = time.perf_counter()
            answers = list(pool.map(lambda each: [each[0].post("/v1/records/bulk", body) for body in each[1]], zip(lines, _dealt(bodies, len(lines)), strict=True)))
            seconds = time.perf_counter() - start
        stored = sum(result["result"] == "stored" for answer in answers for body in answer for result in orjson.loads(body)["results"])
        if stored != number:
            raise BenchFailed(f"only {stored} of {number} records were stored")
        return number, seconds

    def _single(self, lines: list[Line], number: int) -> float:
        """Records a second, one a request, over all connections."""
        context = CONTEXT.model_dump_json()
        bodies = [f'{{"record":{record(place, self._runs + 1000).model_dump_json()},"context":{context}}}'.encode() for place in range(number)]
        with ThreadPoolExecutor(len(lines)) as pool:
            start = time.perf_counter()
            list(pool.map(lambda each: [each[0].post("/v1/records", body) for body in each[1]], zip(lines, _dealt(bodies, len(lines)), strict=True)))
            return number / (time.perf_counter() - start)

    def _latest(self, line: Line, n: int) -> list[float]:
        return _timed(_number(n, 500), lambda: _found(line.get("/v1/records/latest", **_any_target(n)), 1))

    def _history(self, line: Line, n: int) -> list[float]:
        return _timed(_number(n, 200), lambda: _found(line.get("/v1/records/history", limit=10, **_any_target(n)), min(n, 10)))

    def _beside_streams(self, n: int) -> float:
        """How many times as long a claim takes beside open streams as without; in turns, whatever else the machine does."""
        line = Line(self._system.client.api_url, self._worker_token)

        def claim() -> None:
            body = {"worker": "bench", "claim_id": f"{random.getrandbits(256):064x}"[:43], "runtime": "dispatcher", "room": {"default": 1}, "wait_s": 0}
            line.post("/internal/task-claim", orjson.dumps(body))

        alone: list[float] = []
        beside: list[float] = []
        for _ in range(3):
            alone += _timed(_number(n, 60), claim)
            with open_streams(self._system.client.api_url, self._token, _number(n, STREAMS)):
                beside += _timed(_number(n, 60), claim)
        line.close()
        return median(beside) / median(alone)


class _Files:
    """Records in folders of one machine, and records emitted into a spool."""

    def __init__(self, folder: Path, n: int) -> None:
        self._folder: Path = folder
        self._emitters: int = 0
        self._records: RecordFiles = RecordFiles(folder / "records", large=n)

    def run(self, n: int) -> dict[str, float]:
        emitted = {"emit": self._emit(_number(n, 5_000), fsync=False), "emit fsync": self._emit(_number(n, 300), fsync=True)}
        return self._records.run(stores=_number(n, 2_000), durable=_number(n, 200)) | emitted

    def _emit(self, number: int, *, fsync: bool) -> float:
        """A second, on disk when `emit` returns."""
        self._emitters += 1
        records = [record(place, self._emitters) for place in range(number)]
        emitter = Emitter(MemoryRepository("main"), self._folder / f"spool-{self._emitters}", fsync=fsync)
        start = time.perf_counter()
        for each in records:
            emitter.emit(each, CONTEXT)
        seconds = time.perf_counter() - start
        emitter.close()
        return number / seconds


def _raw_sql(stage: Stage, n: int) -> Contender:
    database = stage.database("limit")
    url = stage.postgres.fresh(database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE record (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, target text NOT NULL, at bigint NOT NULL, body json NOT NULL)")
        connection.execute("CREATE INDEX record_of_target ON record (target, at)")
        body = record(0, 0).model_dump_json()
        connection.execute("INSERT INTO record (target, at, body) SELECT 'filled_' || number / %s, number, %s::json FROM generate_series(0, %s) AS number", [EACH, body, n - 1])
    row = f"target\t1\t{body}\n".replace("\\", "\\\\")

    def run(n: int) -> Measured:
        with psycopg.connect(url, autocommit=True) as connection:
            number = _number(n, 40_000)
            start = time.perf_counter()
            for first in range(0, number, AT_ONCE):
                with connection.cursor() as cursor, cursor.copy("COPY record (target, at, body) FROM STDIN") as copy:
                    copy.write(row * min(AT_ONCE, number - first))
            seconds = time.perf_counter() - start
            insert = _timed(_number(n, 400), lambda: connection.execute("INSERT INTO record (target, at, body) VALUES ('target', 1, %s)", [body]))
            newest = _timed(_number(n, 500), lambda: connection.execute(_NEWEST, [f"filled_{random.randrange(max(1, n // EACH))}", 1]).fetchall())
            history = _timed(_number(n, 200), lambda: connection.execute(_NEWEST, [f"filled_{random.randrange(max(1, n // EACH))}", 10]).fetchall())
        beside = {"bulk": number / seconds, "single": 1000 / median(insert), "latest": percentile(newest, 0.5), "history": percentile(history, 0.5)}
        return Measured(n, seconds, tuple(newest), beside=beside)

    with psycopg.connect(url) as connection:
        version = f"Postgres {connection.info.server_version // 10000}"
    return Contender("raw SQL", version, run, database, is_limit=True)


_NEWEST = "SELECT body FROM record WHERE target = %s ORDER BY at DESC LIMIT %s"


def _any_target(n: int) -> dict[str, str]:
    return {"kind": KIND.name, "source_id": "bench", "schema": "public", "table": f"filled_{random.randrange(max(1, n // EACH))}"}


def _found(answer: bytes, number: int) -> None:
    found = orjson.loads(answer)
    if found is None or ("items" in found and len(found["items"]) != min(number, EACH)):
        raise BenchFailed("records that are there were not found")


def _dealt(bodies: Sequence[bytes], hands: int) -> list[list[bytes]]:
    return [list(bodies[hand::hands]) for hand in range(hands)]


def _timed(number: int, step: Callable[[], object]) -> list[float]:
    samples: list[float] = []
    for _ in range(number):
        begun = time.perf_counter()
        step()
        samples.append((time.perf_counter() - begun) * 1000)
    return samples


_figure = Figure.with_contenders

ROW = Row(
    "records",
    "metadata records over HTTP, judged by their kind, in a service that holds n; the newest of a target, its history; and in files",
    (
        _figure("bulk", "records/s", "bulk", goal=30_000, more=True, limit_there=220_000),
        _figure("single", "records/s", "single", goal=1_140, more=True),
        _figure("latest p50", "ms", "latest", goal=1),
        _figure("history of 10 p50", "ms", "history", goal=2),
        _figure("claim beside 200 streams", "times alone", "streams", goal=1.1),
        _figure("latest in files p50", "ms", "file latest large", goal=1),
        _figure("files opened, and the first latest", "ms", "file start large", goal=50),
        _figure("the same and 100 latest, beside 1,000 files", "times", "file growth", goal=1.5),
        _figure("stored in files", "records/s", "file store", goal=2_000, more=True),
        _figure("stored in files with fsync", "records/s", "file store fsync", goal=100, more=True),
        _figure("emit", "records/s", "emit", goal=5_000, more=True),
        _figure("emit with fsync", "records/s", "emit fsync", goal=500, more=True),
    ),
    {"small": 100_000, "full": 10_000_000},
    contenders,
)
