"""Whether this release can run a DAG's jobs: their runtimes, their operators, and the configs in full."""

from typing import Any

from pydantic import ValidationError

from tracelake.control.deploys.dag_findings import Suggestion, one_of, path_below, quoted
from tracelake.control.deploys.dag_rules import DagCheck, read_by
from tracelake_sdk.dags import JobOutput, JobSpec, UpdateStrategy
from tracelake_sdk.dags.locations import LocationPath
from tracelake_sdk.dags.operators import OPERATORS, OperatorSpec
from tracelake_sdk.dags.spark_schemas import check_types
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.errors.dags import (
    DagKeyMissing,
    DagKeyUnknown,
    DagValueUnknown,
    LocationNotAllowed,
    LocationPathInvalid,
    LocationUnknown,
    OperatorActivationWrong,
    OperatorConfigInvalid,
    OperatorCursorMismatch,
    OperatorInputsWrong,
    OperatorOutputsWrong,
    OperatorScopeMismatch,
    OperatorUnknown,
    RuntimeNotAvailable,
)
from tracelake_sdk.wording import plural

_MOST_NAMED = 10
_RUNTIMES = frozenset(runtime for runtime, _ in OPERATORS)


def check_operators(dag: DagCheck) -> tuple[JobSpec, ...]:
    """The jobs with their operators' configs in full, every default spelled out; good when there are no findings."""
    jobs = tuple(_checked(dag, job, f"jobs[{index}]") for index, job in enumerate(dag.spec.jobs))
    for index, job in enumerate(jobs):
        for number, reads in _triggers(job):
            _check_scopes(dag, job, reads, f"jobs[{index}].inputs[{number}].from")
    _compare_cursors(dag, jobs)
    return jobs


def _checked(dag: DagCheck, job: JobSpec, at: str) -> JobSpec:
    if job.runtime not in _RUNTIMES:
        what = f"this release runs no operators of runtime {quoted(job.runtime)}"
        dag.add(RuntimeNotAvailable, f"{at}.runtime", what, f"Use {one_of(sorted(_RUNTIMES))}")
        return job
    operator = OPERATORS.get((job.runtime, job.operator))
    if operator is None:
        known = [name for runtime, name in OPERATORS if runtime == job.runtime]
        remedy = Suggestion(job.operator, known, otherwise=f"It has {one_of(known)}")
        dag.add(OperatorUnknown, f"{at}.operator", f"the runtime {quoted(job.runtime)} has no operator {quoted(job.operator)}", remedy)
        return job
    _check_edges(dag, job, operator, at)
    for key in operator.keys_to_append:
        if job.update_strategy is UpdateStrategy.REPLACE and job.config.get(key) is not None:
            what = f"{quoted(operator.name)} reads everything in each run if it replaces, and `{key}` needs `append`"
            dag.add(OperatorConfigInvalid, f"{at}.config.{key}", what, f"Remove `{key}`, or write `update_strategy: append`")
    _check_columns(dag, job, operator, at)
    _check_locations(dag, job, operator, at)
    config = _full_config(dag, job, operator, at)
    return job if config is None else job.model_copy(update={"config": config})


def _check_edges(dag: DagCheck, job: JobSpec, operator: OperatorSpec, at: str) -> None:
    name = quoted(operator.name)
    if job.activation not in operator.activations:
        words = " or ".join(f"`activation: {word}`" for word in sorted(operator.activations))
        dag.add(OperatorActivationWrong, f"{at}.activation", f"{name} cannot be {job.activation}", f"Write {words}")
    elif not operator.inputs.allows(len(job.inputs)):
        what = f"{name} takes {operator.inputs} {plural(operator.inputs.most, 'input')} and has {len(job.inputs)}"
        dag.add(OperatorInputsWrong, f"{at}.inputs", what, "Add or remove inputs")
    elif operator.every_input_triggers and not all(given.trigger for given in job.inputs):
        index = next(index for index, given in enumerate(job.inputs) if not given.trigger)
        dag.add(OperatorInputsWrong, f"{at}.inputs[{index}].trigger", f"{name} works on the events of its input", "Remove `trigger: false`")
    elif operator.reads_files and not any(read_by(dag, given.reads).has_files for given in job.inputs):
        remedy = "Add an input that has rows, with `trigger: false` if its events are not to start the job"
        dag.add(OperatorInputsWrong, f"{at}.inputs", f"{name} reads rows, and the inputs are events and ranges only", remedy)
    if not operator.outputs.allows(len(job.outputs)):
        what = f"{name} has {operator.outputs} {plural(operator.outputs.most, 'output')}, and {len(job.outputs)} are declared"
        dag.add(OperatorOutputsWrong, f"{at}.outputs", what, "Add or remove outputs")


def _check_columns(dag: DagCheck, job: JobSpec, operator: OperatorSpec, at: str) -> None:
    listed = job.config.get(operator.columns_key) if operator.columns_key else None
    if not isinstance(listed, str):
        return
    try:
        check_types(listed)
    except ValueError as error:
        dag.add(OperatorConfigInvalid, f"{at}.config.{operator.columns_key}", str(error), "Write the columns like `order_id BIGINT, amount DECIMAL(10,2)`")


def _check_locations(dag: DagCheck, job: JobSpec, operator: OperatorSpec, at: str) -> None:
    for key in operator.location_keys:
        given = job.config.get(key)
        if not isinstance(given, str):
            continue
        try:
            name = LocationPath.parse(given).location
        except ValueError as error:
            dag.add(LocationPathInvalid, f"{at}.config.{key}", f"{quoted(given)} is not a path below a location: {error}", _may_use(dag))
            continue
        if name in dag.barred_locations:
            what = f"you have no permission to use the location {quoted(name)}"
            dag.add(LocationNotAllowed, f"{at}.config.{key}", what, f"Ask an admin to grant it to one of your roles with `tracelake admin location grant {name} ROLE`")
        elif name not in dag.locations:
            dag.add(LocationUnknown, f"{at}.config.{key}", f"the org has no location {quoted(name)}", Suggestion(name, dag.locations, otherwise=_may_use(dag)))


def _may_use(dag: DagCheck) -> str:
    if not dag.locations:
        return "Ask an admin for a location with `tracelake admin location add`, and write its name and a path below it"
    return f"Write the name of a location and a path below it; you may use {one_of(sorted(dag.locations)[:_MOST_NAMED])}"


def _full_config(dag: DagCheck, job: JobSpec, operator: OperatorSpec, at: str) -> dict[str, Any] | None:
    """The config as its model spells it; None, with findings, when it is not one."""
    try:
        return operator.config.model_validate(job.config).model_dump(mode="json")
    except ValidationError as error:
        problems = error.errors(include_url=False)
        misspelt = any(problem["type"] == "extra_forbidden" for problem in problems)
        for problem in problems:
            if not (misspelt and problem["type"] == "missing"):  # most likely what is misspelt
                _tell_config(dag, operator, f"{at}.config", problem)
        return None


def _tell_config(dag: DagCheck, operator: OperatorSpec, at: str, problem: Any) -> None:
    fields = {field.alias or name: field for name, field in operator.config.model_fields.items()}
    if not problem["loc"]:  # of the config as a whole
        keys = f"Change one of {one_of(key for key in fields if f'`{key}' in str(problem['msg'])) or 'its keys'}"
        dag.add(OperatorConfigInvalid, at, str(problem["ctx"]["error"]), keys)
        return
    key = str(problem["loc"][0])
    takes = f"Give {fields[key].description}" if key in fields else ""
    match problem["type"]:
        case "extra_forbidden":
            known = f"The config of {quoted(operator.name)} has the keys {one_of(fields)}" if fields else f"{quoted(operator.name)} has no config; remove it"
            dag.add(DagKeyUnknown, path_below(at, key), f"{quoted(operator.name)} has no {quoted(key)}", Suggestion(key, fields, otherwise=known))
        case "missing":
            dag.add(DagKeyMissing, path_below(at, key), f"{quoted(operator.name)} needs `{key}`", takes)
        case "enum" if isinstance(problem["input"], str):
            dag.add(DagValueUnknown, path_below(at, key), f"{quoted(problem['input'])} is not valid here", takes)
        case "value_error":
            dag.add(OperatorConfigInvalid, path_below(at, key), str(problem["ctx"]["error"]), takes)
        case _:
            dag.add(OperatorConfigInvalid, path_below(at, key), "this value cannot be used here", takes)


def _triggers(job: JobSpec) -> list[tuple[int, JobOutput]]:
    """The outputs of this DAG whose events start the job, by input."""
    return [(number, given.reads) for number, given in enumerate(job.inputs) if given.trigger and isinstance(given.reads, JobOutput)]


def _check_scopes(dag: DagCheck, job: JobSpec, reads: JobOutput, at: str) -> None:
    parent = dag.jobs[reads.job]
    reader, source = OPERATORS.get((job.runtime, job.operator)), OPERATORS.get((parent.runtime, parent.operator))
    if reader is None or source is None or reader.receives is None:
        return
    cut = parent.outputs[reads.output].partition_by
    if source.emits and reader.receives != source.emits:
        what = f"{quoted(reader.name)} works on {reader.receives}s, and {quoted(parent.name)} emits {source.emits}s"
        between = "Add a `range_aggregator` between the two" if source.emits == "cursor" else "Read single cursors, such as those of an `emit`"
        dag.add(OperatorScopeMismatch, at, what, between)
    elif source.writes_files and (cut is None or cut.cursor is None):
        what = f"{quoted(reader.name)} works on {reader.receives}s, and {quoted(parent.name)} emits {'its whole table' if cut is None else 'partition keys'}"
        dag.add(OperatorScopeMismatch, at, what, f"Give the output of {quoted(parent.name)} a `partition_by` with a `cursor`")


def _compare_cursors(dag: DagCheck, jobs: tuple[JobSpec, ...]) -> None:
    """A job reads cursors of the type that is emitted to it."""
    by_name = {job.name: job for job in jobs}
    for index, job in enumerate(jobs):
        for _, reads in _triggers(job):
            received, emitted = str(job.config.get("cursor")), _cursor_emitted(by_name[reads.job], reads.output)
            if {received, emitted} == set(CursorType):
                what = f"this job reads {received} cursors, and {quoted(reads.job)} emits {emitted} ones"
                dag.add(OperatorCursorMismatch, f"jobs[{index}].config.cursor", what, "Give both the same `cursor`")


def _cursor_emitted(job: JobSpec, output: int) -> str:
    cut = job.outputs[output].partition_by
    return str(cut.cursor) if cut is not None else str(job.config.get("cursor"))
