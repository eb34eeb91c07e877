"""Every implementation of the metadata repository, opened empty, as often as a test asks."""

import itertools
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.controls import settings_for
from support.databases import StateDatabase
from support.processes import LONGEST, wait_until
from support.s3_servers import S3Server
from tracelake.control.access import store as access
from tracelake.control.access.administration import ensure_reserved_roles
from tracelake.control.access.callers import ADMIN
from tracelake.control.access.tokens import new_token, token_sha256
from tracelake.control.database.transactions import Database, DatabaseRole
from tracelake.control.records.repository import TenantRepository
from tracelake.control.records.service import Records, Tenant
from tracelake.control.records_process import RecordsProcess, RecordsServer
from tracelake_sdk.access import TokenKind
from tracelake_sdk.records import MetadataContext, StoredRecord
from tracelake_sdk.records.repository.contract import MetadataRepository
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.records.repository.remote import RemoteRepository
from tracelake_sdk.testing import MemoryRepository

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Opened:
    """An empty repository of one tenant, and how to open another one on the same records, as a second process would."""

    repository: MetadataRepository
    tenant: str
    second: Callable[[], MetadataRepository]

    def context(self, run_id: str | None = "run-1", **fields: Any) -> MetadataContext:
        return MetadataContext(**{"cluster": "c1", "workspace": "w1", "tenant": self.tenant, "run_id": run_id, "job_id": "job", **fields})


Fresh = Callable[[], Opened]


def tailed(repository: MetadataRepository, context: MetadataContext, number: int, *, offset: str | None = None, limit: int = 500) -> list[StoredRecord]:
    """So many records of the tail, and whatever comes behind them: one that was just stored shows once nothing older is still on its way."""
    found: list[StoredRecord] = []

    def read_on() -> bool:
        nonlocal offset
        page = repository.tail(context, offset, limit=limit)
        found.extend(page.items)
        offset = page.offset
        return not page.items

    wait_until(lambda: read_on() and len(found) >= number, f"{number} records of the tail", pause=0)
    return found


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
    """Each is a separate org, which shares its tables with all others."""
    with Database(state.service_url, size=8) as database:
        records = Records(database)

        def fresh() -> Opened:
            tenant, _ = _org(database)
            return Opened(TenantRepository(records, tenant), tenant.name, lambda: TenantRepository(Records(database), tenant))

        yield fresh


@contextmanager
def over_http(state: StateDatabase, home: Path) -> Generator[Fresh]:
    """The records service by itself, each with the token of an org's admin."""
    alone = RecordsProcess(settings_for(state, home))
    alone.start()
    server = RecordsServer(alone)
    opened: list[RemoteRepository] = []
    try:
        with running(server) as url:

            def fresh() -> Opened:
                tenant, token = _org(alone.database)

                def another() -> RemoteRepository:
                    opened.append(RemoteRepository(url, token))
                    return opened[-1]

                return Opened(another(), tenant.name, another)

            yield fresh
            for repository in opened:
                repository.close()
    finally:
        alone.stop()


@contextmanager
def running(server: RecordsServer) -> Generator[str]:
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), "the records service listens")
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
        thread.join(LONGEST)


def _org(database: Database) -> tuple[Tenant, str]:
    """A new one, and the token of its admin."""
    name, token = f"tenant_{next(_numbers)}", new_token()
    with database.transaction("new_org", role=DatabaseRole.DEFINE) as tx:
        org = access.add_org(tx, name)
        ensure_reserved_roles(tx, org)
        user = access.add_user(tx, org=org, name="admin", issuer="tests", subject=f"{name}/admin")
        access.add_member(tx, org=org, role=ADMIN, user=user)
        access.add_token(tx, org=org, kind=TokenKind.USER, user=user, label="tests", sha256=token_sha256(token))
    return Tenant(org, name), token
