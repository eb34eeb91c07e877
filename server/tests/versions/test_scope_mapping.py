"""Which scopes a task writes: from the event's scope, and against the scopes that are there."""

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelake.control.versions.scope_mapping import EVERYTHING, MAX_SPANS, Wanted, wanted, widened
from tracelake_sdk.dags import ExecutionStrategy, PartitionSpec
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope, covers, overlap, span_of

UPDATE, PARTITION = ExecutionStrategy.PER_UPDATE, ExecutionStrategy.PER_PARTITION
NOON = datetime(2024, 1, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def by(**keys: Any) -> PartitionSpec:
    return PartitionSpec.model_validate({"column": "c"} | keys)


def span(start: Any, end: Any) -> RangeScope:
    return RangeScope(start=start, end=end)


def at(value: Any) -> CursorScope:
    return CursorScope(value=value)


def key(text: str) -> PartitionScope:
    return PartitionScope(key=text)


def these(*scopes: Scope) -> Wanted:
    return Wanted(everything=False, scopes=scopes)


KEYS, NUMBERS, TIMES = by(), by(cursor="integer"), by(cursor="timestamp")
TENS, HOURS = by(cursor="integer", range_size=10), by(cursor="timestamp", range_size="1h")


@pytest.mark.proves("T8.3")
@pytest.mark.parametrize(("partition_by", "scope"), [(KEYS, key("*")), (NUMBERS, at(5)), (NUMBERS, span(3, 27)), (TIMES, at(NOON)), (TENS, span(3, 27)), (HOURS, span(NOON, NOON + HOUR))])
def test_per_update_is_the_events_own_scope(partition_by: PartitionSpec, scope: Scope) -> None:
    assert wanted(UPDATE, partition_by, scope) == these(scope)


@pytest.mark.proves("T8.3")
@pytest.mark.parametrize(("partition_by", "scope", "touched"), [
    (KEYS, key("../x"), (key("../x"),)),
    (TENS, at(5), (span(0, 10),)),
    (TENS, at(10), (span(10, 20),)),
    (TENS, at(-1), (span(-10, 0),)),
    (TENS, span(3, 27), (span(0, 10), span(10, 20), span(20, 30))),
    (TENS, span(10, 20), (span(10, 20),)),
    (by(cursor="integer", range_size=10, origin=3), span(3, 14), (span(3, 13), span(13, 23))),
    (HOURS, at(NOON + HOUR / 2), (span(NOON, NOON + HOUR),)),
    (by(cursor="timestamp", range_size="1h", origin="2024-01-01T00:15:00Z"), at(NOON), (span(NOON - HOUR * 3 / 4, NOON + HOUR / 4),)),
])
def test_per_partition_is_what_the_event_touches(partition_by: PartitionSpec, scope: Scope, touched: tuple[Scope, ...]) -> None:
    assert wanted(PARTITION, partition_by, scope) == these(*touched)


@pytest.mark.parametrize("strategy", [UPDATE, PARTITION, None])
@pytest.mark.parametrize(("partition_by", "scope"), [
    (None, key("a")), (None, at(1)), (None, FullScope()), (None, None), (KEYS, None), (KEYS, FullScope()), (TENS, FullScope()),
    (KEYS, at(1)), (KEYS, span(1, 2)), (TENS, key("a")), (TENS, at(NOON)), (HOURS, at(1)), (HOURS, span(1, 2)),
])
def test_a_trigger_that_does_not_map_means_everything(strategy: ExecutionStrategy | None, partition_by: PartitionSpec | None, scope: Scope | None) -> None:
    assert wanted(strategy, partition_by, scope) == EVERYTHING


def test_a_source_always_means_everything() -> None:
    assert wanted(None, TENS, at(5)) == EVERYTHING


@pytest.mark.parametrize("scope", [at(2**63 - 1), at(-(2**63)), span(2**63 - 5, 2**63 - 1)])
def test_spans_beyond_the_ends_of_numbers_ask_for_everything(scope: Scope) -> None:
    assert wanted(PARTITION, by(cursor="integer", range_size=100), scope) == EVERYTHING


@pytest.mark.parametrize("value", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
def test_spans_beyond_the_ends_of_time_ask_for_everything(value: datetime) -> None:
    assert wanted(PARTITION, by(cursor="timestamp", range_size="1w"), at(value)) == EVERYTHING


def test_an_event_that_touches_very_many_spans_asks_for_everything() -> None:
    assert len(wanted(PARTITION, TENS, span(0, MAX_SPANS * 10)).scopes) == MAX_SPANS
    assert wanted(PARTITION, TENS, span(0, MAX_SPANS * 10 + 1)) == EVERYTHING
    assert wanted(PARTITION, by(cursor="integer", range_size=1), span(-(2**63), 2**63 - 1)) == EVERYTHING


@pytest.mark.proves("T8.3")
@pytest.mark.parametrize(("asked", "current", "result"), [
    ([span(5, 15)], [], [span(5, 15)]),
    ([span(5, 15)], [span(0, 10), span(12, 20), span(20, 30)], [span(0, 20)]),
    ([span(0, 10)], [span(10, 20)], [span(0, 10)]),
    ([span(0, 30)], [span(0, 10), at(12), span(20, 30)], [span(0, 30)]),
    ([at(5)], [span(0, 10)], [span(0, 10)]),
    ([at(10)], [span(0, 10)], [at(10)]),
    ([at(5), at(5)], [at(5)], [at(5)]),
    ([at(5), span(8, 9)], [span(0, 10)], [span(0, 10)]),
    ([span(20, 30), span(0, 10)], [span(10, 20)], [span(0, 10), span(20, 30)]),
    ([span(20, 30), span(0, 10)], [span(9, 21)], [span(0, 30)]),
    ([span(0, 5), span(3, 9)], [], [span(0, 9)]),
    ([key("b"), key("a"), key("b")], [key("a"), key("c")], [key("a"), key("b")]),
    ([span(0, 5)], [span(NOON, NOON + HOUR)], [span(0, 5)]),
    ([key("a"), at(1)], [], [key("a"), at(1)]),
    ([at(1)], [FullScope()], [FullScope()]),
    ([FullScope()], [span(0, 10), span(10, 20)], [FullScope()]),
    ([], [span(0, 10)], []),
    ([], [FullScope()], []),
    ([at(datetime.max.replace(tzinfo=UTC))], [span(NOON, datetime.max.replace(tzinfo=UTC))], [at(datetime.max.replace(tzinfo=UTC))]),
])
def test_a_replace_covers_whole_current_scopes(asked: list[Scope], current: list[Scope], result: list[Scope]) -> None:
    assert list(widened(asked, current)) == result
    assert list(widened(asked[::-1], current[::-1])) == result


def test_many_spans_are_widened_in_one_walk() -> None:
    current = [span(number * 10, number * 10 + 10) for number in range(20_000)]
    assert widened([at(5), span(15, 25)], current) == (span(0, 10), span(10, 30))


@pytest.mark.parametrize(("scope", "current", "result"), [
    (at(5), [span(0, 10), span(10, 20)], span(0, 10)),
    (span(2, 4), [span(0, 10), span(10, 20)], span(0, 10)),
    (span(5, 15), [span(0, 10), span(10, 20)], span(0, 20)),
    (span(30, 40), [span(0, 10)], span(30, 40)),
    (span(0, 100), [at(5), span(20, 30)], span(0, 100)),
    (key("a"), [key("b")], key("a")),
    (key("a"), [FullScope()], FullScope()),
    (FullScope(), [span(0, 10)], FullScope()),
])
def test_an_append_goes_into_its_scope_or_joins_what_it_touches(scope: Scope, current: list[Scope], result: Scope) -> None:
    assert widened((scope,), current) == (result,)


few = st.integers(0, 12)
some_scope = st.one_of(
    few.map(at), st.tuples(few, few).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: span(*pair)), st.sampled_from("abc").map(key),
    few.map(lambda number: at(NOON + number * HOUR)), st.just(FullScope()),
)


def _apart(scopes: list[Scope]) -> list[Scope]:
    """Those that overlap none before them: what the current scopes of a table are like."""
    kept: list[Scope] = []
    for scope in scopes:
        if not any(overlap(scope, other) for other in kept):
            kept.append(scope)
    return kept


@given(st.lists(some_scope, max_size=6), st.lists(some_scope, max_size=8))
def test_widening_covers_the_wanted_scopes_and_nothing_else(asked: list[Scope], scopes: list[Scope]) -> None:
    current = _apart(scopes)
    result = widened(asked, current)
    assert not any(overlap(one, other) for one, other in combinations(result, 2))
    assert all(any(covers(scope, one) for scope in result) for one in asked)
    assert all(covers(scope, one) or not overlap(scope, one) for scope in result for one in current)
    assert widened(result, current) == result
    assert all(any(overlap(scope, one) for one in asked) for scope in result)
    assert widened(list(reversed(asked)), list(reversed(current))) == result


def _length(scope: Scope) -> int:
    span = span_of(scope) if isinstance(scope, (CursorScope, RangeScope)) else None
    return 1 if span is None else span.end - span.start


@given(st.sampled_from([NUMBERS, TENS, KEYS, by(cursor="integer", range_size=3, origin=1)]), some_scope)
def test_the_wanted_scopes_cover_the_event(partition_by: PartitionSpec, scope: Scope) -> None:
    for strategy in ExecutionStrategy:
        asked = wanted(strategy, partition_by, scope)
        if asked.everything:
            assert asked.scopes == ()
        else:
            hull = widened([*asked.scopes, scope], [])
            assert all(covers(hull[0], one) for one in asked.scopes)
            assert sum(_length(one) for one in asked.scopes) == _length(hull[0]), "nothing of the event lies outside, and nothing is named twice"
            assert all(overlap(one, scope) for one in asked.scopes)
