"""`python -m bench [ROW …]`: runs the rows, prints a table, writes bench/results/<time>.jsonl."""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from bench import results
from bench.contenders import Stage
from bench.figures import LEAST_RUNS, BenchFailed
from bench.peer_environments import known_peers
from bench.rows import Row, chain, commit, fan_out, gate, idle, latency, query, records, spark_task, tasks
from bench.running import Outcome, run_row
from bench.system import ROOT, Postgres
from tracelake_sdk.errors import TracelakeError

ROWS: Mapping[str, Row] = MappingProxyType({module.ROW.name: module.ROW for module in (tasks, latency, chain, fan_out, idle, spark_task, gate, commit, query, records)})


def main() -> int:
    arguments = _arguments()
    rows = [ROWS[name] for name in arguments.rows or ROWS]
    folder = Path(tempfile.mkdtemp(prefix="tracelake-bench-"))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what was started is ended on the way out
    try:
        outcomes = _run(arguments, rows, folder)
    except (BenchFailed, TracelakeError) as failure:
        _say("")
        print(f"bench: {failure}", file=sys.stderr)
        print(f"bench: databases and logs of this run were left in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    if len(outcomes) > 1:
        print(results.summary(outcomes))
    return 0


def _run(arguments: argparse.Namespace, rows: list[Row], folder: Path) -> list[Outcome]:
    now = datetime.now(UTC)
    path = ROOT / "bench" / "results" / f"{now:%Y%m%dT%H%M%SZ}.jsonl"
    peers = tuple(peer for peer in known_peers() if any(row.name in peer.rows for row in rows)) if arguments.peers else ()
    for peer in peers:
        peer.install(_say)
    outcomes: list[Outcome] = []
    (folder / "postgres").mkdir()
    with Postgres(folder / "postgres") as postgres:
        for row in rows:
            place = folder / row.name
            place.mkdir()
            n = arguments.n or row.sizes[arguments.size]
            outcome = run_row(row, Stage(postgres, place, peers), n=n, runs=arguments.runs, say=_say)
            _say("")
            print(results.table(outcome), flush=True)
            results.write(path, results.lines(outcome, size=arguments.size, at=now.isoformat(), commit=_commit()))
            outcomes.append(outcome)
    print(f"written to {path.relative_to(ROOT)}\n")
    return outcomes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The benchmark of Tracelake, against its limits and its peers.")
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[[], *ROWS], help=f"which rows to run: {', '.join(ROWS)} (all of them by default)")
    parser.add_argument("--size", choices=("small", "full"), default="small", help="small for every day (the default), or full")
    parser.add_argument("--runs", type=int, default=LEAST_RUNS, help=f"how many times each is measured ({LEAST_RUNS} by default)")
    parser.add_argument("--n", type=int, help="another n than that of the size, for trying something out")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="ours and the limits alone; fetches nothing")
    found = parser.parse_args()
    if found.runs < 1 or (found.n is not None and found.n < 1):
        parser.error("--runs and --n are whole numbers from 1 on")
    return found


def _say(line: str) -> None:
    """On a terminal one line that changes; elsewhere a line each."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    elif line:
        print(line, file=sys.stderr, flush=True)


def _commit() -> str | None:
    """What was measured, where this is a clone."""
    revision = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return revision.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
