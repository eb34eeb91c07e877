"""`tracelake query` and `tracelake replay` as a person calls them, and `tracelaked query` as a process of its own."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from support.databases import StateDatabase, fresh_database
from support.ports import free_port
from support.processes import Processes, running_processes, wait_until
from support.queries import QueryLake, query_lake

from tracelake_sdk.errors import QueryRefused, Unavailable
from tracelake_sdk.rules import RuleMeasurement

PROGRAM = Path(sys.executable).with_name("tracelake")


class Shell:
    def __init__(self, lake: QueryLake) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        self._environment = kept | {"TRACELAKE_HOME": str(lake.control.settings.home), "TRACELAKE_API_URL": lake.api_url}

    def __call__(self, *words: str, code: int = 0, stdin: bytes = b"", noted: bytes = b"") -> bytes:
        """The output; stderr has only what is `noted`."""
        answer = subprocess.run([PROGRAM, *words], capture_output=True, check=False, timeout=120, env=self._environment, input=stdin)
        assert answer.returncode == code, answer
        assert b"Traceback" not in answer.stderr
        assert code or answer.stderr == noted
        return answer.stdout if answer.stdout or not code else answer.stderr


@pytest.fixture(scope="module")
def lake(postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryLake]:
    with fresh_database(postgres) as database, query_lake(database, tmp_path_factory.mktemp("cli")) as running:
        running.publish("orders")
        running.commit("orders", [(1, "x"), (2, None)])
        running.commit("orders", [(3, "a,b")])
        yield running


@pytest.fixture
def shell(lake: QueryLake) -> Shell:
    return Shell(lake)


@pytest.mark.proves("X.1", "T6.7")
def test_queries_are_listed_and_statements_are_saved_and_removed(shell: Shell):
    shell("query", "SELECT 1", "--save", "one", "--dry-run")
    shell("query", "SELECT count(*) FROM orders_raw", "--save", "counted")
    shell("query", "DROP TABLE orders_raw", code=1)
    page = json.loads(shell("query", "--log", "--limit", "2", "-o", "json"))
    assert [(run["status"], run["error_code"], run["sql"]) for run in page["items"]] == [
        ("refused", "query_refused", "DROP TABLE orders_raw"), ("done", None, "SELECT count(*) FROM orders_raw"),
    ]  # fmt: skip
    assert "refused (query_refused)" in (output := shell("query", "--log", "--limit", "1").decode())
    assert output.splitlines()[-1].strip().split(" query ")[1].startswith("--log --limit 1 --token ")
    shown = shell("query", "--show", page["items"][1]["id"]).decode()
    assert "orders_raw version 2" in shown and "SELECT count(*) FROM orders_raw" in shown and "Again, on the same versions" in shown
    assert [kept["name"] for kept in json.loads(shell("query", "--list-saved", "-o", "json"))] == ["counted"]
    assert "counted" in shell("query", "--list-saved").decode()
    assert shell("query", "--forget", "counted", "--dry-run").decode() == "The statement counted would be removed. Nothing was changed.\n"
    assert shell("query", "--forget", "counted").decode() == "The statement counted is removed.\n"
    assert shell("query", "--list-saved").decode().startswith("No saved statements")
    assert b"error [not_found]" in shell("query", "--forget", "counted", code=1)
    for wrong in (["--log", "SELECT 1"], ["--log", "--list-saved"], ["--log", "-o", "csv"], ["SELECT 1", "--dry-run"]):
        assert b"Usage" in shell("query", *wrong, code=2)


@pytest.mark.proves("X.1")
def test_a_run_that_the_gate_blocked_ends_with_4(shell: Shell, lake: QueryLake):
    lake.publish("blocked")
    rule = json.loads(shell("rule", "add", "blocked_raw", "ROW_COUNT", ">= 5", "-o", "json"))
    with ThreadPoolExecutor(1) as pool:
        output = pool.submit(shell, "run", "blocked/load", "--wait", code=4)
        wait_until(lambda: bool(lake.query("SELECT 1 FROM task WHERE state = 'queued'")), "the run is asked for")
        task = lake.take_one()
        found = RuleMeasurement(rule_id=rule["id"], revision=rule["revision"], violations=1, examined=1)
        assert lake.report(task, lake.measured([lake.stage(task, [(1, "x")])], rules=[found]), state={"rows": 1}).result == "blocked"
        assert b"blocked: Blocked by 1 rule" in output.result(timeout=60)


@pytest.mark.proves("X.1")
def test_a_table_with_its_versions_and_the_way_to_ask_again(shell: Shell):
    output = shell("query", "SELECT * FROM orders_raw ORDER BY id").decode()
    assert re.sub(r"\d+(\.\d)? m?s", "N ms", output).splitlines()[:6] == ["id  value", "─────────", " 1  x", " 2  null", " 3  a,b", ""]
    assert re.search(r"^3 rows in [\d.]+ m?s, from orders_raw version 2$", output, re.MULTILINE)
    [again] = re.findall(r"^Again, on the same versions: (.*)$", output, re.MULTILINE)
    words = again.split(" replay ")[1]
    assert shell("replay", words).decode().startswith("same     3 rows, from orders_raw version 2")


def test_a_query_that_cannot_be_replayed_is_reported_and_refused(shell: Shell):
    output = shell("query", "SELECT now()").decode()
    assert "Not replayable: now() returns another value each time." in output
    answer = json.loads(shell("query", "SELECT now()", "-o", "json"))
    assert b"error [not_replayable]" in shell("replay", answer["receipt"]["id"], code=1)


def test_every_format_and_every_way_to_give_a_statement(shell: Shell, tmp_path: Path):
    file = tmp_path / "ask.sql"
    file.write_text("SELECT * FROM orders_raw ORDER BY id")
    answer = json.loads(shell("query", "-f", str(file), "-o", "json"))
    assert answer["rows"] == [["1", "x"], ["2", None], ["3", "a,b"]]
    assert shell("query", "-", "-o", "csv", stdin=file.read_bytes()) == b'id,value\r\n1,x\r\n2,\r\n3,"a,b"\r\n'
    arrow = pa.ipc.open_stream(io.BytesIO(shell("query", file.read_text(), "-o", "arrow"))).read_all()
    assert arrow.column("id").to_pylist() == [1, 2, 3]
    cut = shell("query", "-f", str(file), "--limit", "1").decode()
    assert "There are more rows; only the first 1 are shown." in cut
    assert b"It would be saved as all_orders. Nothing was changed." in shell("query", file.read_text(), "--save", "all_orders", "--dry-run")
    assert b"of admin was not found" in shell("query", "--saved", "all_orders", code=1)
    assert shell("query", file.read_text(), "--save", "all_orders").endswith(b" query --saved all_orders\n")
    assert shell("query", "--saved", "all_orders", "-o", "csv").count(b"\r\n") == 4
    assert b"a name is a lowercase letter" in shell("query", "SELECT 1", "--save", "All-orders", code=2)
    assert b"give one statement" in shell("query", code=2)
    assert b"No such file" in shell("query", "-f", str(tmp_path / "none"), code=2)
    for empty in ("", " \n"):
        assert b"the statement is empty" in shell("query", "-", stdin=empty.encode(), code=2)
        assert b"the statement is empty" in shell("query", empty, code=2)


def test_missing_rows_are_reported_in_every_format(shell: Shell):
    words = ("query", "SELECT id FROM orders_raw ORDER BY id", "--limit", "2")
    output = b"There are more rows; only the first 2 are shown. Use --limit for more.\n"
    assert shell(*words, "-o", "csv", noted=output).count(b"\r\n") == 3
    assert pa.ipc.open_stream(io.BytesIO(shell(*words, "-o", "arrow", noted=output))).read_all().num_rows == 2
    assert output in shell(*words)
    most = b"There are more rows; only the first 100,000 are shown. This is the limit of this system: split the query.\n"
    assert shell("query", "FROM range(100001)", "--limit", "200000", "-o", "csv", noted=most).count(b"\r\n") == 100_001


def test_older_versions_and_snapshots_are_reported(shell: Shell):
    cut = shell("dataset", "show", "orders_raw", "--limit", "1").decode()
    assert cut.splitlines()[-2] == "Next page:"
    assert cut.endswith(" dataset show orders_raw --limit 10\n")
    assert json.loads(shell("dataset", "show", "orders_raw", "--limit", "1", "-o", "json"))["next"] is not None
    assert b"There is more" not in shell("dataset", "show", "orders_raw", "--limit", "1000")
    shell("dataset", "pin", "orders_raw", "--as", "first_orders", "--version", "1")
    assert shell("explain", "first_orders").startswith(b"first_orders is version 1 of orders_raw and never changes. The dataset itself:\nfresh ")
    assert shell("explain", "orders_raw").startswith(b"fresh ")
    shell("dataset", "unpin", "first_orders")


def test_only_numbers_stand_on_the_right(shell: Shell):
    output = shell("query", "SELECT 1 AS a_number, [1] AS a_list, 1.5 AS a_decimal").decode()
    assert output.splitlines()[2] == "       1  [1]           1.5"


def test_a_receipt_in_a_file_is_enough_to_ask_again(shell: Shell, lake: QueryLake, tmp_path: Path):
    receipt = tmp_path / "receipt.json"
    shell("query", "SELECT count(*) FROM orders_raw", "--receipt", str(receipt), "-o", "csv")
    assert json.loads(receipt.read_text())["sql"] == "SELECT count(*) FROM orders_raw"
    lake.commit("orders", [(100, "later")])
    assert shell("replay", str(receipt)).startswith(b"same ")
    assert json.loads(shell("replay", str(receipt), "-o", "json"))["replay"]["same"] is True
    receipt.write_text("{}")
    assert b"is not a valid receipt" in shell("replay", str(receipt), code=2)
    assert b"neither the id of a query nor a file" in shell("replay", "nothing", code=2)


def test_errors_are_one_line_with_what_to_write(shell: Shell):
    assert b"did you mean orders_raw?" in shell("query", "SELECT * FROM order_raw", code=1)
    assert b'error [query_refused]: Select a version with FROM "orders@3"' in shell("query", "SELECT * FROM orders_raw@1", code=1)


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    with running_processes(database, tmp_path, {"TRACELAKE__QUERY__URL": f"http://127.0.0.1:{(port := free_port())}", "TRACELAKE__QUERY__PORT": str(port)}) as running:
        running.control()
        yield running


@pytest.mark.proves("T6.7", "T6.4")
def test_a_query_process_serves_stops_and_leaves_nothing(processes: Processes):
    with processes.client() as client:
        with pytest.raises(Unavailable, match="query process does not answer"):
            client.query("SELECT 1")
        first = processes.query()
        assert client.query("SELECT 'a_very_secret_word' AS x").rows == [("a_very_secret_word",)]
        with pytest.raises(QueryRefused):
            client.query("DROP TABLE a_very_secret_word")
        engines = [child.pid for child in psutil.Process(first.pid).children(recursive=True)]
        assert engines
        first.stop(((signal.SIGTERM, 60.0),))
        assert first.exit_code == 0
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in engines), "its engines are gone")
        assert list((processes.home / "query").iterdir()) == []
        second = processes.query()
        client.query("SELECT 1")
        engines = [child.pid for child in psutil.Process(second.pid).children(recursive=True)]
        second.stop(((signal.SIGKILL, 20.0),))
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in engines), "engines die with their process, however it ends")
        third = processes.query()
        assert client.query("SELECT 2").rows == [(2,)]
        assert [folder.name for folder in (processes.home / "query").iterdir()] == [str(third.pid)]
    assert "a query was answered" in processes.log()
    assert "a_very_secret_word" not in processes.log()
