"""The record tables, one function per query."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake.control.records.copy_lines import LatestEntry, RecordIdentity, cells_of
from tracelake.control.records.searches import Search, Visibility

sql = load(__name__, "records.sql")


@dataclass(frozen=True)
class RecordRow:
    id: UUID
    kind_version: int
    stored_at: datetime
    record: str
    context: str


@dataclass(frozen=True)
class LatestRow(RecordRow):
    kinds: int  # versions of the tenant's own kinds


@dataclass(frozen=True)
class LoggedRow(RecordRow):
    xid: str
    seq: int


@dataclass(frozen=True)
class TailEnd:
    org_id: UUID
    xid: str | None  # None: the log is empty
    seq: int | None
    unbegun: str


# Kinds
def number_of_kinds(tx: Transaction, org: UUID) -> int:
    return tx.value(sql["number_of_kinds"], org=org)


def kinds(tx: Transaction, org: UUID) -> list[str]:
    """As JSON, by name and version."""
    return tx.values(sql["kinds"], org=org)


def lock_kind(tx: Transaction, *, org: UUID, name: str) -> None:
    tx.run(sql["lock_kind"], org=org, name=name)


def add_kind(tx: Transaction, *, org: UUID, name: str, version: int, definition: str, actor: str) -> None:
    tx.run(sql["add_kind"], org=org, name=name, version=version, definition=definition, actor=actor)


def org_called(tx: Transaction, name: str) -> UUID | None:
    return tx.value(sql["org_called"], name=name)


# Storing
def ensure_partition(tx: Transaction, *, retention_class: str, moment: datetime) -> datetime:
    """Returns the end of the partition."""
    return tx.value(sql["ensure_partition"], **{"class": retention_class, "moment": moment})


def take_identities(tx: Transaction, records: Sequence[RecordIdentity]) -> list[bytes]:
    """Stores these identities, given in ascending order; returns those that already existed."""
    return tx.values(
        sql["take_identities"],
        identities=[one.key for one in records],
        contents=[one.content for one in records],
        ids=[one.id for one in records],
        classes=[one.retention_class for one in records],
    )


def identities(tx: Transaction, identities: list[bytes]) -> dict[bytes, tuple[bytes, UUID]]:
    """Content hash and record id of each."""
    return {identity: (content, id) for identity, content, id in tx.tuples(sql["identities"], identities=identities)}


def store_one(tx: Transaction, *, identity: RecordIdentity, line: str, target: str) -> bool:
    """Returns whether it was stored; otherwise its identity already exists. `target` is JSON."""
    return tx.value(sql["store_one"], **cells_of(line), identity=identity.key, content=identity.content, target=target) is not None


def copy_records(tx: Transaction, lines: Iterable[str]) -> None:
    tx.copy(sql["copy_records"], lines)


def set_latest(tx: Transaction, *, org: UUID, newest: Sequence[LatestEntry]) -> None:
    """One per kind and target, in ascending order."""
    tx.run(
        sql["set_latest"],
        org=org,
        kinds=[one.kind for one in newest],
        target_keys=[one.target_key for one in newest],
        produced=[one.produced_at for one in newest],
        ids=[one.id for one in newest],
        classes=[one.retention_class for one in newest],
        targets=[one.target for one in newest],
        datasets=[one.dataset_ids for one in newest],
    )


# Reading
def latest(tx: Transaction, *, org: UUID, kind: str, target_key: UUID, visibility: Visibility) -> LatestRow | None:
    return tx.find(LatestRow, sql["latest"], org=org, kind=kind, target_key=target_key, sees_all=visibility.all, seen=visibility.datasets)


def of_target(
    tx: Transaction, *, org: UUID, kind: str, target_key: UUID, before: tuple[datetime | str, UUID], limit: int, visibility: Visibility
) -> list[RecordRow]:
    return tx.all(
        RecordRow, sql["of_target"], org=org, kind=kind, target_key=target_key, before=before[0], before_id=before[1], limit=limit,
        sees_all=visibility.all, seen=visibility.datasets,
    )  # fmt: skip


def of_run(tx: Transaction, *, org: UUID, run_id: str, before: tuple[datetime | str, UUID], limit: int, visibility: Visibility) -> list[RecordRow]:
    return tx.all(
        RecordRow, sql["of_run"], org=org, run_id=run_id, before=before[0], before_id=before[1], limit=limit, sees_all=visibility.all, seen=visibility.datasets
    )


def candidates(tx: Transaction, *, org: UUID, search: Search, before: tuple[datetime | str, UUID], limit: int, visibility: Visibility) -> list[RecordRow]:
    return tx.all(
        RecordRow, sql["candidates"], org=org, before=before[0], before_id=before[1], limit=limit, sees_all=visibility.all, seen=visibility.datasets,
        **search.values,
    )  # fmt: skip


def targets(tx: Transaction, *, org: UUID, kind: str | None, visibility: Visibility) -> list[str]:
    """As JSON; one per kind and target."""
    return tx.values(sql["targets"], org=org, kind=kind, sees_all=visibility.all, seen=visibility.datasets)


# The log
def tail_ends(tx: Transaction, orgs: list[UUID]) -> list[TailEnd]:
    return tx.all(TailEnd, sql["tail_ends"], orgs=orgs)


def tail(
    tx: Transaction, *, org: UUID, after: tuple[str, int], last: tuple[str, int], kinds: list[str], limit: int, visibility: Visibility
) -> list[LoggedRow]:
    """Of these kinds, or of all; up to and including `last`."""
    return tx.all(
        LoggedRow, sql["tail"], org=org, xid=after[0], seq=after[1], last_xid=last[0], last_seq=last[1], every_kind=not kinds, kinds=kinds, limit=limit,
        sees_all=visibility.all, seen=visibility.datasets,
    )  # fmt: skip
