"""The worker, noting when each operator starts."""

from collections.abc import Mapping

from bench.programs.stamps import Stamps
from tracelake.settings import read_settings
from tracelake.worker import dispatching, process
from tracelake.worker.operators.contract import Operator, OperatorResult
from tracelake_sdk.tasks import TaskPayload


def main() -> None:
    stamps = Stamps("worker")
    find = dispatching.operator_for

    def find_and_note(payload: TaskPayload, operators: Mapping[tuple[str, str], Operator]) -> Operator:
        operator = find(payload, operators)

        def noted(payload: TaskPayload) -> OperatorResult:
            stamps.note(payload.job.operator)
            return operator(payload)

        return noted

    dispatching.operator_for = find_and_note
    process.run(read_settings())


if __name__ == "__main__":
    main()
