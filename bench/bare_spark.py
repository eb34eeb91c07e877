"""The program `bench.programs.bare_spark`: a warm process for many requests, or a new one for one request."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.figures import BenchFailed
from bench.system import ROOT

_COMMAND = (sys.executable, "-m", "bench.programs.bare_spark")


class BareSpark:
    """One process with one session, as long as the block."""

    def __init__(self, log: Path) -> None:
        self._log: Path = log

    def __enter__(self) -> Self:
        self._errors = self._log.open("ab")
        self._process = subprocess.Popen(_COMMAND, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._process.communicate(timeout=30)  # its input ends, and so does it
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._errors.close()

    def do(self, what: str, **request: Any) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise BenchFailed("Spark has no pipes")
        self._process.stdin.write(json.dumps({"do": what, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BenchFailed(f"Spark ended; its log is {self._log}")
        return json.loads(line)


def once(log: Path, what: str, **request: Any) -> None:
    """A process that does one thing and ends."""
    with log.open("ab") as errors:
        done = subprocess.run([*_COMMAND, json.dumps({"do": what, **request})], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, check=False)
    if done.returncode != 0:
        raise BenchFailed(f"a fresh Spark ended with {done.returncode}; its log is {log}")
