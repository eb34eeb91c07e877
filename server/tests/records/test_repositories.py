"""One setting names the repository of a system; a request for records that are elsewhere gets its address."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from support.controls import running_control, served, settings_for
from support.databases import StateDatabase

from tracelake.control.records.repositories import RecordRepositories
from tracelake.control.records.repository import TenantRepository
from tracelake_sdk.errors import NotFound
from tracelake_sdk.errors.records import RecordsElsewhere
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.records.repository.remote import RemoteRepository

CONTEXT = MetadataContext(run_id="run", cluster="c", workspace="w", tenant="main")
TARGET = MetadataTarget(source_id="erp", schema="sales", table="orders")
PAYLOAD = {"duration_seconds": 1.5, "retries": 0, "outcome": "success", "window_start": None, "window_end": None, "slice_filter": []}
RECORD = MetadataRecord(target=TARGET, kind="ingestion_runtime", payload=PAYLOAD, produced_at=datetime(2026, 1, 1, tzinfo=UTC), producer_id="t.v1")


@pytest.mark.proves("M2.3")
def test_the_platform_keeps_its_records_where_the_setting_says(database: StateDatabase, tmp_path: Path):
    folder = tmp_path / "kept"
    settings = settings_for(database, tmp_path / "home", records={"url": folder.as_uri()})
    with running_control(settings, database) as control_plane, served(control_plane.control) as url:
        repository = control_plane.control.record_repositories.repository_of("main")
        assert isinstance(repository, EmbeddedRepository)
        assert repository is control_plane.control.record_repositories.repository_of("main")
        assert repository.store(RECORD, CONTEXT).result == "stored"
        with RemoteRepository(url, HomeFiles(tmp_path / "home").admin_token() or "") as remote:
            for ask in (lambda: remote.latest(TARGET, RECORD.kind, CONTEXT), lambda: remote.store(RECORD, CONTEXT), remote.kinds):
                with pytest.raises(RecordsElsewhere, match=str(folder)):
                    ask()
        assert control_plane.one("SELECT count(*) FROM metadata_record") == 0
    with EmbeddedRepository(folder, tenant="main") as kept:
        assert kept.latest(TARGET, RECORD.kind, CONTEXT) is not None


def test_without_the_setting_they_are_in_its_own_postgres(database: StateDatabase, tmp_path: Path):
    with running_control(settings_for(database, tmp_path / "home"), database) as control_plane:
        repository = control_plane.control.record_repositories.repository_of("main")
        assert isinstance(repository, TenantRepository)
        repository.store(RECORD, CONTEXT)
        assert control_plane.one("SELECT count(*) FROM metadata_record WHERE kind = 'ingestion_runtime'") == 1
        with pytest.raises(NotFound):
            control_plane.control.record_repositories.repository_of("nobody")


@pytest.mark.proves("M2.3")
def test_one_system_may_keep_its_records_in_another(database: StateDatabase, tmp_path: Path):
    with running_control(settings_for(database, tmp_path / "home"), database) as control_plane, served(control_plane.control) as url:
        repositories = RecordRepositories(control_plane.control.records, url, SecretStr(HomeFiles(tmp_path / "home").admin_token() or ""))
        repository = repositories.repository_of("main")
        assert isinstance(repository, RemoteRepository)
        assert repository.store(RECORD, CONTEXT).result == "stored"
        repositories.close()


def test_the_password_of_an_address_is_not_shown():
    repositories = RecordRepositories(None, "https://somebody:secret@records.example/base?token=secret")  # pyright: ignore[reportArgumentType]
    assert repositories.elsewhere == "https://records.example/base"
