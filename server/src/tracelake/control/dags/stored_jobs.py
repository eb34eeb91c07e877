"""Stored jobs: the definition of a job as a DAG version stored it, typed.

It is read leniently: a deploy of another release wrote it. A key that this release does not know is ignored, a missing one has its default,
and names that a later release would refuse stay as they are. One job that cannot be read must not stop the tasks of the others.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tracelake_sdk.dags import Activation, ExecutionStrategy, NullKeys, PartitionSpec, UpdateStrategy
from tracelake_sdk.dags.operators import OPERATORS, OperatorSpec
from tracelake_sdk.dags.spec import DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS


class _Stored(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class StoredSource(_Stored):
    """A job of the same DAG, or a dataset of another one."""

    job: str | None = None
    dataset: str | None = None

    @property
    def name(self) -> str:
        return self.job or self.dataset or ""


class StoredInput(_Stored):
    reads: StoredSource = Field(validation_alias="from")


class StoredOutput(_Stored):
    partition_by: dict[str, Any] | None = None

    @property
    def partition(self) -> PartitionSpec | None:
        return PartitionSpec.model_validate(self.partition_by) if self.partition_by else None


class StoredJob(_Stored):
    activation: Activation
    runtime: str
    operator: str
    config: dict[str, Any] = Field(default_factory=dict)
    inputs: tuple[StoredInput, ...] = ()
    outputs: tuple[StoredOutput, ...] = ()
    execution_strategy: ExecutionStrategy | None = None
    update_strategy: UpdateStrategy | None = None
    unique_key: tuple[str, ...] = ()
    null_keys: NullKeys = NullKeys.BLOCK
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS

    @property
    def operator_spec(self) -> OperatorSpec:
        return OPERATORS[self.runtime, self.operator]
