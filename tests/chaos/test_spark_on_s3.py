"""The line with Spark itself writing to a real S3 server, under credentials that its STS narrows to each task: killed in the middle, and read by others."""

from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store
from support.databases import StateDatabase
from support.fetched import SPARK_JARS
from support.line_accounting import named_files, staged_files
from support.process_trees import java
from support.processes import Processes, running_processes
from support.s3_servers import S3Server
from support.sizes import full
from support.small_lines import control_here, sweep
from support.spark_lines import POINTS, SETTINGS, account_for_walk, walk

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("s3")]


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return s3_server.fresh_url()


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path, s3_server: S3Server, url: str) -> Iterator[Processes]:
    settings = SETTINGS | s3_server.environment(url) | {"TRACELAKE__STORAGE__OPERATOR_ROLE": s3_server.role, "TRACELAKE__SPARK__JARS_FOLDER": str(SPARK_JARS)}
    with running_processes(database, tmp_path, settings) as running:
        yield running


@pytest.mark.proves("T3.4")
def test_spark_dies_while_it_writes_to_s3_and_every_row_is_there_once(processes: Processes, s3_server: S3Server, url: str, tmp_path: Path):
    with control_here(processes, tmp_path, storage=s3_server.section(url)) as lake:
        versions = walk(processes, tmp_path, POINTS if full() else ["half_the_files"], lambda worker: assert_no_key(java(worker.pid), s3_server))
        account_for_walk(processes, download(s3_server, url, tmp_path / "seen"), versions)
        sweep(lake)
    swept = download(s3_server, url, tmp_path / "swept")
    account_for_walk(processes, swept, versions)
    assert staged_files(swept) == named_files(processes.database, swept)


def assert_no_key(pids: list[int], server: S3Server) -> None:
    """Neither Spark's Java machine nor the host above it has the store's key, in its environment or on its command line."""
    assert pids
    for pid in pids:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for process in (pid, parent):
            for file in ("environ", "cmdline"):
                assert server.secret_access_key.encode() not in Path(f"/proc/{process}/{file}").read_bytes()


def download(server: S3Server, url: str, folder: Path) -> Path:
    """The lake as a folder, where the accounts of tests read it; without Hadoop's folders, which are empty objects."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    config = {"endpoint": server.endpoint, "region": "us-east-1", "access_key_id": server.access_key_id, "secret_access_key": server.secret_access_key}
    store = S3Store(bucket, prefix=prefix, config=config, client_options={"allow_http": True})  # pyright: ignore[reportArgumentType]
    for page in obstore.list(store):
        for item in page:
            if item["size"]:
                target = folder / item["path"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(obstore.get(store, item["path"]).bytes().to_bytes())
    return folder
