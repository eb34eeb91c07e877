"""The tables of pins, of the query log and of saved queries, one function per query."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.queries import QueryPin, RunFacts, SavedQuery

sql = load(__name__, "queries.sql")


@dataclass(frozen=True)
class TableRow:
    """A recorded version of a dataset."""

    dataset_id: UUID
    version: int
    dataset_version_id: UUID
    org_id: UUID
    table_schema: dict[str, Any]
    schema_hash: str
    unique_key: list[str]


@dataclass(frozen=True)
class Author:
    """The owner of a query."""

    org_id: UUID
    caller: str
    user_id: UUID | None
    token_id: UUID | None


@dataclass(frozen=True)
class QueryRunRow:
    id: UUID
    actor: str
    user_id: UUID | None
    token_id: UUID | None
    sql: str
    sql_sha256: str
    pins: list[dict[str, Any]]
    status: str
    error_code: str | None
    result_hash: str | None
    left_out: list[str]
    row_count: int | None
    row_limit: int
    milliseconds: float
    engine_version: str
    replayable: bool
    why_not: str | None
    replay_of: UUID | None
    at: datetime


def tables(tx: Transaction, wanted: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], TableRow]:
    """By dataset and version; unrecorded versions are omitted."""
    rows = tx.all(TableRow, sql["tables"], datasets=[dataset for dataset, _ in wanted], versions=[version for _, version in wanted])
    return {(row.dataset_id, row.version): row for row in rows}


def files(tx: Transaction, *, dataset_version: UUID, version: int) -> list[tuple[str, str]]:
    """Paths, with the hash of each file's schema."""
    return [(path, hashed) for path, hashed in tx.tuples(sql["files"], dataset_version=dataset_version, version=version)]


def take_pin(tx: Transaction, caller: Caller, *, id: UUID, lease: timedelta, pins: Sequence[QueryPin]) -> None:
    tx.run(sql["need_not_survive_a_crash"])
    tx.run(sql["take_pin"], id=id, org=caller.org_id, caller=caller.name, user=caller.user_id, token=caller.token_id, lease=lease)
    if pins:
        tx.run(
            sql["pin_datasets"],
            pin=id,
            names=[pin.name for pin in pins],
            datasets=[pin.dataset_uuid for pin in pins],
            dataset_versions=[pin.dataset_version for pin in pins],
            versions=[pin.version for pin in pins],
        )


def renew(tx: Transaction, pins: list[UUID], *, lease: timedelta, now: datetime | None) -> set[UUID]:
    """The pins that have not expired."""
    return set(tx.values(sql["renew"], pins=pins, lease=lease, now=now))


def release(tx: Transaction, pin: UUID, *, now: datetime | None) -> Author | None:
    """The owner; None if the pin was already released or has expired."""
    return tx.find(Author, sql["release"], pin=pin, now=now)


def drop_pins(tx: Transaction, *, now: datetime | None) -> list[bool]:
    """For each dropped pin, whether it was never released."""
    return tx.values(sql["drop_pins"], now=now)


def add_run(tx: Transaction, run: RunFacts, *, id: UUID, by: Author, sql_sha256: str) -> datetime:
    """With the pins of its id; returns the time of the entry."""
    return tx.value(
        sql["add_run"], **run.model_dump(), id=id, org=by.org_id, actor=by.caller, user=by.user_id, token=by.token_id, sql_sha256=sql_sha256
    )


def run_at(tx: Transaction, id: UUID) -> datetime | None:
    return tx.value(sql["run_at"], id=id)


def runs(tx: Transaction, caller: Caller, *, everybody: bool, id: UUID | None = None, before: UUID | None = None, limit: int = 1) -> list[QueryRunRow]:
    """The newest first."""
    return tx.all(
        QueryRunRow, sql["runs"], org=caller.org_id, user=caller.user_id, token=caller.token_id, everybody=everybody, id=id, before=before, limit=limit
    )


def save(tx: Transaction, caller: Caller, *, id: UUID, name: str, statement: str, description: str) -> None:
    tx.run(sql["save"], id=id, org=caller.org_id, user=caller.user_id, token=caller.token_id, name=name, sql=statement, description=description)


def saved(tx: Transaction, caller: Caller, *, name: str | None = None) -> list[SavedQuery]:
    rows = tx.tuples(sql["saved"], org=caller.org_id, user=caller.user_id, token=caller.token_id, name=name)
    return [SavedQuery(name=found, sql=statement, description=description, saved_at=at) for found, statement, description, at in rows]


def forget(tx: Transaction, caller: Caller, *, name: str) -> bool:
    return tx.touched(sql["forget"], org=caller.org_id, user=caller.user_id, token=caller.token_id, name=name) == 1
