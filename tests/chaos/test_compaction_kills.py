"""Compaction dies by SIGKILL at one named moment after the other: at each, whoever asks is told the same as ever, and the next run goes on."""

import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from support import compaction_runner
from support.compactions import KINDS, OldIds, Questions, records
from support.databases import StateDatabase
from support.processes import LONGEST
from support.sizes import full, seeded

from tracelake.control.access import store as access
from tracelake.control.cold.reading import ColdRecords
from tracelake.control.database.transactions import Database, Role
from tracelake.control.records.judging import Judging
from tracelake.control.records.repository import RecordService
from tracelake.control.records.service import Records, Tenant
from tracelake.storage.local import LocalStorage
from tracelake_sdk.records import MetadataContext
from tracelake_sdk.repository.admission import Admission
from tracelake_sdk.repository.embedded import EmbeddedRepository

CONTEXT = MetadataContext(run_id="run-1", cluster="c1", workspace="w1", tenant="main")
# In the order in which one partition meets them; what a moment leaves is where the next process begins.
OF_POSTGRES = [
    "seal_partition:before_commit", "seal_partition:after_commit", "compact:written_down", "compact:compacted", "put:linked", "compact:files_put",
    "freeze_partition:before_commit", "freeze_partition:after_commit", "put:temporary_written", "compact:entry_put", "compact:verified",
    "drop_partition:before_commit", "drop_partition:after_commit",
]  # fmt: skip
OF_FOLDERS = ["compact:begun", "compact:compacted", "compact:files_put", "compact:entry_put", "compact:verified", "compact:some_deleted"]


def daily(moments: list[str], *some: str) -> list[str]:
    return moments if full() else [moment for moment in moments if moment in some]


def run(*words: str, kill_at: str | None = None) -> None:
    done = subprocess.run(
        [sys.executable, compaction_runner.__file__, *words, *([kill_at] if kill_at else [])], timeout=LONGEST, check=False, capture_output=True, text=True
    )
    assert done.returncode == (-signal.SIGKILL if kill_at else 0), (kill_at, done.stderr[-2000:])


@pytest.mark.proves("M2.6")
def test_no_record_of_postgres_is_lost_or_doubled_wherever_compaction_dies(database: StateDatabase, tmp_path: Path) -> None:
    random = seeded()
    with Database(database.service_url, size=4) as state:
        with state.transaction("new_org", role=Role.DEFINE) as tx:
            tenant = Tenant(access.add_org(tx, "main"), "main")
        old = Records(state)
        old._judging = Judging(Admission(), OldIds(400))  # pyright: ignore[reportPrivateUsage]
        for kind in KINDS:
            RecordService(old, tenant).register(kind)
        made = records(random, 60)
        first = RecordService(old, tenant).bulk_store(made, CONTEXT)
        service = RecordService(Records(state, cold=ColdRecords(LocalStorage(tmp_path / "lake", lambda moment: None))), tenant)
        questions = Questions(random.randrange(2**30), 6)
        before = questions.answers(service, CONTEXT)
        some = daily(OF_POSTGRES, "compact:files_put", "freeze_partition:before_commit", "freeze_partition:after_commit", "drop_partition:before_commit", "drop_partition:after_commit")
        for moment in some:
            run("postgres", database.service_url, str(tmp_path), kill_at=moment)
            assert questions.answers(service, CONTEXT) == before, moment
        run("postgres", database.service_url, str(tmp_path))
        assert questions.answers(service, CONTEXT) == before
        assert [result.id for result in service.bulk_store(made, CONTEXT)] == [result.id for result in first]
    with psycopg.connect(database.superuser_url) as connection:
        hot, cold = connection.execute("SELECT (SELECT count(*) FROM metadata_record), (SELECT sum(rows)::bigint FROM cold_file)").fetchone() or (0, 0)
    assert hot + cold == 60 and hot == sum(record.kind == "kept" for record in made)


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
