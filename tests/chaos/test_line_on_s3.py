"""The line on object storage: answers get lost, committers die around the put, and there is one version all the same."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.controls import running_control, settings_for
from support.databases import StateDatabase
from support.lakes import BRONZE, SCHEMA, Lake
from support.processes import assert_killed, running_processes, wait_until
from support.relays import relayed
from support.s3_faults import Fault, FaultyS3, faulty_s3
from support.s3_servers import S3Server
from support.sizes import full
from support.small_lines import ALLOWED, DEFINITION, SmallLine

from tracelake.storage.paths import table_location
from tracelake_sdk.datasets.measurements import StagedFile
from tracelake_sdk.datasets.scopes import FullScope, Scope, folder_of
from tracelake_sdk.errors import NotReady, StorageUnavailable
from tracelake_sdk.tasks import ClaimedTask, CompletionResult

pytestmark = pytest.mark.xdist_group("s3")


class S3Lake(Lake):
    """Stages through the storage, and reads like a reader that knows only the path of the table."""

    server: S3Server
    url: str

    def stage(
        self, task: ClaimedTask, rows: Sequence[tuple[Any, ...]], *, scope: Scope | None = None, schema: pa.Schema = SCHEMA, name: str = "part-0"
    ) -> StagedFile:
        output = task.payload.outputs[0].staged
        assert output is not None
        body = io.BytesIO()
        pq.write_table(pa.table([pa.array(list(column), type=field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema), body)
        path = f"{output.staging}/{folder_of(scope or FullScope())}/{name}.parquet"
        self.control.storage.replace(path, body.getvalue())
        keys = [row[0] for row in rows]
        return StagedFile(
            path=path.removeprefix(f"{output.location}/"), size=body.tell(), rows=len(rows), scope=scope or FullScope(), seal="sealed", key_min=min(keys), key_max=max(keys)
        )

    def seen(self) -> tuple[int, list[tuple[Any, ...]]]:
        """The Delta version and the rows that a reader sees."""
        [(org, id, version)] = self.query(
            "SELECT dataset.org_id, dataset.id, version.id FROM dataset JOIN dataset_version AS version ON version.dataset_id = dataset.id"
        )
        options = {
            "aws_endpoint_url": self.server.endpoint, "aws_access_key_id": self.server.access_key_id, "aws_secret_access_key": self.server.secret_access_key,
            "aws_region": "us-east-1", "aws_allow_http": "true",
        }
        location = table_location(org, id, version)
        table = DeltaTable(f"{self.url}/{location}", storage_options=options)
        found: list[tuple[Any, ...]] = []
        for uri in table.file_uris():
            body = self.control.storage.read(f"{location}/{uri.partition(f'{location}/')[2]}")
            assert body is not None, uri
            found += [tuple(row.values()) for row in pq.read_table(io.BytesIO(body)).to_pylist()]
        return table.version(), sorted(found)


@contextmanager
def lake_on(server: S3Server, database: StateDatabase, home: Path, *, endpoint: str | None = None) -> Iterator[S3Lake]:
    url = server.fresh_url()
    settings = settings_for(database, home, tasks={"housekeeping_seconds": 60}, storage=server.section(url, endpoint=endpoint, timeout_seconds=30))
    with running_control(settings, database) as control_plane:
        control_plane.control.movers.stop()
        lake = S3Lake(control_plane.control, database)
        lake.server, lake.url = server, url
        yield lake


@pytest.fixture
def faulty(s3_server: S3Server) -> Iterator[FaultyS3]:
    with faulty_s3(s3_server) as proxy:
        yield proxy


@pytest.mark.proves("G3.2")
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in (Fault.NONE, Fault.SLOW, Fault.LATE)], ids=lambda fault: fault.name)
def test_a_lost_answer_of_the_put_makes_one_version(s3_server: S3Server, faulty: FaultyS3, database: StateDatabase, tmp_path: Path, fault: Fault):
    with lake_on(s3_server, database, tmp_path / "home", endpoint=faulty.endpoint) as lake:
        lake.deploy(BRONZE)
        for number in (1, 2):
            lake.run()
            assert lake.write(lake.take_one(), [(number, "a")]).result is CompletionResult.COMMITTING
            faulty.faults.append(fault)
            with suppress(StorageUnavailable):  # the outcome is unknown, or nothing was written: it is put again
                lake.move()
            lake.move()
            assert faulty.met.count(fault) == number, "the fault was not met"
        assert lake.seen() == (1, [(1, "a"), (2, "a")])
        assert lake.query("SELECT version, delta_version FROM data_version ORDER BY version") == [(1, 0), (2, 1)]
        assert lake.query("SELECT count(*), count(DISTINCT task_id) FROM materialization") == [(2, 2)]
        assert lake.query("SELECT stopped_reason FROM line") == [(None,)]


@pytest.mark.proves("G3.2")
@pytest.mark.parametrize("point", ["freeze:after_commit", "put:before", "put:answered", "record:before_commit", "record:after_commit"] if full() else ["put:answered"])
def test_control_dies_around_the_put_on_a_real_server(s3_server: S3Server, database: StateDatabase, tmp_path: Path, point: str):
    line = SmallLine(tmp_path)
    url = s3_server.fresh_url()
    with running_processes(database, tmp_path, line.settings() | s3_server.environment(url)) as processes:
        doomed = processes.control(kill_at=point)
        with processes.client() as client:
            client.dags.deploy(DEFINITION)
            client.dags.run("small", "load")
        processes.worker()
        assert_killed(doomed)
        processes.control()
        with processes.client() as client:
            wait_until(lambda: client.datasets.get("raw").version == 1, "the first run is recorded", longest=240)
            client.dags.run("small", "load")
            wait_until(lambda: client.datasets.get("raw").version == 2, "the second run is recorded", longest=240)
            assert client.datasets.get("raw").row_count == len(ALLOWED)
            assert [version.snapshot_ref.rpartition("@")[2] for version in client.datasets.versions("raw").items] == ["1", "0"]
            tasks = [task for task in client.tasks.list(limit=50).items if task.job == "load"]
            assert [task.state.value for task in tasks] == ["completed", "completed"]


@pytest.mark.proves("X.10")
def test_a_storage_that_refuses_makes_control_not_ready_and_the_line_moves_by_itself_afterwards(s3_server: S3Server, database: StateDatabase, tmp_path: Path):
    with relayed(s3_server.endpoint) as relay:
        storage = s3_server.section(s3_server.fresh_url(), endpoint=relay.url, timeout_seconds=1)
        settings = settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 0.1}, storage=storage)
        with running_control(settings, database) as control_plane:
            lake = S3Lake(control_plane.control, database)
            lake.deploy(BRONZE)
            lake.run()
            task = lake.take_one()
            staged = lake.stage(task, [(1, "a")])
            relay.passes = False
            relay.cut()
            assert lake.report(task, lake.measured([staged])).result is CompletionResult.COMMITTING
            wait_until(lambda: [status.name for status in control_plane.control.loops.failing()] == ["lines"], "the loop of the lines is failing")
            with pytest.raises(NotReady, match=r"loop lines \(storage_"):
                control_plane.services.readiness.check()
            relay.passes = True
            wait_until(lambda: lake.one("SELECT state::text FROM task") == "completed", "the line has moved")
            wait_until(lambda: not control_plane.control.loops.failing(), "it is well again")
            control_plane.services.readiness.check()
