"""Redeploying: a new definition that produces the same rows becomes current; generations, pointers, cursors and tasks stay.

A change of rows is refused with the names of the jobs. Any other change (timeouts, attempts, scaling, pools, descriptions, names) is
activated as the next DAG version, or as an equal earlier one, under the DAG's routing lock.
"""

from collections.abc import Iterable
from uuid import UUID

from tracelake.control.dags import store as dags
from tracelake.control.dags.store import BuiltJob, Dag, Output
from tracelake.control.deploys import store
from tracelake.control.deploys.activating import Deployment
from tracelake.control.deploys.differences import Built, rebuild
from tracelake.control.deploys.unfinished_tasks import adapt, takes_turns
from tracelake.control.registry import store as registry
from tracelake.control.registry.store import DatasetDescription
from tracelake.control.tasks import store as tasks
from tracelake_sdk.dags import JobOutput, JobSpec
from tracelake_sdk.dags.status import Deployed
from tracelake_sdk.errors import RebuildNeeded


class Redeploy:
    """A new definition of an active DAG."""

    def __init__(self, deploying: Deployment, dag: Dag, active_version: UUID) -> None:
        self._deploying: Deployment = deploying
        self._dag: Dag = dag
        self._active: UUID = active_version
        self._jobs: dict[str, JobSpec] = {job.name: job for job in deploying.spec.jobs}
        self._built: dict[str, BuiltJob] = {job.name: job for job in dags.built_jobs(deploying.tx, active_version)}
        self._outputs: dict[tuple[str, int], UUID] = self._registered()

    def check(self) -> None:
        """Raises RebuildNeeded with the jobs whose rows would change."""
        built = {name: Built(job.config_hash, job.lineage_hash) for name, job in self._built.items()}
        needed = rebuild(built, self._deploying.spec, self._moved())
        if needed:
            raise RebuildNeeded(
                f"DAG {self._dag.name!r} is active as version {self._dag.number}, and this definition changes the rows of {needed};"
                " rebuilding jobs is not supported yet, so nothing was stored: deploy it with another `name` and with other names under `publish`.",
                jobs=needed.named(),
            )

    def would_be(self) -> Deployed:
        known = [version.number for version in dags.versions_of_dag(self._deploying.tx, self._dag.id) if version.spec_hash == self._deploying.spec_hash]
        return self._deployed(known[0] if known else self._next_number())

    def activate(self) -> tuple[Deployed, set[UUID]]:
        """The deployed version, and the pools in which a task may have become claimable."""
        tx, deploying = self._deploying.tx, self._deploying
        dags.lock_routing(tx, [self._dag.id])
        tasks.lock_lines(tx, sorted(job.generation_id for job in self._built.values()))
        id, number = self._version()
        before = dags.newest_activation(tx, self._active)
        deploying.activate(self._dag.id, id, pointer_set_hash=before.pointer_set_hash, previous=before.id)
        self._revise()
        self._publish()
        pools = {pool for built in self._built.values() for pool in self._follow(built)}
        return self._deployed(number), pools

    def _version(self) -> tuple[UUID, int]:
        """An equal earlier version, else the next one."""
        deploying, tx = self._deploying, self._deploying.tx
        for version in dags.versions_of_dag(tx, self._dag.id):
            if version.spec_hash == deploying.spec_hash:
                return version.id, version.number
        number = self._next_number()
        text = deploying.spec.model_dump_json()
        id = dags.add_version(tx, dag=self._dag.id, number=number, spec=text, spec_hash=deploying.spec_hash, actor=deploying.caller.name)
        for job in deploying.spec.jobs:
            built = self._built[job.name]
            deploying.add_job(job, id, built.job_key_id, built.generation_id, self._outputs)
        dags.copy_pointers(tx, dag_version=id, from_version=self._active)
        return id, number

    def _next_number(self) -> int:
        return 1 + max(version.number for version in dags.versions_of_dag(self._deploying.tx, self._dag.id))

    def _registered(self) -> dict[tuple[str, int], UUID]:
        """This DAG's datasets, by job and output index."""
        names = {job.generation_id: name for name, job in self._built.items()}
        found: Iterable[Output] = (output for outputs in dags.outputs_of_generations(self._deploying.tx, list(names)).values() for output in outputs)
        return {(names[output.generation_id], output.output_index): output.dataset_id for output in found}

    def _moved(self) -> set[str]:
        """Jobs with an input name that refers to another dataset than when they were built."""
        reads = dags.inputs_of_jobs(self._deploying.tx, [job.id for job in self._built.values()])
        before = {name: {input.index: input.dataset_id for input in reads[job.id]} for name, job in self._built.items()}
        return {
            name
            for name, job in self._jobs.items()
            for index, given in enumerate(job.inputs)
            if name in before and not isinstance(given.reads, JobOutput) and before[name].get(index) != self._deploying.named[given.reads.dataset].id
        }

    def _revise(self) -> None:
        """Changed descriptions of the outputs."""
        tx = self._deploying.tx
        before = registry.descriptions(tx, list(self._outputs.values()))
        for (job, index), dataset in self._outputs.items():
            output = self._jobs[job].outputs[index]
            if before[dataset] != DatasetDescription(output.domain, output.owner, output.description):
                registry.revise(
                    tx, dataset=dataset, domain=output.domain, owner=output.owner, description=output.description, actor=self._deploying.caller.name
                )

    def _publish(self) -> None:
        """Adds, moves and drops published names; no data changes."""
        tx, org = self._deploying.tx, self._deploying.caller.org_id
        before = {name: dataset.id for name, dataset in self._deploying.named.items() if dataset.dag_id == self._dag.id}
        after = self._published()
        if gone := [name for name, dataset in before.items() if after.get(name) != dataset]:
            registry.drop_names(tx, org=org, names=gone)
        for name, dataset in after.items():
            if before.get(name) != dataset:
                registry.name_dataset(tx, org=org, name=name, dataset=dataset)

    def _published(self) -> dict[str, UUID]:
        return {name: self._outputs[publish.job, publish.output_index] for name, publish in self._deploying.spec.publish.items()}

    def _follow(self, built: BuiltJob) -> set[UUID]:
        """Unfinished tasks continue under the job's new pool and turns."""
        tx, job = self._deploying.tx, self._jobs[built.name]
        pool, turns = self._deploying.pool(job), self._deploying.turns(job)
        if (pool, turns) == (built.pool_id, built.turns):
            return set()
        going = store.unfinished(tx, generation=built.generation_id, pool=built.pool_id)
        count = sum(takes_turns(task) for task in going) if turns is not None else 0
        first = tasks.draw_ordinals(tx, generation=built.generation_id, count=count) if count else 0
        changed = adapt(going, pool=pool, turns=turns, next_ordinal=first)
        if changed:
            store.follow(tx, changed)
        return {task.pool_id for task in changed if task.placed}

    def _deployed(self, number: int) -> Deployed:
        published = {name: str(dataset) for name, dataset in self._published().items()}
        return Deployed(dag=self._dag.name, version=number, created=True, jobs=list(self._jobs), published=published)
