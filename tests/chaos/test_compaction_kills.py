"""Compaction dies by SIGKILL at one named moment after the other: after each, readers get the same answers as before, and the next run continues."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from uuid import UUID

import psycopg
import pytest
from support import compaction_runner
from support.compactions import KINDS, OldIds, Questions, records
from support.databases import StateDatabase
from support.process_trees import java
from support.processes import LONGEST, wait_until
from support.s3_servers import S3Server
from support.sizes import full, seeded

from tracelake.control.access import store as access
from tracelake.control.cold.reading import ColdRecords
from tracelake.control.database.transactions import Database, DatabaseRole
from tracelake.control.records.repository import TenantRepository
from tracelake.control.records.service import Records, Tenant
from tracelake.control.records.validation import RecordValidation
from tracelake.storage.contract import Storage
from tracelake.storage.local import LocalStorage
from tracelake_sdk.records import MetadataContext, MetadataRecord
from tracelake_sdk.records.repository.admission import RecordAdmission
from tracelake_sdk.records.repository.embedded import EmbeddedRepository

_SPARK_SECONDS = 240.0  # that one run of Spark may take on a busy machine
CONTEXT = MetadataContext(run_id="run-1", cluster="c1", workspace="w1", tenant="main")
# In the order in which one partition meets them; what a moment leaves is where the next process begins.
OF_POSTGRES = [
    "seal_partition:before_commit", "seal_partition:after_commit", "compact:written_down", "compact:compacted", "put:linked", "compact:files_put",
    "freeze_partition:before_commit", "freeze_partition:after_commit", "put:temporary_written", "compact:entry_put", "compact:verified",
    "drop_partition:before_commit", "drop_partition:after_commit",
]  # fmt: skip
# Where Spark writes and the files lie on an object store; the first put is of a file, the last one of the log entry.
OF_SPARK = [
    "compact:written_down", "compact:compacted", "put:before", "put:answered", "compact:files_put", "freeze_partition:before_commit", "freeze_partition:after_commit",
    "put:before", "put:answered", "compact:entry_put", "compact:verified", "drop_partition:before_commit", "drop_partition:after_commit",
]  # fmt: skip
OF_FOLDERS = ["compact:begun", "compact:compacted", "compact:files_put", "compact:entry_put", "compact:verified", "compact:some_deleted"]


def daily(moments: list[str], *some: str) -> list[str]:
    return moments if full() else [moment for moment in moments if moment in some]


def run(*words: str, kill_at: str | None = None, environment: Mapping[str, str] | None = None, longest: float = LONGEST) -> None:
    done = subprocess.run(command(*words, *([kill_at] if kill_at else [])), timeout=longest, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == (-signal.SIGKILL if kill_at else 0), (kill_at, done.stderr[-2000:])


def command(*words: str) -> list[str]:
    return [sys.executable, compaction_runner.__file__, *words]


def filled(state: Database, storage: Storage, random: Random) -> tuple[TenantRepository, list[MetadataRecord], list[UUID | None]]:
    """A repository with old records, these records, and their ids."""
    with state.transaction("new_org", role=DatabaseRole.DEFINE) as tx:
        tenant = Tenant(access.add_org(tx, "main"), "main")
    old = Records(state)
    old._validation = RecordValidation(RecordAdmission(), OldIds(400))  # pyright: ignore[reportPrivateUsage]
    for kind in KINDS:
        TenantRepository(old, tenant).register(kind)
    made = records(random, 60)
    stored = TenantRepository(old, tenant).bulk_store(made, CONTEXT)
    return TenantRepository(Records(state, cold=ColdRecords(storage)), tenant), made, [result.id for result in stored]


def assert_each_once(database: StateDatabase, made: list[MetadataRecord]) -> None:
    with psycopg.connect(database.superuser_url) as connection:
        hot, cold = connection.execute("SELECT (SELECT count(*) FROM metadata_record), (SELECT sum(rows)::bigint FROM cold_file)").fetchone() or (0, 0)
    assert hot + cold == len(made) and hot == sum(record.kind == "kept" for record in made)


@pytest.mark.proves("M2.6")
def test_no_record_of_postgres_is_lost_or_doubled_wherever_compaction_dies(database: StateDatabase, tmp_path: Path) -> None:
    random = seeded()
    with Database(database.service_url, size=4) as state:
        service, made, ids = filled(state, LocalStorage(tmp_path / "lake", lambda moment: None), random)
        questions = Questions(random.randrange(2**30), 6)
        before = questions.answers(service, CONTEXT)
        for moment in daily(OF_POSTGRES, "compact:files_put", "freeze_partition:after_commit", "drop_partition:after_commit"):
            run("postgres", database.service_url, str(tmp_path), kill_at=moment)
            assert questions.answers(service, CONTEXT) == before, moment
        run("postgres", database.service_url, str(tmp_path))
        assert questions.answers(service, CONTEXT) == before
        assert [result.id for result in service.bulk_store(made, CONTEXT)] == ids
    assert_each_once(database, made)


@pytest.mark.proof
@pytest.mark.spark
@pytest.mark.xdist_group("s3")
@pytest.mark.proves("M2.6")
def test_no_record_is_lost_or_doubled_wherever_compaction_by_spark_onto_s3_dies(database: StateDatabase, s3_server: S3Server, tmp_path: Path) -> None:
    random, url = seeded(), s3_server.fresh_url()
    words, environment = ("settings", database.service_url, str(tmp_path)), os.environ | s3_server.environment(url)
    storage = s3_server.open(url)
    with Database(database.service_url, size=4) as state:
        service, made, ids = filled(state, storage, random)
        questions = Questions(random.randrange(2**30), 6)
        before = questions.answers(service, CONTEXT)
        kill_spark(*words, environment=environment)
        assert questions.answers(service, CONTEXT) == before
        for moment in OF_SPARK:
            run(*words, kill_at=moment, environment=environment, longest=_SPARK_SECONDS)
            assert questions.answers(service, CONTEXT) == before, moment
        run(*words, environment=environment, longest=_SPARK_SECONDS)
        assert questions.answers(service, CONTEXT) == before
        assert [result.id for result in service.bulk_store(made, CONTEXT)] == ids
    assert_each_once(database, made)
    with psycopg.connect(database.superuser_url) as connection:
        named = {path for (path,) in connection.execute("SELECT path FROM cold_file").fetchall()}
    # Of all that was put before a process died, the store has what the log names, and nothing else.
    assert {file.path for file in storage.list("records/cold") if file.path.endswith(".parquet")} == named


def kill_spark(*words: str, environment: Mapping[str, str]) -> None:
    """Its JVM dies while it compacts: compaction fails with an error code, and removes nothing."""
    with subprocess.Popen(command(*words), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as compacting:
        try:
            wait_until(lambda: bool(java(compacting.pid)) or compacting.poll() is not None, "Spark has started", longest=_SPARK_SECONDS)
            for pid in java(compacting.pid):
                os.kill(pid, signal.SIGKILL)
            said, _ = compacting.communicate(timeout=_SPARK_SECONDS)
        finally:
            compacting.kill()
    assert compacting.returncode == 1 and "CompactionFailed" in said, said[-2000:]


@pytest.mark.proves("M2.6")
def test_no_record_of_a_folder_is_lost_or_doubled_wherever_compaction_dies(tmp_path: Path) -> None:
    random = seeded()
    with EmbeddedRepository(tmp_path / "records", tenant="main") as repository:
        for kind in KINDS:
            repository.register(kind)
        repository._ids = OldIds(400)  # pyright: ignore[reportPrivateUsage]
        made = records(random, 60)
        repository.bulk_store(made, CONTEXT)
        questions = Questions(random.randrange(2**30), 6)
        before = questions.answers(repository, CONTEXT)
        for moment in daily(OF_FOLDERS, "compact:files_put", "compact:entry_put", "compact:some_deleted"):
            run("folder", str(tmp_path / "records"), kill_at=moment)
            assert questions.answers(repository, CONTEXT) == before, moment
        run("folder", str(tmp_path / "records"))
        assert questions.answers(repository, CONTEXT) == before
        assert {result.result for result in repository.bulk_store(made, CONTEXT)} == {"same"}
        assert repository.rebuild().as_indexed
    assert len([*(tmp_path / "records").glob("records/**/*.json")]) == sum(record.kind == "kept" for record in made)
