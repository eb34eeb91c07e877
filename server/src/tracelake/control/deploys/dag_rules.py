"""The rules that hold between the parts of a DAG: references, cycles, layers, keys and names."""

import graphlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from tracelake.control.deploys.dag_findings import DagFindings, FilePosition, Suggestion, one_of, quoted
from tracelake.control.deploys.dag_yaml import Node
from tracelake_sdk.dags import Activation, DagSpec, ExecutionStrategy, JobOutput, JobSpec, Layer, NamedDataset, NullKeys, Runtime, UpdateStrategy
from tracelake_sdk.dags.operators import OPERATORS
from tracelake_sdk.errors.dags import (
    DagAppendWithoutUniqueKey,
    DagCycle,
    DagDatasetOwn,
    DagDatasetUnknown,
    DagExecutionStrategyMissing,
    DagFieldNotApplicable,
    DagGoldWithoutSilver,
    DagInputDuplicate,
    DagInputOutputMissing,
    DagInputUnknownJob,
    DagInvalid,
    DagJobDuplicate,
    DagLayerBackwards,
    DagLayerSkipped,
    DagNoTriggeringInput,
    DagPartitionInvalid,
    DagPoolUnknown,
    DagPublishOutputMissing,
    DagPublishTwice,
    DagPublishUnknownJob,
    DagReactiveWithoutInputs,
    DagSourceMissing,
    DagSourceOnReactive,
    DagSourceWithInputs,
    DagUniqueKeyDuplicate,
    DagUniqueKeyUnused,
    DagUpdateStrategyMissing,
    InputNotReadable,
)

_HEIGHT = {Layer.BRONZE: 0, Layer.SILVER: 1, Layer.GOLD: 2}


@dataclass(frozen=True)
class ReadableDataset:
    """A dataset that another DAG publishes."""

    layer: Layer
    has_files: bool  # its versions are tables; without: events and ranges only


@dataclass(frozen=True)
class DagCheck:
    """A DAG under validation, the positions of its parts in the file, and what the org already has."""

    spec: DagSpec
    positions: Mapping[str, FilePosition]
    datasets: Mapping[str, ReadableDataset]  # by name
    unreadable: Collection[str]              # names of datasets that the caller may not read
    locations: Collection[str]               # names of locations that the caller may use
    barred_locations: Collection[str]        # names of the org's other locations
    pools: Collection[str]
    findings: DagFindings

    @cached_property
    def jobs(self) -> dict[str, JobSpec]:
        return {job.name: job for job in reversed(self.spec.jobs)}

    def add(self, kind: type[DagInvalid], path: str, what: str, remedy: str | Suggestion) -> None:
        """A finding at a path of the file, or at the nearest parent that exists."""
        found = path
        while found and found not in self.positions:
            found = found[: max(found.rfind("."), found.rfind("["), 0)]
        position = self.positions[found]
        self.findings.add(kind, FilePosition(path, position.line, position.column), what, remedy)


def positions_of(root: Node) -> dict[str, FilePosition]:
    """The position of each path of the file."""
    positions: dict[str, FilePosition] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        positions[node.position.path] = node.position
        if isinstance(node.value, dict):
            waiting.extend(node.value.values())
        elif isinstance(node.value, tuple):
            waiting.extend(node.value)
    return positions


def check_rules(dag: DagCheck) -> None:
    for rule in _RULES:
        rule(dag)
    for index, job in enumerate(dag.spec.jobs):
        for rule_of_job in _RULES_OF_A_JOB:
            rule_of_job(dag, job, f"jobs[{index}]")
    if dag.findings.first is None:  # layers are checked only if all references exist and form no cycle
        for index, job in enumerate(dag.spec.jobs):
            _layers_climb_in_order(dag, job, f"jobs[{index}]")


def _names_are_unique(dag: DagCheck) -> None:
    first: dict[str, int] = {}
    for index, job in enumerate(dag.spec.jobs):
        if job.name in first:
            dag.add(DagJobDuplicate, f"jobs[{index}].name", f"jobs[{first[job.name]}] is named {quoted(job.name)} too", "Rename one of the two")
        first.setdefault(job.name, index)


def _jobs_form_no_cycle(dag: DagCheck) -> None:
    order = {job.name: index for index, job in enumerate(dag.spec.jobs)}
    parents = {job.name: [reads.job for reads in _job_reads(job) if reads.job in order] for job in dag.spec.jobs}
    try:
        graphlib.TopologicalSorter(parents).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1][:-1]  # each the parent of the next, and the last of the first
        start = cycle.index(min(cycle, key=lambda name: order[name]))
        cycle = cycle[start:] + cycle[:start]
        job = dag.spec.jobs[order[cycle[0]]]
        at = next(at for at, given in enumerate(job.inputs) if isinstance(given.reads, JobOutput) and given.reads.job == cycle[-1])
        what = f"the jobs form a cycle: {' → '.join([*cycle, cycle[0]])}"
        dag.add(DagCycle, f"jobs[{order[cycle[0]]}].inputs[{at}].from.job", what, "Remove one of these inputs")


def _published_outputs_exist(dag: DagCheck) -> None:
    jobs = dag.jobs
    first: dict[tuple[str, int], str] = {}
    for name, output in dag.spec.publish.items():
        if output.job not in jobs:
            remedy = Suggestion(output.job, jobs, otherwise="Name a job of this DAG")
            dag.add(DagPublishUnknownJob, f"publish.{name}.job", f"the job {quoted(output.job)} was not found", remedy)
        elif output.output_index >= len(jobs[output.job].outputs):
            what, remedy = _no_output(jobs[output.job], output.output_index)
            dag.add(DagPublishOutputMissing, f"publish.{name}.output_index", what, remedy)
        elif (named := first.setdefault((output.job, output.output_index), name)) != name:
            dag.add(DagPublishTwice, f"publish.{name}", f"this output is already published as {quoted(named)}", "Keep one name for each output")


def _no_output(job: JobSpec, index: int) -> tuple[str, str]:
    what = f"the job {quoted(job.name)} has no output {index}"
    if not job.outputs:
        return what, f"Give {quoted(job.name)} an output first"
    return what, "Its only output is 0" if len(job.outputs) == 1 else f"Its outputs are 0 to {len(job.outputs) - 1}"


def _activation_fits(dag: DagCheck, job: JobSpec, at: str) -> None:
    if job.activation is Activation.SOURCE:
        if job.source is None:
            dag.add(DagSourceMissing, f"{at}.source", "a source job does not say which kind of source it is", "Add `source: {kind: manual}`")
        if job.inputs:
            remedy = "Remove them, or write `activation: reactive`"
            dag.add(DagSourceWithInputs, f"{at}.inputs", "a source job reads no datasets, but this one has inputs", remedy)
        if job.execution_strategy is not None:
            what = "a source job has no incoming scope, so no strategy applies"
            dag.add(DagFieldNotApplicable, f"{at}.execution_strategy", what, "Remove `execution_strategy`")
        return
    if job.source is not None:
        remedy = "Remove `source`, or write `activation: source`"
        dag.add(DagSourceOnReactive, f"{at}.source", "a reactive job is started by its inputs and has no source", remedy)
    if not job.inputs:
        remedy = "Add inputs, or write `activation: source`"
        dag.add(DagReactiveWithoutInputs, f"{at}.inputs", "a reactive job without inputs would never run", remedy)
    elif not any(given.trigger for given in job.inputs):
        dag.add(DagNoTriggeringInput, f"{at}.inputs", "no input triggers this job, so it would never run", "Remove `trigger: false` from at least one input")


def _inputs_exist(dag: DagCheck, job: JobSpec, at: str) -> None:
    jobs = dag.jobs
    first: dict[JobOutput | NamedDataset, int] = {}
    for index, given in enumerate(job.inputs):
        path = f"{at}.inputs[{index}].from"
        if (earlier := first.setdefault(given.reads, index)) != index:
            what = f"inputs[{earlier}] reads the same dataset, and one event makes one task"
            dag.add(DagInputDuplicate, path, what, "Keep one of the two")
        match given.reads:
            case JobOutput(job=name) if name not in jobs:
                remedy = Suggestion(name, jobs, otherwise="Name a job of this DAG, or read another DAG's dataset with `from: {dataset: …}`")
                dag.add(DagInputUnknownJob, f"{path}.job", f"the job {quoted(name)} was not found", remedy)
            case JobOutput(job=name, output=output) if output >= len(jobs[name].outputs):
                dag.add(DagInputOutputMissing, f"{path}.output", *_no_output(jobs[name], output))
            case NamedDataset(dataset=name) if name in dag.spec.publish:
                own = dag.spec.publish[name]
                remedy = f"Write `from: {{job: {own.job}, output: {own.output_index}}}`"
                dag.add(DagDatasetOwn, f"{path}.dataset", f"this DAG publishes {quoted(name)} itself", remedy)
            case NamedDataset(dataset=name) if name in dag.unreadable:
                remedy = f"Ask an admin for a role that reads {quoted(name)}"
                dag.add(InputNotReadable, f"{path}.dataset", f"you have no permission to read {quoted(name)}", remedy)
            case NamedDataset(dataset=name) if name not in dag.datasets:
                remedy = Suggestion(name, dag.datasets, otherwise="Deploy the DAG that publishes it first, or correct the name")
                dag.add(DagDatasetUnknown, f"{path}.dataset", f"no published dataset {quoted(name)} can be read", remedy)
            case _:
                pass


def _layers_climb_in_order(dag: DagCheck, job: JobSpec, at: str) -> None:
    parents = [read_by(dag, given.reads) for given in job.inputs]
    rows = writes_files(job)
    # A dataset without rows may trigger a job from any layer below, and does not count as a parent of its rows.
    silver = any(parent.layer is Layer.SILVER and (parent.has_files or not rows) for parent in parents)
    for index, output in enumerate(job.outputs):
        height = _HEIGHT[output.layer]
        for number, parent in enumerate(parents):
            path = f"{at}.inputs[{number}].from"
            if _HEIGHT[parent.layer] > height:
                what, remedy = f"a {output.layer} output does not read {parent.layer}", f"Raise outputs[{index}] to {parent.layer}, or read a lower layer"
                dag.add(DagLayerBackwards, path, what, remedy)
            elif height - _HEIGHT[parent.layer] > 1 and (parent.has_files or not rows):
                dag.add(DagLayerSkipped, path, f"a {output.layer} output does not read {parent.layer}", "Add a silver job between the two")
        if output.layer is Layer.SILVER and not parents:
            what, remedy = "a silver output reads bronze or silver, but the job has no inputs", "Write `layer: bronze`, or give the job an input"
            dag.add(DagLayerSkipped, f"{at}.outputs[{index}].layer", what, remedy)
        if output.layer is Layer.GOLD and not silver:
            what = f"a gold output has a silver parent, and no input of this job is silver{' and has rows' if rows else ''}"
            dag.add(DagGoldWithoutSilver, f"{at}.outputs[{index}].layer", what, "Add a silver input, or lower the layer")


def read_by(dag: DagCheck, reads: JobOutput | NamedDataset) -> ReadableDataset:
    """What an input reads; call it only after references were checked."""
    if isinstance(reads, NamedDataset):
        return dag.datasets[reads.dataset]
    producer = dag.jobs[reads.job]
    return ReadableDataset(producer.outputs[reads.output].layer, writes_files(producer))


def writes_files(job: JobSpec) -> bool:
    """Whether the job's outputs are tables; an unknown operator counts as one of its runtime."""
    operator = OPERATORS.get((job.runtime, job.operator))
    return job.runtime is not Runtime.DISPATCHER if operator is None else operator.writes_files


def _updates_fit(dag: DagCheck, job: JobSpec, at: str) -> None:
    if not writes_files(job):
        _without_rows(dag, job, at)
        return
    if job.outputs and job.update_strategy is None:
        what, remedy = "the job does not say what happens to existing rows", "Add `update_strategy: append` or `update_strategy: replace`"
        dag.add(DagUpdateStrategyMissing, f"{at}.update_strategy", what, remedy)
    if job.outputs and job.activation is Activation.REACTIVE and job.execution_strategy is None:
        what, remedy = "the job does not say which part of its output an event is about", "Add `execution_strategy: PerUpdate` or `execution_strategy: PerPartition`"
        dag.add(DagExecutionStrategyMissing, f"{at}.execution_strategy", what, remedy)
    _partitions_fit(dag, job, at)
    _keys_fit(dag, job, at)


def _without_rows(dag: DagCheck, job: JobSpec, at: str) -> None:
    per_partition = job.execution_strategy is ExecutionStrategy.PER_PARTITION
    distinct = job.null_keys is NullKeys.DISTINCT
    given = {"update_strategy": job.update_strategy, "unique_key": job.unique_key, "null_keys": distinct, "execution_strategy": per_partition}
    given |= {f"outputs[{index}].partition_by": output.partition_by for index, output in enumerate(job.outputs)}
    for key in (key for key, value in given.items() if value):
        what, remedy = "jobs of runtime `dispatcher` handle events and ranges, never rows", f"Remove `{key.rpartition('.')[2]}`"
        dag.add(DagFieldNotApplicable, f"{at}.{key}", what, remedy)


def _partitions_fit(dag: DagCheck, job: JobSpec, at: str) -> None:
    for index, output in enumerate(job.outputs):
        cut = output.partition_by
        if job.execution_strategy is ExecutionStrategy.PER_PARTITION and cut is not None and cut.cursor is not None and cut.range_size is None:
            what = "`PerPartition` needs the size of the ranges of this output"
            dag.add(DagPartitionInvalid, f"{at}.outputs[{index}].partition_by.range_size", what, "Add `range_size`, or write `execution_strategy: PerUpdate`")


def _keys_fit(dag: DagCheck, job: JobSpec, at: str) -> None:
    if job.update_strategy is UpdateStrategy.APPEND and not job.unique_key:
        what, remedy = "appended rows are deduplicated by their key, and `unique_key` is missing", "Add `unique_key: [column, …]`"
        dag.add(DagAppendWithoutUniqueKey, f"{at}.unique_key", what, remedy)
    if job.unique_key and job.update_strategy is UpdateStrategy.REPLACE:
        dag.add(DagUniqueKeyUnused, f"{at}.unique_key", "only an append uses a unique key", "Remove `unique_key`, or write `update_strategy: append`")
    if job.null_keys is NullKeys.DISTINCT and job.update_strategy is not UpdateStrategy.APPEND:
        dag.add(DagFieldNotApplicable, f"{at}.null_keys", "only an append has a unique key", "Remove `null_keys`, or write `update_strategy: append`")
    first: set[str] = set()
    for index, column in enumerate(job.unique_key):
        if column.casefold() in first:  # engines do not distinguish columns by case
            dag.add(DagUniqueKeyDuplicate, f"{at}.unique_key[{index}]", f"the column {quoted(column)} occurs twice in the key", "Keep one of the two")
        first.add(column.casefold())


def _pool_exists(dag: DagCheck, job: JobSpec, at: str) -> None:
    pool = job.scaling.worker_pool
    if pool not in dag.pools:
        remedy = Suggestion(pool, dag.pools, otherwise=f"The pools are {one_of(sorted(dag.pools))}")
        dag.add(DagPoolUnknown, f"{at}.scaling.worker_pool", f"the worker pool {quoted(pool)} was not found", remedy)


def _job_reads(job: JobSpec) -> list[JobOutput]:
    return [given.reads for given in job.inputs if isinstance(given.reads, JobOutput)]


_RULES: tuple[Callable[[DagCheck], None], ...] = (_names_are_unique, _jobs_form_no_cycle, _published_outputs_exist)
_RULES_OF_A_JOB: tuple[Callable[[DagCheck, JobSpec, str], None], ...] = (
    _activation_fits, _inputs_exist, _updates_fit, _pool_exists,
)
