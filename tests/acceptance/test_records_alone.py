"""The records service by itself, and one setting that swaps a folder for it: real processes, the SDK, and a database with nothing else in it."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from support.ports import free_port
from support.processes import wait_until

from tracelake.control.database.roles import close_database, create_database
from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake.embedded.processes import Child
from tracelake.embedded.readiness import is_ready
from tracelake_sdk.access import TokenKind
from tracelake_sdk.client import Client
from tracelake_sdk.errors import Forbidden, NotFound, Unauthenticated
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters
from tracelake_sdk.records.repository.opening import open_repository

DATABASE = "records_alone"
# What a notebook or a service has: the SDK, and nothing that says where the records are kept.
SCRIPT = """
import sys
from datetime import UTC, datetime
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.repository.opening import open_repository

context = MetadataContext(run_id=sys.argv[1], cluster="laptop", workspace="notebook", tenant="main")
target = MetadataTarget(source_id="erp", schema="sales", table="orders")
repository = open_repository()
print(type(repository).__name__)
payload = {"duration_seconds": 2.5, "retries": 0, "outcome": "success", "window_start": None, "window_end": None, "slice_filter": []}
record = MetadataRecord(target=target, kind="ingestion_runtime", payload=payload, produced_at=datetime.now(UTC), producer_id="notebook.v1")
print(repository.store(record, context).result)
print(repository.store(record, context).result)
found = repository.latest(target, "ingestion_runtime", context)
print(found.record == record, found.context == context, len(repository.history(target, "ingestion_runtime", context)))
repository.close()
"""


@dataclass(frozen=True)
class Alone:
    url: str
    home: Path
    superuser_url: str

    @property
    def token(self) -> str:
        return HomeFiles(self.home).admin_token() or ""


def clean_environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.upper().startswith("TRACELAKE")} | more


def tracelaked(*words: str) -> list[str]:
    return [sys.executable, "-m", "tracelake.main", *words]


@pytest.fixture(scope="module")
def alone(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    home = tmp_path_factory.mktemp("alone")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        create_database(connection, DATABASE, owner="tracelake_owner")
    with psycopg.connect(postgres.url(DATABASE)) as connection:
        close_database(connection)
    environment = clean_environment(
        TRACELAKE_HOME=str(home), TRACELAKE_DATABASE_URL=postgres.url(DATABASE, "tracelake_service"), TRACELAKE__DATABASE__OWNER_URL=postgres.url(DATABASE, "tracelake_owner")
    )
    too_early = subprocess.run(tracelaked("records"), env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (too_early.returncode, "migration_refused" in too_early.stderr, "tracelaked migrate --for records" in too_early.stderr) == (1, True, True)
    migrated = subprocess.run(tracelaked("migrate", "--for", "records"), env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert migrated.returncode == 0, migrated.stderr
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Child("records", tracelaked("records"), log=home / "records.log", environment=environment | {"TRACELAKE__API__PORT": str(port)}) as process:
        wait_until(lambda: is_ready(url) or process.exit_code is not None, "the service answers")
        assert process.exit_code is None, (home / "records.log").read_text()
        yield Alone(url, home, postgres.url(DATABASE))
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")  # pyright: ignore[reportArgumentType]


@pytest.mark.proves("M2.4")
def test_its_database_has_no_table_of_another_set(alone: Alone):
    with psycopg.connect(alone.superuser_url) as connection:
        sets = {name for (name,) in connection.execute("SELECT DISTINCT set FROM schema_migration").fetchall()}
        tables = {name for (name,) in connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')").fetchall()}
    assert sets == {"core", "records"}
    assert {"org", "api_token", "metadata_record", "metadata_latest"} <= tables
    assert not tables & {"task", "dataset", "dag", "dataset_event", "run_history", "quality_rule", "promotion_status", "line", "query_run", "worker_pool"}


def run_script(folder: Path, run_id: str, settings: Mapping[str, str]) -> list[str]:
    environment = clean_environment(TRACELAKE_HOME=str(folder / "nowhere"), **settings)
    done = subprocess.run([sys.executable, "-c", SCRIPT, run_id], env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.proves("M2.3")
def test_one_setting_swaps_a_folder_for_the_service_and_the_script_does_not_change(alone: Alone, tmp_path: Path):
    folder = {"TRACELAKE__RECORDS__URL": (tmp_path / "records").as_uri()}
    service = {"TRACELAKE__RECORDS__URL": alone.url, "TRACELAKE__RECORDS__TOKEN": alone.token}
    said = ["stored", "same", "True True 1"]
    assert run_script(tmp_path, "one", folder) == ["EmbeddedRepository", *said]
    assert run_script(tmp_path, "one", service) == ["RemoteRepository", *said]
    # The running system is found as the client finds it.
    assert run_script(tmp_path, "two", {"TRACELAKE_API_URL": alone.url, "TRACELAKE_TOKEN": alone.token})[:2] == ["RemoteRepository", "stored"]


@pytest.mark.proves("M2.4")
def test_it_has_its_own_tokens_and_users_and_no_other_routes(alone: Alone):
    context = MetadataContext(cluster="c", workspace="w", tenant="main")
    with Client(alone.url, alone.token) as admin:
        assert admin.me().org == "main"
        reader = admin.admin.create_token(TokenKind.SERVICE, "dashboards", scopes=["records:read"]).token or ""
        with pytest.raises(NotFound):
            admin.datasets.list()
        with pytest.raises(NotFound):
            admin.tasks.list()
    with closing(open_repository(alone.url, token=reader)) as repository:
        assert repository.query(RecordFilters(kinds=["schema_snapshot"]), context).items == []
        with pytest.raises(Forbidden):
            repository.register(repository.kind("ingestion_runtime"))
    with closing(open_repository(alone.url, token="wrong")) as repository, pytest.raises(Unauthenticated):
        repository.targets(context)


def test_a_target_called_lake_is_any_target_where_there_is_no_registry(alone: Alone):
    context = MetadataContext(run_id="lake", cluster="c", workspace="w", tenant="main")
    target = MetadataTarget(source_id="lake", schema="gold", table="revenue")
    payload = {"duration_seconds": 1, "retries": 0, "outcome": "success", "window_start": None, "window_end": None, "slice_filter": []}
    record = MetadataRecord(target=target, kind="ingestion_runtime", payload=payload, produced_at=datetime.now(UTC), producer_id="t.v1")
    with closing(open_repository(alone.url, token=alone.token)) as repository:
        repository.store(record, context)
        assert repository.latest(target, "ingestion_runtime", context) is not None


def test_it_says_what_it_offers(alone: Alone):
    with urllib.request.urlopen(f"{alone.url}/openapi.json") as answered:
        paths = set(json.load(answered)["paths"])
    assert {"/v1/records", "/v1/records/bulk", "/v1/records/tail", "/v1/kinds", "/v1/admin/tokens", "/v1/me", "/readyz"} <= paths
    assert not [path for path in paths if path.startswith(("/internal", "/v1/datasets", "/v1/dags", "/v1/query"))]
