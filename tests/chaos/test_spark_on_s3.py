"""The line with Spark itself writing to a real S3 server, under credentials that its STS narrows to each task: killed in the middle, and read by others."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store
from support.accounting import rows_of, wait_until_quiet
from support.databases import StateDatabase
from support.fetched import SPARK_JARS
from support.line_accounting import account_for_lines
from support.process_trees import java
from support.processes import Processes, running_processes, wait_until
from support.s3_servers import S3Server
from support.sizes import size
from support.small_lines import control_here

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("s3")]

LONGEST = 400.0
DAG = """
name: small
defaults: {domain: test, owner: test, max_attempts: 50}
jobs:
  - name: load
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: here/landing, format: csv, schema: "id BIGINT, day STRING"}
    outputs: [{layer: bronze, description: Rows as they came}]
    update_strategy: append
    unique_key: [id]
  - name: clean
    activation: reactive
    inputs: [{from: {job: load, output: 0}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: SELECT * FROM input_0}
    outputs: [{layer: silver, description: The same rows by day, partition_by: {column: day}}]
    update_strategy: replace
"""


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return s3_server.fresh_url()


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path, s3_server: S3Server, url: str) -> Iterator[Processes]:
    settings = s3_server.environment(url) | {
        "TRACELAKE__STORAGE__OPERATOR_ROLE": s3_server.role, "TRACELAKE__SPARK__JARS_FOLDER": str(SPARK_JARS),
        "TRACELAKE__WORKER__RUNTIMES": '["spark"]', "TRACELAKE__WORKER__SLOTS": "1",
    }  # fmt: skip
    with running_processes(database, tmp_path, settings) as running:
        yield running


def land(folder: Path, number: int) -> list[tuple[int, str]]:
    rows = [(number * 10 + at, f"2024-01-0{at}") for at in (1, 2, 3)]
    landing = folder / "here" / "landing"
    landing.mkdir(parents=True, exist_ok=True)
    (landing / f"{number}.csv").write_text("id,day\n" + "".join(f"{id},{day}\n" for id, day in rows))
    return rows


@pytest.mark.proves("T3.4")
def test_spark_dies_while_it_writes_to_s3_and_every_row_is_there_once(processes: Processes, s3_server: S3Server, url: str, tmp_path: Path):
    rows = land(tmp_path, 0)
    with control_here(processes, tmp_path, storage=s3_server.section(url), lease_seconds=60), processes.client() as client:
        client.deploy(DAG)
        client.run("small", "load")
        # The host dies when its files are written and nobody knows of them yet.
        worker = processes.worker(kill_at="all_files")
        wait_until(lambda: bool(rows_of(processes.database, "SELECT 1 FROM task_attempt WHERE ended_at IS NOT NULL")), "the host has died", longest=LONGEST)
        assert rows_of(processes.database, "SELECT error_class FROM task_attempt WHERE ended_at IS NOT NULL") == [("no_outcome",)]

        # The next one's Java machine is killed while it works.
        wait_until(lambda: bool(java(worker.pid)), "another Spark has started", longest=LONGEST)
        [machine] = java(worker.pid)
        os.kill(machine, signal.SIGKILL)
        wait_until(lambda: machine not in java(worker.pid), "it is gone", longest=LONGEST)
        wait_until_quiet(processes.database, longest=LONGEST)
        assert_no_key(java(worker.pid), s3_server)

        for number in range(1, size(2, 10)):
            rows += land(tmp_path, number)
            client.run("small", "load")
            wait_until_quiet(processes.database, longest=LONGEST)
        download(s3_server, url, processes.home / "lake")
        account, tables = account_for_lines(processes.database, processes.home / "lake")
    runs = size(2, 10)
    assert account.tasks == Counter({("load", "completed"): runs, ("clean", "completed"): runs})
    assert tables["load"].rows == tables["clean"].rows == sorted(rows, key=str)
    assert worker.exit_code is None


def assert_no_key(pids: list[int], server: S3Server) -> None:
    """Neither Spark's Java machine nor the host above it has the store's key, in its environment or on its command line."""
    assert pids
    for pid in pids:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for process in (pid, parent):
            for file in ("environ", "cmdline"):
                assert server.secret_access_key.encode() not in Path(f"/proc/{process}/{file}").read_bytes()


def download(server: S3Server, url: str, folder: Path) -> None:
    """The lake as a folder, where the accounts of tests read it."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    config = {"endpoint": server.endpoint, "region": "us-east-1", "access_key_id": server.access_key_id, "secret_access_key": server.secret_access_key}
    store = S3Store(bucket, prefix=prefix, config=config, client_options={"allow_http": True})  # pyright: ignore[reportArgumentType]
    for page in obstore.list(store):
        for item in page:
            if item["path"].endswith((".json", ".parquet")):
                target = folder / item["path"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(obstore.get(store, item["path"]).bytes().to_bytes())
