"""The measuring process from outside: lines in, lines out, and nothing of an operator's in it."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tracelake.worker.measuring.contract import CHAOS_VARIABLE, MeasureOrder, MeasureResult
from tracelake_sdk.rules import NotNull

from .benches import Bench, rule

COMMAND = [sys.executable, "-m", "tracelake.worker.measuring"]


def order(bench: Bench, id: str) -> MeasureOrder:
    attempt = bench.attempt()
    output = bench.output(attempt, [bench.write(attempt, "a", pa.table({"id": [1, None]}))], rules=[rule(NotNull(column="id"))])
    return MeasureOrder(id=id, storage={"url": bench.root.resolve().as_uri()}, scratch=str(bench.folder / "scratch"), outputs=[output])


def asked(lines: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder)} | environment
    return subprocess.run(COMMAND, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, cwd=folder, env=clean, timeout=120, check=False)


@pytest.mark.proves("G2.5")
def test_each_line_is_answered_by_one_line_and_the_end_of_input_is_the_end(bench: Bench, tmp_path: Path):
    good = order(bench, "first")
    broken = order(bench, "second")
    (bench.table / "task-2/full/a.parquet").write_bytes(b"no parquet")
    said = asked([good.model_dump_json(), "nonsense", broken.model_dump_json(), good.model_copy(update={"id": "last"}).model_dump_json()], tmp_path)
    answers = [MeasureResult.model_validate_json(line) for line in said.stdout.splitlines()]
    assert said.returncode == 0
    assert [(answer.id, answer.refusal.error_class if answer.refusal else None) for answer in answers] == [
        ("first", None), ("", "unmeasurable"), ("second", "not_parquet"), ("last", None)
    ]
    assert answers[0].outputs == answers[3].outputs
    assert answers[0].outputs[0].rules[0].violations == 1
    assert all(line.startswith("{") for line in said.stderr.splitlines())


@pytest.mark.parametrize("moment", ["measuring:sealed", "measuring:measured"])
def test_it_dies_at_the_named_moment(bench: Bench, tmp_path: Path, moment: str):
    wanted = order(bench, "first")
    said = asked([wanted.model_dump_json()], tmp_path, **{CHAOS_VARIABLE: moment})
    assert (said.returncode, said.stdout) == (-9, "")
    assert (bench.table / "task-1/full/a.parquet").stat().st_mode & 0o777 == 0o444
    again = asked([wanted.model_dump_json()], tmp_path)
    assert MeasureResult.model_validate_json(again.stdout).refusal is None


def test_storage_that_is_away_is_worth_another_try(bench: Bench, tmp_path: Path):
    away = {"url": "s3://bucket/lake", "endpoint": "http://127.0.0.1:9", "allow_http": True, "access_key_id": "x", "secret_access_key": "hidden", "timeout_seconds": 1}
    said = asked([order(bench, "first").model_copy(update={"storage": away}).model_dump_json()], tmp_path)
    refusal = MeasureResult.model_validate_json(said.stdout).refusal
    assert refusal is not None
    assert (refusal.error_class, refusal.retry) == ("storage_unavailable", True)
    assert "hidden" not in said.stdout + said.stderr


@pytest.mark.proves("G2.5")
def test_no_operator_and_no_control_is_ever_imported(tmp_path: Path):
    program = "import sys, tracelake.worker.measuring.process; print([name for name in sys.modules if name.startswith(('tracelake.control', 'tracelake_spark', 'pyspark', 'tracelake.worker.dispatcher.operators', 'psycopg'))])"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert said.stdout.strip() == "[]"
