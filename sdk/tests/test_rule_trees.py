"""Patterns and bounds that engines may read differently are refused, and the rest leaves nothing to interpret."""

from typing import Any

import pytest

from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RowCount, RuleTree, Unique
from tracelake_sdk.rules.patterns import MAX_PATTERN, PatternRefused, re2_subset
from tracelake_sdk.rules.trees import IsNull, NotAmong, OutsideFloats, OutsideUnits, RuleUnmeasurable, TypedColumn, ValueKind, check_of, columns_of

COLUMNS = columns_of({"type": "struct", "fields": [
    {"name": name, "type": kind} for name, kind in {
        "id": "long", "small": "byte", "price": "decimal(5,2)", "day": "date", "at": "timestamp", "ratio": "double", "text": "string", "flag": "boolean",
        "nested": {"type": "struct", "fields": []}, "raw": "binary",
    }.items()
]})  # fmt: skip


@pytest.mark.proves("G2.3")
@pytest.mark.parametrize("pattern", [
    r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?i)a", "(?P<n>a)", "(?<n>a)", r"\p{L}", r"\pL", r"\bword", r"\B", r"\Qa\E", r"\Z", r"\G", r"\R", r"\h", r"\N", r"\K", r"\u0041",
    r"\07", r"\c", "a**", "a++", "a*+", "a{2}{3}", "a{,3}", "a{3,2}", "a{1001}", "(a{100}){11}", "a{x}", "{", "*a", "a|*b", "(a", "a)", "[a", "[]a]", "[[:alpha:]]", "[a&&b]", "[b-a]",
    r"[\w-z]", "[a--b]", "^*", "$+", "\\", r"\x{110000}", r"\x{D800}", r"\xg1", "a\0", "(" * 60 + ")" * 60, "a" * (MAX_PATTERN + 1), r"[^\w\W]",
])  # fmt: skip
def test_a_pattern_that_is_not_read_alike_everywhere_is_refused(pattern: str):
    with pytest.raises(PatternRefused):
        re2_subset(pattern)


@pytest.mark.parametrize(("pattern", "spelled"), [
    ("abc", "abc"), ("a.c", r"a[\x{0}-\x{9}\x{B}-\x{D7FF}\x{E000}-\x{10FFFF}]c"), ("^a$", r"\Aa\z"), (r"\d+", "[0-9]+"), (r"(a|b){2,3}?", "(?:a|b){2,3}"),
    ("é", r"\x{E9}"), ("[z-za-c]", "[a-cz]"), (r"[\]\-x]", r"[\x{2D}\x{5D}x]"), ("a]}", r"a\x{5D}\x{7D}"), (r"\v", r"\x{B}"), ("", ""), ("a||b", "a||b"),
])  # fmt: skip
def test_a_pattern_is_spelled_by_code_points(pattern: str, spelled: str):
    assert re2_subset(pattern) == spelled


def test_the_common_spelling_is_part_of_the_subset_and_stays_as_it_is():
    for pattern in ("a.c", r"^[^a-z\d]{2,}|\x{1F600}(?:x|)*$", r"\s\S\w\W\d\D"):
        once = re2_subset(pattern)
        if r"\x{0}" not in once:  # the character of code 0 cannot be written, only be part of a set
            assert re2_subset(once) == once


@pytest.mark.parametrize(("tree", "check"), [
    (NotNull(column="nested"), IsNull("nested")),
    (Range(column="id", low=1.5, high="7.5"), OutsideUnits("id", TypedColumn(ValueKind.INTEGER, 64), 2, 7, null_passes=True)),
    (Range(column="id", low=1, high=7, low_inside=False, high_inside=False, null_passes=False), OutsideUnits("id", TypedColumn(ValueKind.INTEGER, 64), 2, 6, null_passes=False)),
    (Range(column="price", low=0.1, high="1e2"), OutsideUnits("price", TypedColumn(ValueKind.DECIMAL, 5, 2), 10, 10000, null_passes=True)),
    (Range(column="price", low="0.001", high="-0.001", high_inside=False), OutsideUnits("price", TypedColumn(ValueKind.DECIMAL, 5, 2), 1, -1, null_passes=True)),
    (Range(column="day", low="1970-01-02", high="1969-12-31"), OutsideUnits("day", TypedColumn(ValueKind.DATE), 1, -1, null_passes=True)),
    (Range(column="at", low="1970-01-01T01:00:00+01:00", high="1970-01-01T00:00:00.000002", high_inside=False), OutsideUnits("at", TypedColumn(ValueKind.TIMESTAMP), 0, 1, null_passes=True)),
    (Range(column="ratio", low="0.1", high=7, high_inside=False), OutsideFloats("ratio", 0.1, 7.0, low_inside=True, high_inside=False, null_passes=True)),
    (Enumerated(column="flag", values=(True,)), NotAmong("flag", TypedColumn(ValueKind.BOOLEAN), (True,), null_passes=True)),
    (Enumerated(column="price", values=("1.50", 2)), NotAmong("price", TypedColumn(ValueKind.DECIMAL, 5, 2), (150, 200), null_passes=True)),
])  # fmt: skip
def test_a_rule_becomes_a_check_in_whole_units(tree: RuleTree, check: Any):
    assert check_of(tree, COLUMNS) == check


@pytest.mark.proves("G2.3")
@pytest.mark.parametrize("tree", [
    NotNull(column="ID"), Range(column="text", low="a"), Range(column="flag", low=0), Range(column="raw", low=0), Range(column="id", low="x"), Range(column="id", low="1e9999"),
    Range(column="id", low=float("inf")), Range(column="id", low=float("nan")), Range(column="ratio", high=float("inf")), Range(column="ratio", high=10**400), Range(column="day", low=5), Range(column="day", low="2024-02-30"),
    Range(column="day", low="2024-01-10T00:00:00Z"), Range(column="at", low=5), Range(column="at", low="yesterday"), Regex(column="id", pattern="a"), Regex(column="text", pattern="("),
    Enumerated(column="id", values=("1",)), Enumerated(column="id", values=(True,)), Enumerated(column="flag", values=(1,)), Enumerated(column="text", values=(1,)),
    Enumerated(column="ratio", values=(1,)), Enumerated(column="price", values=("0.001",)), Enumerated(column="nested", values=(1,)), Unique(columns=("id", "nested")), Unique(columns=("gone",)), RowCount(least=1),
])  # fmt: skip
def test_a_rule_that_a_column_cannot_answer_is_a_sentence(tree: RuleTree):
    with pytest.raises(RuleUnmeasurable, match=r"^[A-Z].*\.$"):
        check_of(tree, COLUMNS)
