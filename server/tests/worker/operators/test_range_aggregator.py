"""Cursors in order become aligned ranges, each emitted once, whatever is repeated, retried or jumped over."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tracelake.worker.dispatcher.operators.range_aggregator import range_aggregator
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.datasets.scopes import FullScope, PartitionScope, RangeScope
from tracelake_sdk.tasks.events import EventDraft, EventKind

from ..payloads import Line, id_of, payload

TENS = {"cursor": "integer", "range_size": 10, "origin": 0}
HOURS = {"cursor": "timestamp", "range_size": "1h"}
FIVE = datetime(2024, 1, 10, 5, tzinfo=UTC)

cursors = st.lists(st.integers(-500, 500), min_size=1, max_size=30)
grids = st.fixed_dictionaries({"cursor": st.just("integer"), "range_size": st.integers(1, 60), "origin": st.integers(-100, 100)})


def emitted(events: list[EventDraft]) -> list[tuple[Any, Any]]:
    return [(event.scope.start, event.scope.end) for event in events if isinstance(event.scope, RangeScope)]


def refused(line: Line, cursor: int | datetime, **more: Any) -> tuple[str, bool]:
    with pytest.raises(OperatorFailed) as caught:
        line.arrive(cursor, **more)
    return caught.value.error_class, caught.value.retry


def test_a_range_is_emitted_when_a_cursor_at_its_end_arrives():
    line = Line(TENS)
    assert [emitted(line.arrive(cursor).events) for cursor in (3, 9, 10, 11)] == [[], [], [(0, 10)], []]
    assert line.state == {"first": 0, "told_until": 10, "last": 11}


@pytest.mark.proves("T9.1")
def test_a_jump_emits_every_range_it_passes():
    line = Line(TENS)
    line.arrive(3)
    assert emitted(line.arrive(47).events) == [(0, 10), (10, 20), (20, 30), (30, 40)]


def test_the_first_range_is_the_one_of_the_first_cursor():
    line = Line(TENS)
    line.arrive(57)
    assert emitted(line.arrive(61).events) == [(50, 60)]


def test_ranges_below_zero_and_below_the_origin_are_aligned_too():
    line = Line({"cursor": "integer", "range_size": 10, "origin": 3})
    line.arrive(-12)
    assert emitted(line.arrive(4).events) == [(-17, -7), (-7, 3)]


def test_the_manifest_names_its_range():
    line = Line(TENS)
    line.arrive(-5)
    [event] = line.arrive(0).events
    assert event == EventDraft(output=0, scope=RangeScope(start=-10, end=0), payload={"partition_key": "-10_0", "start": -10, "end": 0})


def test_times_are_emitted_in_a_fixed_format():
    line = Line(HOURS)
    line.arrive(FIVE + timedelta(minutes=59, microseconds=5))
    [event] = line.arrive(FIVE + timedelta(hours=1)).events
    assert event.payload == {"partition_key": "20240110T050000Z_20240110T060000Z", "start": "2024-01-10T05:00:00Z", "end": "2024-01-10T06:00:00Z"}
    assert line.state == {"first": "2024-01-10T05:00:00Z", "told_until": "2024-01-10T06:00:00Z", "last": "2024-01-10T06:00:00Z"}


def test_times_before_1970_are_aligned_to_the_origin():
    line = Line(HOURS)
    start = datetime(1969, 12, 31, 22, tzinfo=UTC)
    line.arrive(start + timedelta(minutes=10))
    assert emitted(line.arrive(start + timedelta(hours=1, seconds=1)).events) == [(start, start + timedelta(hours=1))]


def test_an_origin_between_two_seconds_keeps_the_keys_apart():
    line = Line({"cursor": "timestamp", "range_size": "1s", "origin": "2024-01-10T05:00:00.250000Z"})
    line.arrive(FIVE + timedelta(milliseconds=300))
    events = line.arrive(FIVE + timedelta(seconds=2, milliseconds=500)).events
    assert [event.payload["partition_key"] for event in events] == [
        "20240110T050000.250000Z_20240110T050001.250000Z",
        "20240110T050001.250000Z_20240110T050002.250000Z",
    ]


@pytest.mark.proves("T9.1")
def test_a_cursor_that_a_completed_task_had_is_a_duplicate():
    line = Line(TENS)
    for cursor in (3, 15):
        line.arrive(cursor)
    before = line.state
    for cursor in (3, 15):
        result = line.arrive(cursor)
        assert (result.events, result.state) == ([], None)
    assert line.state == before


@pytest.mark.proves("T9.1")
def test_a_lower_cursor_that_is_new_is_out_of_order_and_not_retried():
    line = Line(TENS)
    line.arrive(15)
    assert refused(line, 14) == ("out_of_order", False)


def test_a_rewritten_cursor_rewrites_its_range_if_that_was_emitted():
    line = Line(TENS)
    for cursor in (3, 25):
        line.arrive(cursor)
    result = line.arrive(14, rewritten=True, trigger="invalidation")
    [event] = result.events
    assert (event.scope, event.kind, event.revision) == (RangeScope(start=10, end=20), EventKind.REWRITTEN, str(id_of("invalidation")))
    assert result.state is None


@pytest.mark.parametrize("cursor", [25, 21, 20, -1, -100])
def test_a_rewritten_cursor_of_a_range_that_was_not_emitted_emits_nothing(cursor: int):
    line = Line(TENS)
    for earlier in (3, 25):
        line.arrive(earlier)
    result = line.arrive(cursor, rewritten=True)
    assert (result.events, result.state) == ([], None)


def test_a_rewritten_cursor_beyond_the_last_is_an_arrival():
    line = Line(TENS)
    line.arrive(3)
    result = line.arrive(12, rewritten=True)
    assert [(event.kind, event.revision) for event in result.events] == [(EventKind.MATERIALIZED, "")]
    assert line.state == {"first": 0, "told_until": 10, "last": 12}


def test_a_jump_over_more_ranges_than_one_task_may_emit_is_refused():
    line = Line(TENS)
    line.arrive(0)
    assert refused(line, 2**62) == ("jump_too_large", False)
    assert refused(line, 60, max_events=5) == ("jump_too_large", False)
    assert len(line.arrive(59, max_events=5).events) == 5


@pytest.mark.parametrize("scope", [FullScope(), PartitionScope(key="3"), RangeScope(start=1, end=2), None])
def test_only_single_cursors_are_aggregated(scope: Any):
    with pytest.raises(OperatorFailed) as caught:
        range_aggregator(payload("range_aggregator", TENS, scope=scope))
    assert (caught.value.error_class, caught.value.retry) == ("scope_not_a_cursor", False)


def test_a_cursor_of_the_other_kind_is_refused():
    assert refused(Line(TENS), FIVE) == ("cursor_type", False)
    assert refused(Line(HOURS), 5) == ("cursor_type", False)


@pytest.mark.parametrize(
    ("config", "cursor"),
    [
        ({"cursor": "integer", "range_size": 1000, "origin": 0}, -(2**63)),
        ({"cursor": "timestamp", "range_size": "36525d"}, datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_range_that_begins_before_every_cursor_is_refused(config: dict[str, Any], cursor: int | datetime):
    assert refused(Line(config), cursor) == ("cursor_out_of_bounds", False)


def test_the_greatest_cursors_are_aggregated():
    line = Line({"cursor": "integer", "range_size": 2**62})
    line.arrive(0)
    assert emitted(line.arrive(2**63 - 1).events) == [(0, 2**62)]
    late = Line({"cursor": "timestamp", "range_size": "1d"})
    late.arrive(datetime(9999, 12, 30, tzinfo=UTC))
    assert emitted(late.arrive(datetime.max.replace(tzinfo=UTC)).events) == [(datetime(9999, 12, 30, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))]


@given(grids, cursors)
def test_ranges_have_no_gap_and_no_overlap_and_cover_what_arrived(config: dict[str, Any], arriving: list[int]):
    line = Line(config)
    for cursor in sorted(arriving):
        line.arrive(cursor)
    ranges = emitted(line.emitted)
    assert all(end - start == config["range_size"] and (start - config["origin"]) % config["range_size"] == 0 for start, end in ranges)
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    covered = {value for start, end in ranges for value in range(start, end)}
    assert line.state is not None
    told_until = line.state["told_until"]
    assert {cursor for cursor in arriving if cursor < told_until} <= covered
    assert told_until <= max(arriving) < told_until + config["range_size"]
    assert all(end <= told_until for _, end in ranges)


@given(grids, cursors, st.data())
def test_duplicates_in_any_order_change_nothing(config: dict[str, Any], arriving: list[int], data: st.DataObject):
    plain, repeated = Line(config), Line(config)
    for cursor in sorted(set(arriving)):
        plain.arrive(cursor)
        repeated.arrive(cursor)
        for again in data.draw(st.lists(st.sampled_from(sorted(repeated.completed)), max_size=3)):
            repeated.arrive(int(again.removeprefix("cursor:")))
    assert (repeated.emitted, repeated.state) == (plain.emitted, plain.state)


@given(grids, cursors, st.booleans())
def test_a_retry_gives_the_same_events_and_state(config: dict[str, Any], arriving: list[int], rewritten: bool):
    line = Line(config)
    for cursor in sorted(arriving):
        given_ = line.payload(cursor, rewritten=rewritten)
        assert range_aggregator(given_) == range_aggregator(given_)
        line.arrive(cursor, rewritten=rewritten)


@given(grids, cursors, st.integers(-600, 600))
def test_a_new_cursor_is_out_of_order_exactly_when_it_is_not_above_the_last(config: dict[str, Any], arriving: list[int], cursor: int):
    assume(cursor not in arriving)
    line = Line(config)
    for earlier in sorted(arriving):
        line.arrive(earlier)
    if cursor > max(arriving):
        line.arrive(cursor)
        assert line.state is not None and line.state["last"] == cursor
    else:
        assert refused(line, cursor) == ("out_of_order", False)


def test_a_state_that_no_aggregator_wrote_is_refused():
    line = Line(HOURS)
    line.state = {"first": "somewhere", "told_until": 0, "last": 0}
    assert refused(line, FIVE) == ("state_invalid", False)


def test_cursors_compare_as_numbers():
    line = Line(TENS)
    line.arrive(9)
    assert emitted(line.arrive(10).events) == [(0, 10)]  # as text, 10 would come before 9
