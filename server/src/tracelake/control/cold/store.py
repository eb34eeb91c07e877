"""The tables of records that have left Postgres, one function per query."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "cold.sql")


@dataclass(frozen=True)
class Partition:
    name: str
    retention_class: str
    first_id: UUID
    below_id: UUID
    leaves: bool  # old enough, by the database's clock


@dataclass(frozen=True)
class LeavingRow:
    """A record as stored in its partition."""

    id: UUID
    org_id: UUID
    kind: str
    kind_version: int
    target_key: UUID
    source_id: str
    schema_name: str
    table_name: str
    producer_id: str
    produced_at: datetime
    quality: str | None
    job_id: str | None
    run_id: str | None
    namespace: str | None
    cluster: str
    workspace: str
    window_start: datetime | None
    window_end: datetime | None
    dataset_ids: list[UUID] | None
    record: str
    context: str
    stored_at: datetime
    xid: str
    seq: int
    retention_class: str


@dataclass(frozen=True)
class ColdTable:
    table_id: UUID
    made_at: datetime


@dataclass(frozen=True)
class FrozenPartition:
    """A partition whose files are written, with the bytes of the log entry that names them."""

    name: str
    delta_version: int
    body: bytes
    rows: int
    hash: str
    files: str  # as JSON
    at: datetime


@dataclass(frozen=True)
class ColdFileRow:
    path: str
    produced_to: datetime  # of its newest record
    first_xid: str         # of its first record in the log
    first_seq: int


@dataclass(frozen=True)
class LogEnd:
    xid: str
    seq: int


@dataclass(frozen=True)
class DroppedKind:
    kind: str
    before: datetime


# Runs
def begin_run(tx: Transaction, *, every: timedelta, hold: timedelta) -> bool:
    """Whether a run is due and no other process runs it."""
    return tx.touched(sql["begin_run"], every=every, hold=hold) > 0


def end_run(tx: Transaction) -> None:
    tx.run(sql["end_run"])


# Leaving
def partitions(tx: Transaction) -> list[Partition]:
    return tx.all(Partition, sql["partitions"])


def seal(tx: Transaction, name: str) -> bool:
    """The partition takes no more records; False if it no longer exists."""
    return tx.value(sql["seal"], name=name)


def leaving(tx: Transaction, partition: Partition, *, after: UUID, limit: int) -> list[LeavingRow]:
    return tx.all(LeavingRow, sql["leaving"], **{"class": partition.retention_class, "after": after, "below": partition.below_id, "limit": limit})


def lock_cold_table(tx: Transaction) -> None:
    tx.run(sql["lock_cold_table"])


def cold_table(tx: Transaction) -> ColdTable:
    return tx.get(ColdTable, sql["cold_table"], "The database has no cold table.")


def next_delta_version(tx: Transaction) -> int:
    return tx.value(sql["next_delta_version"])


def freeze(tx: Transaction, *, name: str, delta_version: int, body: bytes, rows: int, hash: str, files: str) -> None:
    """An entry that is already frozen does not change."""
    tx.run(sql["freeze"], name=name, delta_version=delta_version, body=body, rows=rows, hash=hash, files=files)


def frozen(tx: Transaction, name: str) -> FrozenPartition | None:
    return tx.find(FrozenPartition, sql["frozen"], name=name)


def unput(tx: Transaction) -> list[FrozenPartition]:
    return tx.all(FrozenPartition, sql["unput"])


def note_read_back(tx: Transaction, *, name: str, rows: int, hash: str) -> None:
    """Records that its files contain what was written; without this an archived partition is not dropped."""
    tx.run(sql["note_read_back"], name=name, rows=rows, hash=hash)


def drop_partition(tx: Transaction, name: str) -> int | None:
    """The number of rows that have left; None if the partition no longer exists."""
    return tx.value(sql["drop_partition"], name=name)


# Reading
def files(tx: Transaction, *, org: UUID, kinds: list[str], produced_from: datetime | str, produced_to: datetime | str) -> list[ColdFileRow]:
    """Of these kinds, or of all; files with the newest records first."""
    return tx.all(
        ColdFileRow, sql["files"], org=org, every_kind=not kinds, kinds=kinds, produced_from=produced_from, produced_to=produced_to
    )


def files_in_log(tx: Transaction, *, org: UUID, after: tuple[str, int], kinds: list[str]) -> list[ColdFileRow]:
    """Files with records after a position of the log, ordered by their first record."""
    return tx.all(ColdFileRow, sql["files_in_log"], org=org, xid=after[0], seq=after[1], every_kind=not kinds, kinds=kinds)


def log_end(tx: Transaction, org: UUID) -> LogEnd | None:
    return tx.find(LogEnd, sql["log_end"], org=org)


def dropped(tx: Transaction, *, org: UUID, kinds: list[str]) -> list[DroppedKind]:
    return tx.all(DroppedKind, sql["dropped"], org=org, every_kind=not kinds, kinds=kinds)
