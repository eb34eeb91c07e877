"""A stored definition of a job is read as another release wrote it."""

import json
from typing import Any

import pytest

from tracelake.control.dags.stored_jobs import StoredJob
from tracelake_sdk.dags import Activation, JobSpec, NullKeys, UpdateStrategy
from tracelake_sdk.dags.spec import DEFAULT_MAX_ATTEMPTS

DEPLOYED = JobSpec.model_validate({
    "name": "clean", "activation": "reactive", "runtime": "spark", "operator": "sql", "config": {"query": "SELECT 1"},
    "inputs": [{"from": {"job": "ingest", "output": 0}}, {"from": {"dataset": "customers"}}],
    "outputs": [{"layer": "silver", "domain": "sales", "owner": "ada", "partition_by": {"column": "day"}}],
    "update_strategy": "append", "unique_key": ["id"], "null_keys": "distinct", "max_attempts": 2,
})  # fmt: skip


def stored(**changed: Any) -> StoredJob:
    spec = json.loads(DEPLOYED.model_dump_json(by_alias=True)) | changed
    return StoredJob.model_validate({key: value for key, value in spec.items() if value != "absent"})


def test_what_a_deploy_stored_is_read_as_it_was_declared() -> None:
    job = stored()
    assert (job.activation, job.update_strategy, job.unique_key, job.null_keys, job.max_attempts) == (
        Activation.REACTIVE, UpdateStrategy.APPEND, ("id",), NullKeys.DISTINCT, 2,
    )  # fmt: skip
    assert [input.reads.name for input in job.inputs] == ["ingest", "customers"]
    assert job.outputs[0].partition == DEPLOYED.outputs[0].partition_by
    assert job.operator_spec.name == "sql"


@pytest.mark.parametrize(
    "changed",
    [
        {"invented": {"by": "a later release"}},
        {"unique_key": ["a.b"]},
        {"name": "A name that is refused today"},
        {"inputs": [{"from": {"job": "ingest", "output": 0, "as": "orders"}, "until": "tomorrow"}]},
        {"outputs": [{"layer": "platinum", "owner": "ada"}]},
    ],
)
def test_a_definition_of_another_release_is_read(changed: dict[str, Any]) -> None:
    assert stored(**changed).max_attempts == 2


def test_a_key_that_was_not_stored_has_its_default() -> None:
    job = stored(null_keys="absent", max_attempts="absent", unique_key="absent")
    assert (job.null_keys, job.max_attempts, job.unique_key) == (NullKeys.BLOCK, DEFAULT_MAX_ATTEMPTS, ())
