"""The DAG tables, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.dags.stored_jobs import StoredJob
from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction

sql = load(__name__, "dags.sql")


@dataclass(frozen=True)
class Dag:
    id: UUID
    name: str
    active_version_id: UUID | None
    paused_at: datetime | None
    number: int | None
    spec: dict[str, Any] | None
    spec_hash: str | None


@dataclass(frozen=True)
class Job:
    """A job as the active version of its DAG defines it."""

    id: UUID
    generation_id: UUID
    job_key_id: UUID
    dag_id: UUID
    org_id: UUID
    dag: str
    dag_version: int
    name: str
    pool_id: UUID
    pool: str
    spec: dict[str, Any]
    config_hash: str
    ordered: bool
    turns: int | None
    paused: bool

    @property
    def key(self) -> str:
        return f"{self.dag}/{self.name}"

    @cached_property
    def stored(self) -> StoredJob:
        return StoredJob.model_validate(self.spec)


@dataclass(frozen=True)
class Output:
    generation_id: UUID
    output_index: int
    dataset_id: UUID
    dataset_version_id: UUID
    layer: str
    has_files: bool


@dataclass(frozen=True)
class Input:
    job_id: UUID
    index: int
    dataset_id: UUID
    trigger: bool
    filter: dict[str, Any] | None
    dataset_version_id: UUID | None
    has_files: bool
    name: str | None                     # of the dataset, where it is published
    dag_id: UUID                         # of its producer
    partition_by: dict[str, Any] | None  # as its producer declares it


@dataclass(frozen=True)
class SubscribedInput:
    """One triggering input of one current job; the subscriber itself is its generation."""

    dataset_id: UUID
    index: int
    filter: dict[str, Any] | None
    generation_id: UUID
    pool_id: UUID
    ordered: bool
    turns: int | None
    dag_id: UUID
    paused: bool


@dataclass(frozen=True)
class JobPause:
    id: UUID
    name: str
    paused_at: datetime | None
    pause_reason: str | None
    generation_id: UUID


@dataclass(frozen=True)
class DagVersionRow:
    id: UUID
    number: int
    spec_hash: str


@dataclass(frozen=True)
class BuiltJob:
    """A job of a DAG version with what it was built from."""

    id: UUID
    name: str
    job_key_id: UUID
    generation_id: UUID
    lineage_hash: str
    config_hash: str
    pool_id: UUID
    turns: int | None


@dataclass(frozen=True)
class ActivationRow:
    id: UUID
    pointer_set_hash: str
    user_id: UUID | None   # the activator; one of the two
    token_id: UUID | None


@dataclass(frozen=True)
class Activator:
    job_id: UUID
    user_id: UUID | None
    token_id: UUID | None


@dataclass(frozen=True)
class GrantRow:
    dag: str
    right: str
    role: str | None
    user: str | None
    service: str | None
    actor: str
    at: datetime


def lock_routing_shared(tx: Transaction, dags: list[UUID]) -> None:
    tx.run(sql["lock_routing_shared"], dags=dags)


def lock_routing(tx: Transaction, dags: list[UUID]) -> None:
    tx.run(sql["lock_routing"], dags=dags)


def add_dag(tx: Transaction, *, org: UUID, name: str, actor: str) -> UUID:
    id = new_id()
    tx.run(sql["add_dag"], id=id, org=org, name=name, actor=actor)
    return id


def find_dag(tx: Transaction, *, org: UUID, name: str) -> Dag | None:
    return tx.find(Dag, sql["find_dag"], org=org, name=name)


def ids(tx: Transaction, org: UUID) -> list[UUID]:
    """Of every DAG of the org."""
    return tx.values(sql["ids"], org=org)


def list_dags(tx: Transaction, *, org: UUID, name: str | None) -> list[Dag]:
    return tx.all(Dag, sql["list_dags"], org=org, name=name)


def add_version(tx: Transaction, *, dag: UUID, number: int, spec: str, spec_hash: str, actor: str) -> UUID:
    id = new_id()
    tx.run(sql["add_version"], id=id, dag=dag, number=number, spec=spec, spec_hash=spec_hash, actor=actor)
    return id


def add_job_key(tx: Transaction, *, dag: UUID, name: str) -> UUID:
    id = new_id()
    tx.run(sql["add_job_key"], id=id, dag=dag, name=name)
    return id


def add_generation(tx: Transaction, *, job_key: UUID, lineage_hash: str) -> UUID:
    id = new_id()
    tx.run(sql["add_generation"], id=id, job_key=job_key, lineage_hash=lineage_hash)
    return id


def add_job(
    tx: Transaction, *, dag_version: UUID, job_key: UUID, generation: UUID, pool: UUID, spec: str, config_hash: str, ordered: bool, turns: int | None
) -> UUID:
    id = new_id()
    tx.run(
        sql["add_job"],
        id=id,
        dag_version=dag_version,
        job_key=job_key,
        generation=generation,
        pool=pool,
        spec=spec,
        config_hash=config_hash,
        ordered=ordered,
        turns=turns,
    )
    return id


def add_input(tx: Transaction, *, job: UUID, index: int, dataset: UUID, trigger: bool, filter: dict[str, Any] | None) -> None:
    tx.run(sql["add_input"], job=job, index=index, dataset=dataset, trigger=trigger, filter=wire_json.text(filter) if filter else None)


def add_pointer(tx: Transaction, *, dag_version: UUID, dataset: UUID, dataset_version: UUID) -> None:
    tx.run(sql["add_pointer"], dag_version=dag_version, dataset=dataset, dataset_version=dataset_version)


def copy_pointers(tx: Transaction, *, dag_version: UUID, from_version: UUID) -> None:
    tx.run(sql["copy_pointers"], dag_version=dag_version, from_version=from_version)


def activate(
    tx: Transaction,
    *,
    dag: UUID,
    dag_version: UUID,
    pointer_set_hash: str,
    actor: str,
    user: UUID | None,
    token: UUID | None,
    previous: UUID | None = None,
) -> None:
    tx.run(
        sql["activate"],
        id=new_id(),
        dag=dag,
        dag_version=dag_version,
        pointer_set_hash=pointer_set_hash,
        actor=actor,
        user=user,
        token=token,
        previous=previous,
    )


def newest_activation(tx: Transaction, dag_version: UUID) -> ActivationRow:
    return tx.get(ActivationRow, sql["newest_activation"], "This DAG version was never activated.", dag_version=dag_version)


def versions_of_dag(tx: Transaction, dag: UUID) -> list[DagVersionRow]:
    return tx.all(DagVersionRow, sql["versions_of_dag"], dag=dag)


def built_jobs(tx: Transaction, dag_version: UUID) -> list[BuiltJob]:
    return tx.all(BuiltJob, sql["built_jobs"], dag_version=dag_version)


def dataset_edges(tx: Transaction, org: UUID) -> list[tuple[UUID, UUID]]:
    """(output, input) pairs over all active DAGs of the org."""
    return [(made, reads) for made, reads in tx.tuples(sql["dataset_edges"], org=org)]


def activators_of_jobs(tx: Transaction, jobs: list[UUID]) -> list[Activator]:
    return tx.all(Activator, sql["activators_of_jobs"], jobs=jobs)


# Permissions on DAGs
def rights_held(
    tx: Transaction, *, org: UUID, roles: list[str], user: UUID | None, token: UUID | None, dags: list[UUID] | None
) -> dict[UUID, set[str]]:
    """By DAG; of these DAGs, or of all."""
    return {dag: set(held) for dag, held in tx.tuples(sql["rights_held"], org=org, roles=roles, user=user, token=token, dags=dags)}


def grants(tx: Transaction, *, org: UUID, dag: UUID | None) -> list[GrantRow]:
    return tx.all(GrantRow, sql["grants"], org=org, dag=dag)


def add_grant(
    tx: Transaction, *, dag: UUID, right: str, actor: str, role: UUID | None = None, user: UUID | None = None, token: UUID | None = None
) -> None:
    tx.run(sql["add_grant"], dag=dag, right=right, role=role, user=user, token=token, actor=actor)


def remove_grants(
    tx: Transaction, *, org: UUID, dag: UUID, right: str, role: str | None, user: str | None, service: str | None
) -> None:
    tx.run(sql["remove_grants"], org=org, dag=dag, right=right, role=role, user=user, service=service)


def jobs_of_generations(tx: Transaction, generations: list[UUID]) -> dict[UUID, Job]:
    return send_jobs_of_generations(tx, generations).result()


def send_jobs_of_generations(tx: Transaction, generations: list[UUID]) -> Pending[dict[UUID, Job]]:
    return tx.send(Job, sql["jobs_of_generations"], generations=generations).then(lambda jobs: {job.generation_id: job for job in jobs})


def outputs_of_generations(tx: Transaction, generations: list[UUID]) -> dict[UUID, list[Output]]:
    found: dict[UUID, list[Output]] = {generation: [] for generation in generations}
    for output in tx.all(Output, sql["outputs_of_generations"], generations=generations):
        found[output.generation_id].append(output)
    return found


def inputs_of_jobs(tx: Transaction, jobs: list[UUID]) -> dict[UUID, list[Input]]:
    found: dict[UUID, list[Input]] = {job: [] for job in jobs}
    for input in tx.all(Input, sql["inputs_of_jobs"], jobs=jobs):
        found[input.job_id].append(input)
    return found


def send_subscribers_of_datasets(tx: Transaction, datasets: list[UUID]) -> Pending[list[SubscribedInput]]:
    return tx.send(SubscribedInput, sql["subscribers_of_datasets"], datasets=datasets)


def find_job(tx: Transaction, *, org: UUID, dag: str, job: str) -> Job | None:
    return tx.find(Job, sql["find_job"], org=org, dag=dag, job=job)


def pauses_of_dag(tx: Transaction, dag: UUID) -> list[JobPause]:
    return tx.all(JobPause, sql["pauses_of_dag"], dag=dag)


def pause_dag(tx: Transaction, dag: UUID) -> None:
    tx.run(sql["pause_dag"], dag=dag)


def resume_dag(tx: Transaction, dag: UUID) -> None:
    tx.run(sql["resume_dag"], dag=dag)


def pause_jobs(tx: Transaction, generations: list[UUID], *, reason: str) -> None:
    tx.run(sql["pause_jobs"], generations=generations, reason=reason)


def resume_job(tx: Transaction, job_key: UUID) -> None:
    tx.run(sql["resume_job"], job_key=job_key)
