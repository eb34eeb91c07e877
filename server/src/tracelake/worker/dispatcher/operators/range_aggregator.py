"""`range_aggregator`: joins single cursors, which arrive in order, into ranges aligned to an origin.

A range is emitted when a cursor at or past its end arrives. The state has the first range that is emitted (`first`), the end of the
ranges emitted so far (`told_until`), and the greatest cursor so far (`last`).
"""

from pydantic import BaseModel, ConfigDict

from tracelake.worker.dispatcher.operators.contract import OperatorResult, read
from tracelake.worker.dispatcher.operators.ranges import check_kind, cursor_of, manifest
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.dags.operators import RangeAggregatorConfig
from tracelake_sdk.datasets.cursors import number_of, number_of_size
from tracelake_sdk.datasets.scopes import Cursor, CursorScope, spell_cursor
from tracelake_sdk.tasks import TaskPayload
from tracelake_sdk.tasks.events import EventDraft, EventKind


class AggregatorState(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    first: Cursor
    told_until: Cursor
    last: Cursor


def range_aggregator(payload: TaskPayload) -> OperatorResult:
    """Events and state after one cursor; raises OperatorFailed `out_of_order` for a lower one that no completed task had."""
    grid = _Grid(read(RangeAggregatorConfig, payload.job.config, what="config"))
    scope = payload.trigger.scope
    if not isinstance(scope, CursorScope):
        raise OperatorFailed("scope_not_a_cursor", "The aggregator needs single cursors; give it an input that emits them.", retry=False)
    cursor = scope.value
    check_kind(cursor, grid.config.cursor)
    if payload.state is None or payload.state.value is None:
        start = grid.boundary(grid.index(cursor))
        return OperatorResult(state=AggregatorState(first=start, told_until=start, last=cursor).model_dump(mode="json"))
    state = read(AggregatorState, payload.state.value, what="state")
    if number_of(cursor) > number_of(state.last):
        return _advance(grid, state, cursor, payload.limits.max_events)
    if payload.trigger.event_kind is EventKind.REWRITTEN:
        return _emit_again(grid, state, cursor, str(payload.trigger.id))
    if payload.trigger.seen_before:
        return OperatorResult()
    raise OperatorFailed(
        "out_of_order",
        f"Cursor {spell_cursor(cursor)} arrived after {spell_cursor(state.last)}, and no completed task had it; emit cursors in ascending order, then resume the job.",
        retry=False,
    )


class _Grid:
    """The boundaries `origin + n·range_size`, by their n."""

    def __init__(self, config: RangeAggregatorConfig) -> None:
        self.config: RangeAggregatorConfig = config
        self._origin: int = number_of(config.origin)
        self._size: int = number_of_size(config.range_size)

    def index(self, cursor: Cursor) -> int:
        """The index of the range that contains the cursor."""
        return (number_of(cursor) - self._origin) // self._size

    def boundary(self, index: int) -> Cursor:
        return cursor_of(self._origin + index * self._size, self.config.cursor)

    def event_of(self, index: int, kind: EventKind, revision: str) -> EventDraft:
        return manifest(self.boundary(index), self.boundary(index + 1), kind, revision)


def _advance(grid: _Grid, state: AggregatorState, cursor: Cursor, most: int) -> OperatorResult:
    """Every range that ends at or before the cursor and was not emitted yet."""
    begin, end = grid.index(state.told_until), grid.index(cursor)
    if end - begin > most:
        raise OperatorFailed(
            "jump_too_large",
            f"The cursor jumps over {end - begin} ranges, and one task emits at most {most}; resume the job and emit cursors in between, "
            "or use a larger range_size.",
            retry=False,
        )
    events = [grid.event_of(index, EventKind.MATERIALIZED, "") for index in range(begin, end)]
    moved = AggregatorState(first=state.first, told_until=grid.boundary(end), last=cursor)
    return OperatorResult(events, moved.model_dump(mode="json"))


def _emit_again(grid: _Grid, state: AggregatorState, cursor: Cursor, revision: str) -> OperatorResult:
    """A rewritten cursor rewrites its range, if that was emitted; a range that is still open will be emitted later, with the new data."""
    if number_of(state.first) <= number_of(cursor) < number_of(state.told_until):
        return OperatorResult([grid.event_of(grid.index(cursor), EventKind.REWRITTEN, revision)])
    return OperatorResult()
