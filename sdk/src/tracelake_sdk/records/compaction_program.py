"""Compaction for repositories: a separate Spark program turns lines of JSON into sorted Parquet files.

The program gets two folders and nothing else: no token, no address. The repository compares the files with the rows that it passed,
moves the files into the table, and only then deletes the rows.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tracelake_sdk.errors.records import CompactionFailed
from tracelake_sdk.spark_settings import LocalSpark

ROWS_PER_FILE = 100_000
_PROGRAM = "tracelake_spark.compacting"
_MOST_SECONDS = 6 * 3600

ColumnType = Literal["string", "strings", "integer", "long", "timestamp"]
Launch = Callable[[Sequence[str]], Sequence[str]]


class CompactionOrder(BaseModel):
    """The input of the Spark program; a timestamp in the lines is microseconds since 1970."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str                    # file of lines of JSON
    target: str                    # folder for the files; must not exist
    columns: dict[str, ColumnType]
    sort: list[str]
    apart: str | None = None       # a column; each file has only one value of it
    rows_per_file: int = ROWS_PER_FILE
    spark: LocalSpark = Field(default_factory=LocalSpark)


class CompactionOutcome(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    files: list[str]  # relative to the target


@dataclass
class RowSum:
    """Count and hash of rows, independent of their order."""

    rows: int = 0
    _sum: int = 0

    def add(self, values: Iterable[Any]) -> None:
        """Adds one row, in the order of the columns; times as microseconds."""
        self.rows += 1
        spelt = json.dumps(list(values), separators=(",", ":"), ensure_ascii=False).encode()
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(spelt).digest())) % 2**256

    @property
    def hash(self) -> str:
        return f"{self._sum:064x}"


def as_is(command: Sequence[str]) -> Sequence[str]:
    return command


def compact(order: CompactionOrder, folder: Path, log: Path, *, environment: dict[str, str] | None = None, launch: Launch = as_is) -> list[Path]:
    """Runs the Spark program and returns the files that it wrote. `launch` may wrap its command; its output goes to `log`. Raises CompactionFailed."""
    if find_spec("tracelake_spark") is None:
        raise CompactionFailed("Compaction needs Spark, which is not installed here; install the package tracelake-spark.")
    order_file, outcome_file = folder / "order.json", folder / "outcome.json"
    order_file.write_text(order.model_dump_json())
    command = launch([sys.executable, "-m", _PROGRAM, str(order_file), str(outcome_file)])
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, check=False, timeout=_MOST_SECONDS
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompactionFailed(f"The Spark program did not run: {type(error).__name__}.") from None
    if code != 0 or not outcome_file.exists():
        raise CompactionFailed(f"The Spark program ended with {code} and without files; its output is in {log}.")
    outcome = CompactionOutcome.model_validate_json(outcome_file.read_bytes())
    return [Path(order.target) / name for name in outcome.files]
