"""The registry tables, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction

sql = load(__name__, "registry.sql")


@dataclass(frozen=True)
class PublishedDataset:
    name: str
    id: UUID
    layer: str
    has_files: bool
    dag_id: UUID  # of its producer


@dataclass(frozen=True)
class Resolved:
    """What a name refers to now."""

    name: str
    dataset_id: UUID
    dataset_version_id: UUID | None
    version: int | None  # None: no version yet, or a dataset without files
    has_files: bool
    pinned: bool         # the name of a snapshot


@dataclass(frozen=True)
class SnapshotRow:
    name: str
    dataset_id: UUID
    dataset: str | None  # its own name
    version: int
    actor: str
    user_id: UUID | None
    token_id: UUID | None
    at: datetime


@dataclass(frozen=True)
class DatasetDescription:
    """The description of a dataset: domain, owner and text."""

    domain: str
    owner: str
    description: str


@dataclass(frozen=True)
class DatasetFacts:
    id: UUID
    name: str | None
    layer: str
    active: bool
    has_files: bool


def register(tx: Transaction, *, org: UUID, job_key: UUID, output_index: int, layer: str, has_files: bool) -> UUID:
    id = new_id()
    tx.run(sql["register"], id=id, org=org, job_key=job_key, output_index=output_index, layer=layer, has_files=has_files)
    return id


def revise(tx: Transaction, *, dataset: UUID, domain: str, owner: str, description: str, actor: str) -> None:
    tx.run(sql["revise"], dataset=dataset, domain=domain, owner=owner, description=description, actor=actor)


def descriptions(tx: Transaction, datasets: list[UUID]) -> dict[UUID, DatasetDescription]:
    return {dataset: DatasetDescription(*words) for dataset, *words in tx.tuples(sql["descriptions"], datasets=datasets)}


# Names; call functions that change one under the org's lock
def lock_org(tx: Transaction, org: UUID) -> None:
    tx.run(sql["lock_org"], org=org)


def name_dataset(tx: Transaction, *, org: UUID, name: str, dataset: UUID) -> None:
    tx.run(sql["name_dataset"], org=org, name=name, dataset=dataset)


def drop_names(tx: Transaction, *, org: UUID, names: list[str]) -> None:
    tx.run(sql["drop_names"], org=org, names=names)


def named(tx: Transaction, *, org: UUID) -> list[PublishedDataset]:
    """Every published dataset of the org."""
    return tx.all(PublishedDataset, sql["named"], org=org)


def snapshot_names(tx: Transaction, *, org: UUID, names: list[str]) -> list[str]:
    """Which of these names belong to snapshots."""
    return tx.values(sql["snapshot_names"], org=org, names=names)


def called(tx: Transaction, *, org: UUID, name: str | None, id: UUID | None) -> UUID | None:
    return tx.value(sql["called"], org=org, name=name, id=id)


def all_names(tx: Transaction, *, org: UUID, datasets: list[UUID] | None) -> list[str]:
    """Of these datasets, or of all; those of snapshots too."""
    return tx.values(sql["all_names"], org=org, datasets=datasets)


def resolve(tx: Transaction, org: UUID, names: list[str]) -> list[Resolved]:
    """What these names refer to, in one snapshot; unknown names are omitted."""
    return tx.all(Resolved, sql["resolve"], org=org, names=names)


def current_version(tx: Transaction, dataset: UUID) -> int | None:
    return tx.value(sql["current_version"], dataset=dataset)


def has_version(tx: Transaction, *, dataset: UUID, version: int) -> bool:
    return tx.value(sql["has_version"], dataset=dataset, version=version)


def snapshots(tx: Transaction, *, org: UUID, name: str | None = None, datasets: list[UUID] | None = None) -> list[SnapshotRow]:
    return tx.all(SnapshotRow, sql["snapshots"], org=org, name=name, datasets=datasets)


def add_snapshot(
    tx: Transaction, *, org: UUID, name: str, dataset: UUID, version: int, actor: str, user: UUID | None, token: UUID | None
) -> None:
    tx.run(sql["add_snapshot"], org=org, name=name, dataset=dataset, version=version, actor=actor, user=user, token=token)


def drop_snapshot(tx: Transaction, *, org: UUID, name: str) -> None:
    tx.run(sql["drop_snapshot"], org=org, name=name)


# Readers
def readable(
    tx: Transaction, *, org: UUID, roles: list[str], user: UUID | None, token: UUID | None, datasets: list[UUID] | None
) -> list[UUID]:
    return tx.values(sql["readable"], org=org, roles=roles, user=user, token=token, datasets=datasets)


def of_org(tx: Transaction, *, org: UUID, datasets: list[UUID]) -> list[UUID]:
    return tx.values(sql["of_org"], org=org, datasets=datasets)


def read_roles(tx: Transaction, dataset: UUID) -> list[str]:
    return tx.values(sql["read_roles"], dataset=dataset)


def set_read_roles(tx: Transaction, *, dataset: UUID, roles: list[UUID]) -> None:
    tx.run(sql["set_read_roles"], dataset=dataset, roles=roles)


def add_version(tx: Transaction, *, dataset: UUID, generation: UUID) -> UUID:
    id = new_id()
    tx.run(sql["add_version"], id=id, dataset=dataset, generation=generation)
    return id


def facts(tx: Transaction, datasets: list[UUID]) -> dict[UUID, DatasetFacts]:
    return send_facts(tx, datasets).result()


def send_facts(tx: Transaction, datasets: list[UUID]) -> Pending[dict[UUID, DatasetFacts]]:
    return tx.send(DatasetFacts, sql["facts"], datasets=datasets).then(lambda facts: {fact.id: fact for fact in facts})
