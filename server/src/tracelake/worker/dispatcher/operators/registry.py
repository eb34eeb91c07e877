"""Which function runs an operator of runtime `dispatcher`."""

from collections.abc import Mapping
from types import MappingProxyType

from tracelake.worker.dispatcher.operators.contract import Operator
from tracelake.worker.dispatcher.operators.emit import emit
from tracelake.worker.dispatcher.operators.noop import noop
from tracelake.worker.dispatcher.operators.range_aggregator import range_aggregator
from tracelake.worker.dispatcher.operators.range_splitter import range_splitter
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.dags import Runtime
from tracelake_sdk.tasks import TaskPayload

OPERATOR_FUNCTIONS: Mapping[tuple[str, str], Operator] = MappingProxyType(
    {
        (Runtime.DISPATCHER.value, "emit"): emit,
        (Runtime.DISPATCHER.value, "noop"): noop,
        (Runtime.DISPATCHER.value, "range_aggregator"): range_aggregator,
        (Runtime.DISPATCHER.value, "range_splitter"): range_splitter,
    }
)


def operator_for(payload: TaskPayload, operators: Mapping[tuple[str, str], Operator]) -> Operator:
    job = payload.job
    try:
        return operators[job.runtime, job.operator]
    except KeyError:
        message = f"This worker has no operator {job.operator!r} of runtime {job.runtime!r}; run workers of the same release as control."
        raise OperatorFailed("operator_unknown", message, retry=False) from None
