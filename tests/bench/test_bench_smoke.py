"""Each row of the benchmark runs at a tiny size: what it says must have the shape that readers of its lines rely on."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench import results
from bench.__main__ import ROWS
from bench.contenders import Stage
from bench.figures import Figure, Measured, Spread, percentile, ratios, spell
from bench.gate_rules import BROKEN, COLUMNS, RULES, name_of
from bench.peer_environments import known_peers
from bench.programs import stamps
from bench.running import run_row
from bench.system import Postgres

TINY = {"tasks": 30, "latency": 4, "chain": 5, "fan-out": 30, "idle": 1, "spark_task": 1, "gate": 1000, "commit": 6, "query": 3, "records": 120}
LIMITS = {"tasks": 2, "latency": 1, "chain": 1, "fan-out": 1, "idle": 0, "spark_task": 2, "gate": 3, "commit": 2, "query": 1, "records": 1}
ALONE = {"gate": 2, "records": 8}  # figures that nobody else has
TIMED = {"latency", "spark_task", "commit", "query", "records"}  # where each one is timed by itself
RATE = Figure("rate", "tasks/s", lambda run: run.rate, more_is_better=True, goal=3000, limit_there=60_000)
TIME = Figure("time", "s", lambda run: run.seconds, more_is_better=False, goal=0.5)


SPARK = (pytest.mark.proof, pytest.mark.spark, pytest.mark.xdist_group("spark"))  # each starts a system with a Spark of its own


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Not durable: a smoke run measures nothing."""
    with Postgres(tmp_path_factory.mktemp("bench"), durable=False) as running:
        yield running


@pytest.mark.parametrize("row", [pytest.param(row, marks=SPARK if row in ("spark_task", "gate") else ()) for row in ROWS])
def test_a_row_runs_and_leaves_its_lines(row: str, postgres: Postgres, tmp_path: Path):
    # Tests fetch nothing: a peer takes part where `make bench` has installed it, and in one row, which shows that it runs.
    peers = tuple(peer for peer in known_peers() if peer.installed and row in peer.rows) if row == "fan-out" else ()
    outcome = run_row(ROWS[row], Stage(postgres, tmp_path, peers), n=TINY[row], runs=1, say=lambda line: None)
    file = tmp_path / "results.jsonl"
    results.write(file, results.lines(outcome, size="small", at="2024-01-10T05:00:00+00:00", commit=None))
    lines = [json.loads(line) for line in file.read_text().splitlines()]

    assert len(lines) == len(ROWS[row].figures) * (1 + LIMITS[row] + len(peers)) - ALONE.get(row, 0) * LIMITS[row]
    assert {peer.name for peer in peers} <= {line["against"] for line in lines}
    for line in lines:
        assert {"row", "ours", "against", "ratio", "n", "seconds", "rate", "p50_ms", "p99_ms", "version"} <= line.keys()
        assert line["row"] == row
        assert line["n"] == TINY[row]
        assert line["ours"] > 0 or row == "idle"
        assert line["seconds"] > 0
        assert line["version"]
        assert (line["against"] is None) == (line["ratio"] is None)
        assert line["ratio"] is None or line["ratio"] > 0 or row == "latency"  # on a busy machine a listener may wake before the stamp of who woke it
        assert (line["p50_ms"] is not None) == (row in TIMED)
    for figure in ROWS[row].figures:
        assert f"{figure.name}, {figure.unit}" in results.table(outcome)
    if row == "latency":
        [run] = outcome.ours.measured
        assert len(run.samples_ms) == len(run.woken_ms) == TINY["latency"]
        assert all(sample > 0.1 for sample in run.samples_ms + run.woken_ms)  # between the two lie a claim and an answer
    alive = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child.cmdline() for child in alive if "tracelake.main" in child.cmdline()]


def test_every_peer_is_pinned_and_has_its_program():
    assert {peer.name for peer in known_peers()} == {"procrastinate", "dbos", "great_expectations", "soda-core-spark-df", "pandera", "cuallee", "dagster", "mlflow-skinny", "openlineage-python"}
    for peer in known_peers():
        assert f"{peer.name}=={peer.version}" in peer.requirements
        assert all("==" in requirement for requirement in peer.requirements)
        assert peer.rows <= ROWS.keys()
        assert (Path(results.__file__).parent / "peer_programs" / peer.program).is_file()


def test_a_ratio_above_one_means_that_ours_is_better():
    fast, slow = [Measured(100, 1.0)] * 3, [Measured(100, 4.0)] * 3
    assert ratios(RATE, fast, slow) == Spread(4, 4, 4)
    assert ratios(TIME, fast, slow) == Spread(4, 4, 4)
    assert ratios(TIME, slow, fast) == Spread(0.25, 0.25, 0.25)


def test_runs_are_compared_with_the_run_beside_them():
    ours = [Measured(100, seconds) for seconds in (1, 2, 10)]
    theirs = [Measured(100, seconds) for seconds in (2, 4, 20)]
    assert ratios(RATE, ours, theirs) == Spread(2, 2, 2)


def test_a_goal_goes_by_the_limit_of_this_machine():
    assert RATE.goal_here(30_000) == 1500
    assert RATE.met(1600, RATE.goal_here(30_000))
    assert not RATE.met(1600, RATE.goal)
    assert TIME.goal_here(7) == TIME.goal


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.99, 4), (0.25, 1), (0.26, 2)])
def test_a_percentile_is_a_sample(share: float, expected: float):
    assert percentile([4, 1, 3, 2], share) == expected


@pytest.mark.parametrize(("value", "text"), [(12345.6, "12,300"), (2.414, "2.41"), (0.03123, "0.0312"), (0, "0"), (1000, "1,000"), (0.5, "0.5"), (999.9, "1,000")])
def test_numbers_are_spelled_with_three_digits(value: float, text: str):
    assert spell(value) == text


def test_a_goal_above_the_limit_moves_with_the_limit():
    task = Figure("task", "ms", lambda run: run.seconds * 1000, more_is_better=False, goal=850, above_limit=150)
    assert task.goes_by_limit
    assert task.goal_here(2000) == 2150


def test_a_tail_prints_complete_lines_once(tmp_path: Path):
    tail = stamps.Tail(tmp_path, "control")
    assert tail.new() == []
    with (tmp_path / "control").open("a") as file:
        file.write("1 first\n2 sec")
        file.flush()
        assert tail.new() == [stamps.Stamp("first", 1)]
        file.write("ond\n")
    assert tail.new() == [stamps.Stamp("second", 2)]
    assert tail.new() == []


def test_the_twenty_rules_are_what_the_row_says():
    kinds = [rule["rule"] for rule in RULES]
    assert {kind: kinds.count(kind) for kind in kinds} == {"NOT_NULL": 8, "RANGE": 5, "ENUM": 3, "REGEX": 2, "UNIQUE": 2}
    assert {rule["column"] for rule in RULES} == set(COLUMNS)
    assert {name_of(rule) for rule in RULES} > BROKEN
