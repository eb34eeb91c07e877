"""Activating: a definition becomes a DAG version with its jobs, generations and datasets, and that version becomes current."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from tracelake import wire_json
from tracelake.control.access.callers import Caller
from tracelake.control.dags import store as dags
from tracelake.control.dags.granting import grant_to_creator
from tracelake.control.database.transactions import Transaction
from tracelake.control.deploys.dag_hashes import config_hash, lineage_hashes
from tracelake.control.deploys.dag_rules import writes_files
from tracelake.control.deploys.dataset_graph import find_cycle
from tracelake.control.pools import store as pools
from tracelake.control.registry import store as registry
from tracelake.control.registry.store import PublishedDataset
from tracelake_sdk.dags import DagSpec, JobOutput, JobSpec
from tracelake_sdk.dags.operators import OPERATORS
from tracelake_sdk.errors import DatasetCycle, Unavailable


@dataclass(frozen=True)
class Deployment:
    """The caller, the definition, and the org's published datasets; under the org's lock."""

    tx: Transaction
    caller: Caller
    spec: DagSpec
    spec_hash: str
    named: Mapping[str, PublishedDataset]  # every published dataset of the org

    def turns(self, job: JobSpec) -> int | None:
        return 1 if self.ordered(job) else job.scaling.max_concurrency

    def ordered(self, job: JobSpec) -> bool:
        return OPERATORS[job.runtime.value, job.operator].ordered

    def pool(self, job: JobSpec) -> UUID:
        pool = pools.find(self.tx, org=self.caller.org_id, runtime=job.runtime.value, name=job.scaling.worker_pool)
        if pool is None:
            raise Unavailable(f"The pool {job.scaling.worker_pool!r} of runtime {job.runtime.value!r} is missing in this org.")
        return pool

    def reads(self, job: JobSpec, own: Mapping[tuple[str, int], UUID]) -> list[UUID]:
        """The datasets of a job's inputs; `own` are this DAG's, by job and output index."""
        return [
            own[given.reads.job, given.reads.output] if isinstance(given.reads, JobOutput) else self.named[given.reads.dataset].id
            for given in job.inputs
        ]

    def add_job(self, job: JobSpec, version: UUID, key: UUID, generation: UUID, own: Mapping[tuple[str, int], UUID]) -> None:
        id = dags.add_job(
            self.tx,
            dag_version=version,
            job_key=key,
            generation=generation,
            pool=self.pool(job),
            spec=job.model_dump_json(),
            config_hash=config_hash(job),
            ordered=self.ordered(job),
            turns=self.turns(job),
        )
        for index, (given, dataset) in enumerate(zip(job.inputs, self.reads(job, own), strict=True)):
            filter = given.where.model_dump(mode="json", exclude_none=True) if given.where else None
            dags.add_input(self.tx, job=id, index=index, dataset=dataset, trigger=given.trigger, filter=filter)

    def activate(self, dag: UUID, version: UUID, *, pointer_set_hash: str, previous: UUID | None = None) -> None:
        """Records the activation, with whose permissions the DAG reads other DAGs' datasets from now on; raises DatasetCycle."""
        caller = self.caller
        dags.activate(
            self.tx,
            dag=dag,
            dag_version=version,
            pointer_set_hash=pointer_set_hash,
            actor=caller.name,
            user=caller.user_id,
            token=caller.token_id,
            previous=previous,
        )
        found = find_cycle(dags.dataset_edges(self.tx, caller.org_id))
        if found is not None:
            raise DatasetCycle(f"Over all DAGs of the org, datasets would depend on each other: {' ← '.join(map(str, found))}.")


class FirstVersion:
    """Writes the first version of a DAG, in the order of references between its parts."""

    def __init__(self, deploying: Deployment) -> None:
        self._deploying: Deployment = deploying
        self._tx: Transaction = deploying.tx
        self._org: UUID = deploying.caller.org_id
        self._actor: str = deploying.caller.name
        self._spec: DagSpec = deploying.spec
        self._datasets: dict[tuple[str, int], UUID] = {}  # by job and output index
        self._pointers: dict[UUID, UUID] = {}             # dataset → dataset version

    def activate(self) -> dict[str, str]:
        """The published names with their uuids."""
        tx, spec = self._tx, self._spec
        dag = dags.add_dag(tx, org=self._org, name=spec.name, actor=self._actor)
        grant_to_creator(tx, self._deploying.caller, dag)
        named = self._deploying.named
        producers = {named[given.reads.dataset].dag_id for job in spec.jobs for given in job.inputs if not isinstance(given.reads, JobOutput)}
        # Also DAGs whose datasets it starts reading: without their locks an event emitted meanwhile would miss the new subscriber.
        dags.lock_routing(tx, [dag, *producers])
        version = dags.add_version(tx, dag=dag, number=1, spec=spec.model_dump_json(), spec_hash=self._deploying.spec_hash, actor=self._actor)
        hashes = lineage_hashes(spec)
        keys = {job.name: dags.add_job_key(tx, dag=dag, name=job.name) for job in spec.jobs}
        generations = {job.name: dags.add_generation(tx, job_key=keys[job.name], lineage_hash=hashes[job.name]) for job in spec.jobs}
        for job in spec.jobs:
            self._register_outputs(job, keys[job.name], generations[job.name])
        for job in spec.jobs:
            self._deploying.add_job(job, version, keys[job.name], generations[job.name], self._datasets)
        for dataset, dataset_version in self._pointers.items():
            dags.add_pointer(tx, dag_version=version, dataset=dataset, dataset_version=dataset_version)
        self._deploying.activate(dag, version, pointer_set_hash=self._pointer_set_hash())
        return self._publish()

    def _register_outputs(self, job: JobSpec, key: UUID, generation: UUID) -> None:
        for index, output in enumerate(job.outputs):
            dataset = registry.register(
                self._tx, org=self._org, job_key=key, output_index=index, layer=output.layer.value, has_files=writes_files(job)
            )
            registry.revise(
                self._tx, dataset=dataset, domain=output.domain, owner=output.owner, description=output.description, actor=self._actor
            )
            self._datasets[job.name, index] = dataset
            self._pointers[dataset] = registry.add_version(self._tx, dataset=dataset, generation=generation)

    def _publish(self) -> dict[str, str]:
        """Only names change: no task and no version is created."""
        for name, publish in self._spec.publish.items():
            registry.name_dataset(self._tx, org=self._org, name=name, dataset=self._datasets[publish.job, publish.output_index])
        return {name: str(self._datasets[publish.job, publish.output_index]) for name, publish in self._spec.publish.items()}

    def _pointer_set_hash(self) -> str:
        pairs = sorted((str(dataset), str(version)) for dataset, version in self._pointers.items())
        return hashlib.sha256(wire_json.encode(pairs)).hexdigest()
