"""`gate`: what twenty rules about freshly written rows take beside the writing: sealing, schema, statistics and every count.

Ours is the measuring process as the worker runs it, called as the worker calls it, over files that Spark has just written. The others
read the same rows from files that lie there: a scan by DuckDB, plain Spark in a warm session, and the peers, each in a warm session of
its own. Who is measured has first found every fault in a few rows that have some.
"""

import json
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from types import MappingProxyType

import duckdb

from bench.bare_spark import BareSpark
from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import BenchFailed, Figure, Measured
from bench.gate_rules import BROKEN, RULES, name_of, to_measure
from bench.peer_environments import Peer
from bench.rows import Row
from tracelake.chaos import Chaos
from tracelake.child_processes import BoundedLog, Starter, clean_environment
from tracelake.worker.measuring.contract import OutputToMeasure
from tracelake.worker.spark.measuring_process import MeasuringProcess
from tracelake_sdk.datasets.measurements import OutputMeasured, TableFile
from tracelake_sdk.datasets.scopes import FullScope, folder_of
from tracelake_sdk.home import default_home
from tracelake_sdk.rules import RuleScope, RuleToMeasure
from tracelake_sdk.tasks import StagedOutput
from tracelake_spark.java import find_java, launcher_home

LOCATION = "org/o/dataset/d/version/v"
THREADS = 2
_KEY = ["reference"]  # in no order, so that the bounds of every file meet those of every other


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    folder = stage.folder
    rows, faulty = folder / "rows", folder / "faulty"
    with BareSpark(folder / "spark.log") as spark, _measuring(folder) as measuring:
        spark.do("write", folder=str(faulty), rows=None)
        spark.do("write", folder=str(rows), rows=n)
        ours = _Ours(folder / "lake", spark, measuring, n)
        ours.prepare(faulty)
        _check("DuckDB", _by_duckdb(faulty))
        _check("plain Spark", spark.do("rules", folder=str(faulty), rules=RULES)["broken"])
        peers = [Contender(peer.name, peer.version, run, None) for peer, run in _peers(stage, rows, faulty)]
        yield [Contender(OURS, our_version(), ours.run), *peers, *(_limits(spark, folder, rows) if stage.limits else [])]


@contextmanager
def _measuring(folder: Path) -> Generator[MeasuringProcess]:
    """Started as a worker starts it, and warm."""
    process = MeasuringProcess(
        Starter(), storage={"url": (folder / "lake").resolve().as_uri()}, environment=clean_environment(os.environ), folder=folder / "scratch",
        log=BoundedLog(folder / "measuring.log"), chaos=Chaos(None),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.close()


class _Ours:
    def __init__(self, lake: Path, spark: BareSpark, measuring: MeasuringProcess, n: int) -> None:
        self._table: Path = lake / LOCATION
        self._scratch: Path = lake.parent / "scratch"
        self._spark: BareSpark = spark
        self._measuring: MeasuringProcess = measuring
        self._n: int = n
        self._attempts: count[int] = count(1)
        self._keyed: list[TableFile] = []    # a table of n rows whose keys are known
        self._append: Path = lake.parent / "append"

    def prepare(self, faulty: Path) -> None:
        """Finds the faults, and makes the table that is appended to."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        _check(OURS, _broken_of(self._measure(self._staged(sorted(faulty.glob("*.parquet"))), _rules(RULES))[0]))
        measured, _ = self._measure(self._written(self._n), [], unique_key=_KEY)
        self._keyed = [TableFile.model_validate(file.model_dump(include=set(TableFile.model_fields))) for file in measured.files]
        self._spark.do("append", folder=str(self._append), rows=max(self._n // 100, 1000), after=self._n)

    def run(self, n: int) -> Measured:
        attempt = self._written(n)
        measured, seconds = self._measure(attempt, _rules(RULES))
        if _broken_of(measured) or measured.rows != n or len(measured.rules) != len(RULES):
            raise BenchFailed(f"{len(measured.rules)} rules on {measured.rows} rows found {sorted(_broken_of(measured))}, and there is nothing to find")
        _, footers = self._measure(attempt, _rules([rule for rule in RULES if rule["rule"] in ("NOT_NULL", "RANGE")]))
        self._remove(attempt)
        unique = [to_measure({"rule": "UNIQUE", "column": _KEY[0]}, 0, RuleScope.TABLE)]
        files = sorted(self._append.glob("*.parquet"))
        _, alone = self._measure(self._staged(files), unique, unique_key=_KEY)
        _, appended = self._measure(self._staged(files), unique, unique_key=_KEY, current=self._keyed)
        return Measured(n, seconds, beside={"footers_ms": footers * 1000, "append_ms": appended * 1000, "append_ratio": appended / alone})

    def _written(self, n: int) -> str:
        """An attempt whose files Spark has just written, as an operator leaves them."""
        fresh = self._table.parent / "writing"
        self._spark.do("write", folder=str(fresh), rows=n)
        return self._staged(sorted(fresh.glob("*.parquet")), move=True)

    def _staged(self, files: Sequence[Path], *, move: bool = False) -> str:
        attempt = f"task-{next(self._attempts)}"
        folder = self._table / attempt / folder_of(FullScope())
        folder.mkdir(parents=True)
        for file in files:
            if move:
                file.rename(folder / file.name)
            else:
                (folder / file.name).write_bytes(file.read_bytes())
        return attempt

    def _remove(self, attempt: str) -> None:
        for file in (self._table / attempt).rglob("*.*"):
            file.unlink()

    def _measure(
        self, attempt: str, rules: list[RuleToMeasure], *, unique_key: Sequence[str] = (), current: Sequence[TableFile] = ()
    ) -> tuple[OutputMeasured, float]:
        """What was measured, and in how many seconds: the question and the answer are part of it."""
        root = self._table / attempt
        staged = StagedOutput(
            location=LOCATION, staging=f"{LOCATION}/{attempt}", everything=True, scopes=[], partition_by=None, table_schema=None, rules=rules, current=list(current)
        )
        output = OutputToMeasure(
            index=0, staged=staged, files=[str(file.relative_to(root)) for file in sorted(root.rglob("*.parquet"))], scopes=[FullScope()],
            unique_key=list(unique_key), update_strategy="append" if unique_key else "replace",
        )  # fmt: skip
        start = time.perf_counter()
        [measured] = self._measuring.measure(attempt, [output], scratch=self._scratch)
        return measured, time.perf_counter() - start


def _rules(given: list[dict[str, object]]) -> list[RuleToMeasure]:
    return [to_measure(rule, RULES.index(rule)) for rule in given]


def _broken_of(measured: OutputMeasured) -> set[str]:
    unmeasured = [found.error for found in measured.rules if found.violations is None]
    if unmeasured:
        raise BenchFailed(f"a rule could not be measured: {unmeasured[0]}")
    return {name_of(RULES[found.rule_id.int - 1]) for found in measured.rules if found.violations}


def _check(who: str, broken: Sequence[str] | set[str]) -> None:
    if set(broken) != BROKEN:
        raise BenchFailed(f"{who} found other faults than there are: {sorted(set(broken) ^ BROKEN)}")


def _limits(spark: BareSpark, folder: Path, rows: Path) -> list[Contender]:
    def write(n: int) -> Measured:
        return Measured(n, spark.do("write", folder=str(folder / "bare"), rows=n)["seconds"])

    def plain(n: int) -> Measured:
        return Measured(n, spark.do("rules", folder=str(rows), rules=RULES)["seconds"])

    def scan(n: int) -> Measured:
        start = time.perf_counter()
        _by_duckdb(rows)
        return Measured(n, time.perf_counter() - start)

    spark_version = version("pyspark")
    return [
        Contender("bare Spark write", spark_version, write, is_limit=True),
        Contender("DuckDB scan", version("duckdb"), scan),
        Contender("plain Spark", spark_version, plain),
    ]


def _by_duckdb(folder: Path) -> list[str]:
    """Every rule as SQL over the files: one scan for what concerns single rows, and a grouping for each unique column."""
    files = f"read_parquet('{folder}/*.parquet')"
    single = [rule for rule in RULES if rule["rule"] != "UNIQUE"]
    with duckdb.connect(config={"threads": THREADS}) as connection:
        counts = connection.execute(f"SELECT {', '.join(f'count(*) FILTER (WHERE {_condition(rule)})' for rule in single)} FROM {files}").fetchone() or ()
        broken = [name_of(rule) for rule, found in zip(single, counts, strict=True) if found]
        for rule in RULES:
            if rule["rule"] == "UNIQUE":
                column = rule["column"]
                twice = connection.execute(f"SELECT count(*) - count(DISTINCT {column}) FROM {files} WHERE {column} IS NOT NULL").fetchone()
                broken += [name_of(rule)] if twice and twice[0] else []
    return broken


def _condition(rule: dict[str, object]) -> str:
    """True for a row that breaks the rule, in DuckDB's SQL."""
    column = rule["column"]
    match rule["rule"]:
        case "NOT_NULL":
            return f"{column} IS NULL"
        case "RANGE":
            low, high = (f"DATE '{bound}'" if column == "day" else str(bound) for bound in (rule["low"], rule["high"]))
            return f"NOT ({column} BETWEEN {low} AND {high})"
        case "ENUM":
            return f"{column} NOT IN {rule['values']!r}".replace("[", "(").replace("]", ")")
        case _:
            return f"NOT regexp_full_match({column}, '{rule['pattern']}')"


def _peers(stage: Stage, rows: Path, faulty: Path) -> list[tuple[Peer, Callable[[int], Measured]]]:
    """Each gets the paths of the rows, the faulty rows and the rules, and the Java to use."""
    found = stage.peers_of("gate")
    if not found:
        return []
    rules = stage.folder / "rules.json"
    rules.write_text(json.dumps({"rules": RULES, "broken": sorted(BROKEN)}))
    java = find_java()
    home = java.path if java.origin == "wheel" else launcher_home(default_home(), java.path / "bin" / "java")
    variables = MappingProxyType({"PEER_ROWS": str(rows), "PEER_FAULTY": str(faulty), "PEER_RULES": str(rules), "JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"})
    return [(peer, partial(peer.run, "gate", variables=variables, log=stage.folder / f"{peer.name}.log")) for peer in found]


ROW = Row(
    "gate",
    "seconds that twenty rules (8 not null, 5 range, 3 enum, 2 regex, 2 unique) on rows of 8 columns take beside the writing",
    (
        Figure("20 rules", "s", lambda run: run.seconds, more_is_better=False, goal=2.8, limit_there=5.7),
        Figure.with_contenders("not null and range", "ms", "footers_ms", goal=50),
        Figure.with_contenders("unique after an append", "× the append", "append_ratio", goal=1.5),
    ),
    {"small": 1_000_000, "full": 10_000_000},
    contenders,
)
