"""Ranges become chunks, the same every time; after the aggregator it is the identity."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelake.worker.dispatcher.operators.contract import OperatorResult
from tracelake.worker.dispatcher.operators.range_splitter import range_splitter
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, RangeScope
from tracelake_sdk.tasks.events import EventDraft, EventKind

from ..payloads import Line, id_of, payload

FIVE = datetime(2024, 1, 10, 5, tzinfo=UTC)


def split(start: Any, end: Any, size: int | str, **more: Any) -> OperatorResult:
    cursor = "integer" if isinstance(start, int) else "timestamp"
    return range_splitter(payload("range_splitter", {"cursor": cursor, "chunk_size": size}, scope=RangeScope(start=start, end=end), **more))


def emitted(result: OperatorResult) -> list[tuple[Any, Any]]:
    return [(event.scope.start, event.scope.end) for event in result.events if isinstance(event.scope, RangeScope)]


@pytest.mark.proves("T9.2")
def test_chunks_are_counted_from_the_start_and_the_last_may_be_shorter():
    assert emitted(split(-5, 20, 10)) == [(-5, 5), (5, 15), (15, 20)]
    assert emitted(split(0, 3, 10)) == [(0, 3)]
    assert emitted(split(FIVE, FIVE + timedelta(minutes=40), "15m")) == [
        (FIVE, FIVE + timedelta(minutes=15)),
        (FIVE + timedelta(minutes=15), FIVE + timedelta(minutes=30)),
        (FIVE + timedelta(minutes=30), FIVE + timedelta(minutes=40)),
    ]


def test_a_chunk_is_emitted_with_its_manifest_and_the_time_of_its_event():
    [event] = split(FIVE, FIVE + timedelta(seconds=1, microseconds=5), "1h", event_time=FIVE).events
    assert event == EventDraft(
        output=0,
        scope=RangeScope(start=FIVE, end=FIVE + timedelta(seconds=1, microseconds=5)),
        event_time=FIVE,
        payload={"partition_key": "20240110T050000Z_20240110T050001.000005Z", "start": "2024-01-10T05:00:00Z", "end": "2024-01-10T05:00:01.000005Z"},
    )


def test_a_rewritten_range_rewrites_its_chunks():
    result = split(0, 20, 10, event_kind=EventKind.REWRITTEN, trigger="rewrite")
    assert [(event.kind, event.revision) for event in result.events] == [(EventKind.REWRITTEN, str(id_of("rewrite")))] * 2


def test_a_range_of_more_chunks_than_one_task_may_emit_is_refused_before_it_is_split():
    with pytest.raises(OperatorFailed) as caught:
        split(-(2**63), 2**63 - 1, 1)
    assert (caught.value.error_class, caught.value.retry) == ("too_many_chunks", False)
    assert len(split(0, 50, 10, max_events=5).events) == 5
    with pytest.raises(OperatorFailed):
        split(0, 51, 10, max_events=5)


@pytest.mark.parametrize("scope", [FullScope(), CursorScope(value=1), None])
def test_only_ranges_are_split(scope: Any):
    with pytest.raises(OperatorFailed) as caught:
        range_splitter(payload("range_splitter", {"cursor": "integer", "chunk_size": 10}, scope=scope))
    assert (caught.value.error_class, caught.value.retry) == ("scope_not_a_range", False)


def test_a_range_of_the_other_kind_of_cursor_is_refused():
    with pytest.raises(OperatorFailed) as caught:
        range_splitter(payload("range_splitter", {"cursor": "timestamp", "chunk_size": "1h"}, scope=RangeScope(start=0, end=10)))
    assert (caught.value.error_class, caught.value.retry) == ("cursor_type", False)


def test_a_range_that_ends_with_the_last_instant_is_split():
    end = datetime.max.replace(tzinfo=UTC)
    assert emitted(split(end - timedelta(hours=1), end, "2h")) == [(end - timedelta(hours=1), end)]


@pytest.mark.proves("T9.2")
@given(st.integers(-(2**63), 2**63 - 2), st.integers(1, 5000), st.integers(1, 5000))
def test_chunks_have_no_gap_and_no_overlap_and_are_the_same_again(start: int, length: int, size: int):
    end = min(start + length, 2**63 - 1)
    result = split(start, end, size)
    chunks = emitted(result)
    assert (chunks[0][0], chunks[-1][1]) == (start, end)
    assert all(before[1] == after[0] for before, after in pairwise(chunks))
    assert all(chunk_end - chunk_start == size for chunk_start, chunk_end in chunks[:-1])
    assert result == split(start, end, size)


@pytest.mark.proves("T9.2")
@given(
    st.fixed_dictionaries({"cursor": st.just("integer"), "range_size": st.integers(1, 60), "origin": st.integers(-100, 100)}),
    st.lists(st.integers(-500, 500), min_size=1, max_size=30),
)
def test_the_splitter_after_the_aggregator_is_the_identity(config: dict[str, Any], arriving: list[int]):
    line = Line(config)
    for cursor in sorted(arriving):
        line.arrive(cursor)
    chunks = [chunk for event in line.emitted if isinstance(event.scope, RangeScope) for chunk in emitted(split(event.scope.start, event.scope.end, 1))]
    assert line.state is not None
    assert [start for start, _ in chunks] == list(range(line.state["first"], line.state["told_until"]))
    assert all(end == start + 1 for start, end in chunks)
