"""The warm host as a real process, spoken to through its pipes as a worker's wrapper does."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil
import pytest
from support.orders import order_of
from support.sizes import full

from tracelake_sdk.tasks.operator_files import OperatorOutcome

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

PATIENCE_S = 240.0
ENDLESS = "SELECT sum(id % 7) AS n FROM range(0, 9000000000000000, 1, 1)"  # on one core


class HostProcess:
    """A host and the lines it said."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.folder = folder
        self.errors = folder / "stderr"
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tracelake_spark.host", "--memory", "600m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={"PATH": os.environ["PATH"], "HOME": str(folder)} | environment, cwd=folder, text=True,
            )
        assert self.process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True)
        self._listener.start()
        self.ready: dict[str, Any] = self.until("ready")["ready"]

    def _listen(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def until(self, word: str, run: str | None = None) -> dict[str, Any]:
        """The next line with this word, of this run; others are passed over."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            assert line is not None, f"the host ended: {self.errors.read_text()}"
            if word in line and (run is None or line[word] == run):
                return line

    def send(self, **line: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def run(self, run: str, query: str, operator: str = "sql", **more: Any) -> None:
        folder = self.folder / run
        folder.mkdir()
        order = order_of(folder, operator, {"query": query}, **more)
        (folder / "order.json").write_text(order.model_dump_json())
        self.send(run=run, order=str(folder / "order.json"))

    def outcome(self, run: str) -> OperatorOutcome:
        return OperatorOutcome.model_validate_json((self.folder / run / "outcome.json").read_text())

    def done(self, run: str) -> OperatorOutcome:
        assert self.until("ended", run) == {"ended": run, "poisoned": False}
        return self.outcome(run)

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)


@contextmanager
def a_host(folder: Path, *arguments: str, **environment: str) -> Iterator[HostProcess]:
    host = HostProcess(folder, *arguments, **environment)
    try:
        yield host
    finally:
        host.process.kill()
        with host.process:  # closes its pipes
            pass


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcess]:
    """The host of most tests; it ends well, and has said nothing on stderr."""
    with a_host(tmp_path_factory.mktemp("host")) as running:
        yield running
        assert running.end() == 0
        assert running.errors.read_text() == ""
        assert not psutil.pid_exists(running.ready["jvm"])


def test_a_task_starts_reports_and_ends_with_a_complete_outcome(host: HostProcess) -> None:
    host.run("one", "SELECT id AS n FROM range(3)")
    assert host.until("started") == {"started": "one"}
    assert host.until("progress") == {"progress": "one", "fraction": None, "note": "query"}
    outcome = host.done("one")
    assert outcome.error is None
    assert [path.name for path in (host.folder / "one" / "staging").rglob("*") if path.is_file()] == [outcome.outputs[0].files[0].split("/")[1]]
    assert sorted(path.name for path in (host.folder / "one").iterdir()) == ["batches", "order.json", "outcome.json", "staging"]


@pytest.mark.proves("T3.6")
def test_of_two_tasks_side_by_side_one_is_canceled_and_the_other_is_not_disturbed(host: HostProcess) -> None:
    host.run("endless", ENDLESS)
    host.until("progress", "endless")
    host.run("beside", "SELECT count(*) AS n FROM range(1000)")
    assert host.done("beside").error is None
    assert not (host.folder / "endless" / "outcome.json").exists()
    host.run("after", "SELECT sum(id) AS n FROM range(100000)")
    host.send(cancel="endless")
    error = host.done("endless").error
    assert error is not None
    assert (error.error_class, error.retry) == ("canceled", False)
    assert host.until("ended", "after") if not (host.folder / "after" / "outcome.json").exists() else True
    assert host.outcome("after").error is None


def test_a_cancel_that_is_too_late_or_for_an_unknown_task_changes_nothing(host: HostProcess) -> None:
    host.send(cancel="nobody")
    host.run("early", "SELECT 1 AS n")
    assert host.done("early").error is None
    host.send(cancel="early")
    host.run("early-2", "SELECT 1 AS n")
    assert host.done("early-2").error is None


def test_a_task_finds_nothing_of_the_one_before(host: HostProcess) -> None:
    schema = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
    pinned = {"index": 0, "name": "orders", "version": 1, "table_schema": schema, "files": [], "scopes": None, "partition_by": None}
    host.run("with-input", "SELECT * FROM orders", inputs=[pinned])
    assert host.done("with-input").error is None
    for name in ("orders", "input_0"):
        host.run(f"without-{name}", f"SELECT * FROM {name}")
        error = host.done(f"without-{name}").error
        assert error is not None
        assert "TABLE_OR_VIEW_NOT_FOUND" in error.message


@pytest.mark.parametrize(
    ("name", "query", "error_class"),
    [
        ("failing", "SELECT cast(concat('a secret', id) AS INT) AS n FROM range(3)", "sql_failed"),
        ("unreadable", "SELECT 'a secret' FRM range(3) WHERE", "sql_invalid"),
        ("unknown-column", "SELECT a_secret FROM range(3)", "sql_invalid"),
        ("refused", "INSERT OVERWRITE DIRECTORY '/a/secret' USING csv SELECT 1", "sql_refused"),
    ],
)
def test_a_query_that_fails_leaves_no_word_of_itself_in_the_log(host: HostProcess, name: str, query: str, error_class: str) -> None:
    host.run(name, query)
    error = host.done(name).error
    assert error is not None
    assert (error.error_class, error.retry) == (error_class, False)
    assert host.errors.read_text() == ""


def test_an_unknown_operator_is_refused(host: HostProcess) -> None:
    host.run("unknown", "SELECT 1", operator="juggle")
    error = host.done("unknown").error
    assert error is not None
    assert (error.error_class, error.retry) == ("operator_unknown", False)


@pytest.mark.proves("T3.7")
def test_the_host_needs_no_variable_of_ours_and_its_stdout_is_its_own(host: HostProcess) -> None:
    names = psutil.Process(host.process.pid).environ()
    assert not [name for name in names if name.startswith("TRACELAKE")]
    assert set(host.ready) == {"pid", "jvm", "spark"}


def test_when_the_jvm_dies_its_tasks_say_so_and_the_host_ends(tmp_path: Path) -> None:
    with a_host(tmp_path) as host:
        host.run("first", ENDLESS)
        host.run("second", ENDLESS)
        host.until("progress", "second")
        os.kill(host.ready["jvm"], signal.SIGKILL)
        ended = sorted([host.until("ended"), host.until("ended")], key=lambda line: line["ended"])
        assert ended == [{"ended": "first", "poisoned": True}, {"ended": "second", "poisoned": True}]
        for run in ("first", "second"):
            error = host.outcome(run).error
            assert error is not None
            assert (error.error_class, error.retry) == ("spark_died", True)
        assert host.process.wait(PATIENCE_S) == 3


def test_a_host_that_ran_out_of_memory_says_that_it_is_poisoned(tmp_path: Path) -> None:
    with a_host(tmp_path) as host:
        host.run("large", "SELECT length(repeat('x', 2147483632)) AS n")
        assert host.until("ended") == {"ended": "large", "poisoned": True}
        error = host.outcome("large").error
        assert error is not None
        assert error.error_class in {"out_of_memory", "spark_died"}


def test_when_stdin_ends_what_runs_is_stopped_and_the_host_goes(tmp_path: Path) -> None:
    with a_host(tmp_path) as host:
        host.run("endless", ENDLESS)
        host.until("progress", "endless")
        assert host.end() == 0
        error = host.outcome("endless").error
        assert error is not None
        assert error.error_class == "canceled"
        assert host.errors.read_text() == ""


def test_an_unreadable_order_has_no_outcome_and_an_invalid_line_ends_the_host(tmp_path: Path) -> None:
    with a_host(tmp_path) as host:
        host.send(run="none", order=str(tmp_path / "nowhere.json"))
        assert host.until("ended") == {"ended": "none", "poisoned": False}
        host.send(walk="away")
        assert host.process.wait(PATIENCE_S) != 0


@pytest.mark.parametrize("moment", ["operator_start", "half_the_files", "all_files", "before_outcome"] if full() else ["half_the_files"])
def test_a_host_that_is_killed_at_a_named_moment_leaves_no_outcome(tmp_path: Path, moment: str) -> None:
    with a_host(tmp_path, TRACELAKE__CHAOS__KILL_AT=moment) as host:
        host.run("killed", "SELECT id, id AS n FROM range(10)", output={"partition_by": {"column": "n", "cursor": "integer", "range_size": 5}})
        assert host.process.wait(PATIENCE_S) == -signal.SIGKILL
        assert not (tmp_path / "killed" / "outcome.json").exists()
        placed = [path for path in (tmp_path / "killed" / "staging").glob("*_*/*.parquet") if not path.parent.name.startswith("_")]
        assert len(placed) == {"operator_start": 0, "half_the_files": 1, "all_files": 2, "before_outcome": 2}[moment]
