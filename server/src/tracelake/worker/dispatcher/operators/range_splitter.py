"""`range_splitter`: cuts a range into chunks counted from its start; the last one may be shorter."""

from itertools import pairwise

from tracelake.worker.dispatcher.operators.contract import OperatorResult, read, rewriting
from tracelake.worker.dispatcher.operators.ranges import check_kind, cursor_of, manifest
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.dags.operators import RangeSplitterConfig
from tracelake_sdk.datasets.cursors import number_of, number_of_size
from tracelake_sdk.datasets.scopes import RangeScope
from tracelake_sdk.tasks import TaskPayload


def range_splitter(payload: TaskPayload) -> OperatorResult:
    config = read(RangeSplitterConfig, payload.job.config, what="config")
    scope = payload.trigger.scope
    if not isinstance(scope, RangeScope):
        raise OperatorFailed("scope_not_a_range", "The splitter needs ranges; give it an input that emits them.", retry=False)
    check_kind(scope.start, config.cursor)
    start, end, size = number_of(scope.start), number_of(scope.end), number_of_size(config.chunk_size)
    number, most = -((start - end) // size), payload.limits.max_events
    if number > most:
        raise OperatorFailed(
            "too_many_chunks", f"The range has {number} chunks, and one task emits at most {most}; use a larger chunk_size or smaller ranges.", retry=False
        )
    kind, revision = rewriting(payload)
    bounds = [cursor_of(bound, config.cursor) for bound in range(start, end, size)] + [scope.end]
    return OperatorResult([manifest(*chunk, kind, revision, payload.trigger.event_time) for chunk in pairwise(bounds)])
