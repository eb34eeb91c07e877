"""Scopes: which share rows, which hold others whole, and the one spelling of each that may stand in a path."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tracelake_sdk.datasets.cursors import CursorType, find_cursor, number_of, number_of_size
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope, covers, folder_of, overlap

LAST = datetime.max.replace(tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)
SAFE = re.compile(r"[A-Za-z0-9_-]{1,80}")
ODD_KEYS = [
    "*", "**", "?", "[x]", "{a,b}", "a=b", "a:b", "a/b", "../x", "..", ".", "/etc/passwd", "~", "$HOME", "%2e%2e", " ", "a\nb", "\\x", "'", '"', "-rf", "full", "c-5",
    "1_2", "x" * 300, "ü" * 150, "日本", "é", "e\u0301", "💧" * 75, "A", "a", "_delta_log", "CON",
]

times = st.one_of(st.datetimes(timezones=st.just(UTC)), st.sampled_from([FIRST, LAST, FIRST + timedelta(microseconds=1), datetime(1, 1, 1, 0, 0, 0, 5, tzinfo=UTC)]))
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-20, 20), st.sampled_from([-(2**63), 2**63 - 1]))
texts = st.one_of(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40), st.sampled_from(ODD_KEYS))


def _ranges(cursors: st.SearchStrategy[int] | st.SearchStrategy[datetime]) -> st.SearchStrategy[RangeScope]:
    return st.lists(cursors, min_size=2, max_size=2, unique=True).map(lambda pair: RangeScope(start=min(pair), end=max(pair)))


scopes = st.one_of(
    st.just(FullScope()), texts.map(lambda key: PartitionScope(key=key)), numbers.map(lambda value: CursorScope(value=value)),
    times.map(lambda value: CursorScope(value=value)), _ranges(numbers), _ranges(times),
)
near = st.one_of(st.integers(0, 6).map(lambda value: CursorScope(value=value)), _ranges(st.integers(0, 6)), st.just(FullScope()), st.sampled_from("ab").map(lambda key: PartitionScope(key=key)))


@pytest.mark.proves("T8.3")
@pytest.mark.parametrize("key", ODD_KEYS)
def test_no_key_becomes_a_path(key: str) -> None:
    folder = folder_of(PartitionScope(key=key))
    assert re.fullmatch(r"p-[0-9a-f]{32}", folder)


def test_every_odd_key_has_its_own_folder() -> None:
    assert len({folder_of(PartitionScope(key=key)) for key in ODD_KEYS}) == len(ODD_KEYS)


@pytest.mark.parametrize(("scope", "folder"), [
    (FullScope(), "full"),
    (CursorScope(value=-5), "c--5"),
    (RangeScope(start=-10, end=5), "-10_5"),
    (CursorScope(value=datetime(2024, 1, 10, 5, tzinfo=UTC)), "c-20240110T050000Z"),
    (CursorScope(value=datetime(2024, 1, 10, 5, 0, 0, 7, tzinfo=UTC)), "c-20240110T050000000007Z"),
    (RangeScope(start=FIRST, end=datetime(999, 12, 31, tzinfo=UTC)), "00010101T000000Z_09991231T000000Z"),
    (CursorScope(value=LAST), "c-99991231T235959999999Z"),
])
def test_cursors_and_ranges_have_one_spelling(scope: Scope, folder: str) -> None:
    assert folder_of(scope) == folder


@given(scopes)
def test_a_folder_is_safe_text_for_any_scope(scope: Scope) -> None:
    folder = folder_of(scope)
    assert SAFE.fullmatch(folder)
    assert folder_of(TypeAdapter[Scope](Scope).validate_json(scope.model_dump_json())) == folder


@given(scopes, scopes)
def test_distinct_scopes_have_distinct_folders(one: Scope, other: Scope) -> None:
    assert (folder_of(one) == folder_of(other)) == (one == other)


@given(st.one_of(scopes, near), st.one_of(scopes, near))
def test_overlap_goes_both_ways_and_what_covers_overlaps(one: Scope, other: Scope) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one)
    assert covers(one, one)
    if covers(one, other):
        assert overlap(one, other)


@given(near, near, near)
def test_covering_is_handed_on(one: Scope, other: Scope, third: Scope) -> None:
    if covers(one, other) and covers(other, third):
        assert covers(one, third)
    if covers(one, other) and overlap(other, third):
        assert overlap(one, third)


def _rows(scope: Scope) -> set[int]:
    match scope:
        case CursorScope(value=int(value)):
            return {value}
        case RangeScope(start=int(start), end=int(end)):
            return set(range(start, end))
        case _:
            return set(range(100))


@pytest.mark.proves("T8.3")
@given(near.filter(lambda scope: scope.kind != "partition"), near.filter(lambda scope: scope.kind != "partition"))
def test_overlap_and_covers_say_what_the_rows_say(one: Scope, other: Scope) -> None:
    assert overlap(one, other) == bool(_rows(one) & _rows(other))
    assert covers(one, other) == (_rows(one) >= _rows(other))


@pytest.mark.parametrize(("one", "other", "shared", "held"), [
    (CursorScope(value=LAST), CursorScope(value=LAST), True, True),
    (RangeScope(start=FIRST, end=LAST), CursorScope(value=LAST), False, False),
    (CursorScope(value=LAST), RangeScope(start=FIRST, end=LAST), False, False),
    (RangeScope(start=FIRST, end=LAST), CursorScope(value=LAST - timedelta(microseconds=1)), True, True),
    (RangeScope(start=0, end=2**63 - 1), CursorScope(value=2**63 - 1), False, False),
    (FullScope(), CursorScope(value=LAST), True, True),
    (CursorScope(value=5), CursorScope(value=datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)), False, False),
    (RangeScope(start=0, end=9), RangeScope(start=datetime(1970, 1, 1, tzinfo=UTC), end=LAST), False, False),
    (PartitionScope(key="5"), CursorScope(value=5), False, False),
    (PartitionScope(key="a"), FullScope(), True, False),
])
def test_the_ends_of_time_and_other_kinds_are_judged_too(one: Scope, other: Scope, shared: bool, held: bool) -> None:
    assert overlap(one, other) is shared
    assert covers(one, other) is held


@given(st.one_of(numbers, times))
def test_a_cursor_is_found_again_by_its_number(cursor: int | datetime) -> None:
    kind = CursorType.INTEGER if isinstance(cursor, int) else CursorType.TIMESTAMP
    assert find_cursor(number_of(cursor), kind) == cursor


def test_no_cursor_is_beyond_the_ends() -> None:
    assert [find_cursor(number, CursorType.INTEGER) for number in (2**63, -(2**63) - 1)] == [None, None]
    assert [find_cursor(number_of(end) + step, CursorType.TIMESTAMP) for end, step in ((LAST, 1), (FIRST, -1))] == [None, None]
    assert (number_of_size(5), number_of_size(timedelta(minutes=1))) == (5, 60_000_000)


@pytest.mark.parametrize("key", ["", "x" * 1025, "\ud800"])
def test_keys_that_cannot_be_stored_are_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        PartitionScope(key=key)


@pytest.mark.parametrize("key", ["a\0b", "\ud800"])
def test_a_key_that_no_database_can_keep_is_no_partition(key: str):
    with pytest.raises(ValidationError):
        PartitionScope(key=key)
