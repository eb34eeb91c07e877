"""Every implementation of the metadata repository, opened empty, as often as a test asks."""

import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from support.databases import StateDatabase
from support.s3_servers import S3Server
from tracelake.control.database.transactions import Database
from tracelake.control.records.repository import RecordService
from tracelake.control.records.service import Records, Tenant
from tracelake_sdk.records import MetadataContext
from tracelake_sdk.repository.contract import MetadataRepository
from tracelake_sdk.repository.embedded import EmbeddedRepository
from tracelake_sdk.testing import MemoryRepository

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Opened:
    """An empty repository of one tenant, and how to open another one on the same records, as a second process would."""

    repository: MetadataRepository
    tenant: str
    second: Callable[[], MetadataRepository]

    def context(self, run_id: str | None = "run-1", **told: Any) -> MetadataContext:
        return MetadataContext(**{"cluster": "c1", "workspace": "w1", "tenant": self.tenant, "run_id": run_id, "job_id": "job", **told})


Fresh = Callable[[], Opened]


def s3_options(server: S3Server) -> dict[str, str]:
    return {"endpoint": server.endpoint, "region": "us-east-1", "access_key_id": server.access_key_id, "secret_access_key": server.secret_access_key}


def in_memory() -> Opened:
    repository = MemoryRepository("main")
    return Opened(repository, "main", lambda: repository)


@contextmanager
def in_folders(folder: Path) -> Generator[Fresh]:
    """Small segments: the log is rotated all the time."""
    opened: list[EmbeddedRepository] = []

    def fresh() -> Opened:
        root = folder / f"number-{next(_numbers)}"

        def another() -> EmbeddedRepository:
            opened.append(EmbeddedRepository(root, tenant="main", segment_bytes=4096))
            return opened[-1]

        return Opened(another(), "main", another)

    yield fresh
    for repository in opened:
        repository.close()


def on_s3(server: S3Server) -> Opened:
    url = server.fresh_url()

    def another() -> EmbeddedRepository:
        return EmbeddedRepository(url, tenant="main", options=s3_options(server))

    return Opened(another(), "main", another)


@contextmanager
def on_postgres(state: StateDatabase) -> Generator[Fresh]:
    """Each is an org of its own, which shares its tables with all others."""
    with Database(state.service_url, size=4) as database:
        records = Records(database)

        def fresh() -> Opened:
            org, name = uuid4(), f"tenant_{next(_numbers)}"
            with psycopg.connect(state.superuser_url, autocommit=True) as connection:
                connection.execute("INSERT INTO org (id, name) VALUES (%s, %s)", (org, name))
            return Opened(RecordService(records, Tenant(org, name)), name, lambda: RecordService(Records(database), Tenant(org, name)))

        yield fresh
