"""Deploy: a definition becomes a DAG version with its jobs, generations and datasets, and is activated, in one transaction."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import orjson

from tracelake.control.access import store as access
from tracelake.control.access.callers import Caller, Right
from tracelake.control.dags import store as dags
from tracelake.control.dags.store import Dag
from tracelake.control.database.transactions import Database, Role, Transaction
from tracelake.control.deploys.dag_file import parse_dag
from tracelake.control.deploys.dag_hashes import config_hash, lineage_hashes, spec_hash
from tracelake.control.deploys.dag_rules import ReadableDataset, writes_files
from tracelake.control.pools import store as pools
from tracelake.control.registry import store as registry
from tracelake.control.registry.store import NamedDataset
from tracelake_sdk.dags import DagSpec, JobOutput, JobSpec, Layer
from tracelake_sdk.errors import NameTaken, RebuildNeeded, Unavailable
from tracelake_sdk.operators import OPERATORS
from tracelake_sdk.status import Deployed


@dataclass(frozen=True)
class Deploys:
    database: Database
    vars: Mapping[str, str]

    def deploy(self, caller: Caller, text: str, *, dry_run: bool = False) -> Deployed:
        """Activates a first version; the same definition again makes nothing, another one is refused. A dry run only judges."""
        caller.require(Right.DEPLOY)
        with self.database.transaction("deploy", role=Role.DEFINE) as tx:
            dags.lock_org(tx, caller.org_id)
            readable = {dataset.name: dataset for dataset in registry.by_names(tx, org=caller.org_id, names=registry.names(tx, org=caller.org_id))}
            datasets = {name: ReadableDataset(Layer(dataset.layer), dataset.has_files) for name, dataset in readable.items()}
            spec = parse_dag(text, vars=self.vars, datasets=datasets)
            hashed = spec_hash(spec)
            current = dags.find_dag(tx, org=caller.org_id, name=spec.name)
            if current is not None and current.active_version_id is not None:
                return _same(tx, caller, current, spec, hashed)
            for name in spec.publish:
                if name in readable:
                    raise NameTaken(f"The dataset name {name!r} is taken by another DAG of this org; publish under another name.")
            if dry_run:
                return Deployed(dag=spec.name, version=1, created=True, jobs=[job.name for job in spec.jobs], published={})
            published = _Activation(tx, caller, spec, readable).activate(hashed)
            access.append_audit(tx, org=caller.org_id, actor=caller.name, action="deploy", object=spec.name, detail={"spec_hash": hashed})
        return Deployed(dag=spec.name, version=1, created=True, jobs=[job.name for job in spec.jobs], published=published)


def _same(tx: Transaction, caller: Caller, current: Dag, spec: DagSpec, hashed: str) -> Deployed:
    if current.spec_hash != hashed or current.number is None:
        raise RebuildNeeded(
            f"DAG {spec.name!r} is active with another definition (version {current.number}), and changing an active DAG is not supported yet;"
            " deploy the new definition under another name."
        )
    named = registry.by_names(tx, org=caller.org_id, names=list(spec.publish))
    published = {dataset.name: str(dataset.id) for dataset in named}
    return Deployed(dag=spec.name, version=current.number, created=False, jobs=[job.name for job in spec.jobs], published=published)


class _Activation:
    """Writes one first version, in the order in which its parts refer to each other."""

    def __init__(self, tx: Transaction, caller: Caller, spec: DagSpec, readable: dict[str, NamedDataset]) -> None:
        self._tx: Transaction = tx
        self._org: UUID = caller.org_id
        self._actor: str = caller.name
        self._spec: DagSpec = spec
        self._readable: dict[str, NamedDataset] = readable
        self._datasets: dict[tuple[str, int], UUID] = {}  # by job and output index
        self._pointers: dict[UUID, UUID] = {}             # dataset → dataset version

    def activate(self, hashed: str) -> dict[str, str]:
        """The published names with their uuids."""
        tx, spec = self._tx, self._spec
        dag = dags.add_dag(tx, org=self._org, name=spec.name, actor=self._actor)
        producers = {self._readable[given.reads.dataset].dag_id for job in spec.jobs for given in job.inputs if not isinstance(given.reads, JobOutput)}
        # Also those whose datasets it starts reading: without their locks an event told meanwhile would miss the new reader.
        dags.lock_routing(tx, [dag, *producers])
        version = dags.add_version(tx, dag=dag, number=1, spec=spec.model_dump_json(), spec_hash=hashed, actor=self._actor)
        hashes = lineage_hashes(spec)
        keys = {job.name: dags.add_job_key(tx, dag=dag, name=job.name) for job in spec.jobs}
        generations = {job.name: dags.add_generation(tx, job_key=keys[job.name], lineage_hash=hashes[job.name]) for job in spec.jobs}
        for job in spec.jobs:
            self._register_outputs(job, keys[job.name], generations[job.name])
        for job in spec.jobs:
            self._add_job(job, version, keys[job.name], generations[job.name])
        for dataset, dataset_version in self._pointers.items():
            dags.add_pointer(tx, dag_version=version, dataset=dataset, dataset_version=dataset_version)
        dags.activate(tx, dag=dag, dag_version=version, pointer_set_hash=self._pointer_set_hash(), actor=self._actor)
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

    def _add_job(self, job: JobSpec, version: UUID, key: UUID, generation: UUID) -> None:
        pool = pools.find(self._tx, org=self._org, runtime=job.runtime.value, name=job.scaling.worker_pool)
        if pool is None:
            raise Unavailable(f"The pool {job.scaling.worker_pool!r} of runtime {job.runtime.value!r} is missing in this org.")
        ordered = OPERATORS[job.runtime.value, job.operator].ordered
        id = dags.add_job(
            self._tx,
            dag_version=version,
            job_key=key,
            generation=generation,
            pool=pool,
            spec=job.model_dump_json(),
            config_hash=config_hash(job),
            ordered=ordered,
            turns=1 if ordered else job.scaling.max_concurrency,
        )
        for index, given in enumerate(job.inputs):
            reads = given.reads
            dataset = self._datasets[reads.job, reads.output] if isinstance(reads, JobOutput) else self._readable[reads.dataset].id
            filter = given.where.model_dump(mode="json", exclude_none=True) if given.where else None
            dags.add_input(self._tx, job=id, index=index, dataset=dataset, trigger=given.trigger, filter=filter)

    def _publish(self) -> dict[str, str]:
        """Naming only: no task and no version comes of it."""
        for name, publish in self._spec.publish.items():
            registry.name_dataset(self._tx, org=self._org, name=name, dataset=self._datasets[publish.job, publish.output_index])
        return {name: str(self._datasets[publish.job, publish.output_index]) for name, publish in self._spec.publish.items()}

    def _pointer_set_hash(self) -> str:
        pairs = sorted((str(dataset), str(version)) for dataset, version in self._pointers.items())
        return hashlib.sha256(orjson.dumps(pairs)).hexdigest()
