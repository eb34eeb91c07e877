"""The registry tables, one function a query."""

from dataclasses import dataclass
from uuid import UUID

from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "registry.sql")


@dataclass(frozen=True)
class NamedDataset:
    name: str
    id: UUID
    layer: str
    has_files: bool
    dag_id: UUID  # of its producer


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


def name_dataset(tx: Transaction, *, org: UUID, name: str, dataset: UUID) -> bool:
    """Whether the name was free."""
    return tx.touched(sql["name_dataset"], org=org, name=name, dataset=dataset) == 1


def by_names(tx: Transaction, *, org: UUID, names: list[str]) -> list[NamedDataset]:
    return tx.all(NamedDataset, sql["by_names"], org=org, names=names)


def names(tx: Transaction, *, org: UUID) -> list[str]:
    return tx.values(sql["names"], org=org)


def add_version(tx: Transaction, *, dataset: UUID, generation: UUID) -> UUID:
    id = new_id()
    tx.run(sql["add_version"], id=id, dataset=dataset, generation=generation)
    return id


def facts(tx: Transaction, datasets: list[UUID]) -> dict[UUID, DatasetFacts]:
    return {fact.id: fact for fact in tx.all(DatasetFacts, sql["facts"], datasets=datasets)}
