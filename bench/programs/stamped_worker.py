"""The worker, noting when each operator starts."""

from collections.abc import Mapping
from unittest.mock import patch

from bench.programs.stamps import Stamps
from tracelake.settings import read_settings
from tracelake.worker import process
from tracelake.worker.dispatcher import dispatcher_worker
from tracelake.worker.dispatcher.operators.contract import Operator, OperatorResult
from tracelake.worker.dispatcher.operators.registry import operator_for
from tracelake_sdk.tasks import TaskPayload


def main() -> None:
    stamps = Stamps("worker")

    def find_and_note(payload: TaskPayload, operators: Mapping[tuple[str, str], Operator]) -> Operator:
        operator = operator_for(payload, operators)

        def noted(payload: TaskPayload) -> OperatorResult:
            stamps.note(payload.job.operator)
            return operator(payload)

        return noted

    # The one function that hands an operator out; everything else is the process as it ships.
    with patch.object(dispatcher_worker, "operator_for", find_and_note):
        process.run(read_settings())


if __name__ == "__main__":
    main()
