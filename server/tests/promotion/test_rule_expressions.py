"""Expressions: what people write, its tree, and the error for an invalid one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tracelake.control.promotion.policy_expressions import parse_policy
from tracelake.control.promotion.rule_expressions import MOST_LETTERS, MOST_VALUES, parse, spell
from tracelake_sdk.errors import PolicyInvalid, RuleInvalid
from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RowCount, RuleTree, RuleType, Unique
from tracelake_sdk.rules.promotions import PolicyType


@pytest.mark.proves("G2.3")
@pytest.mark.parametrize(
    ("type", "expression", "tree"),
    [
        ("NOT_NULL", "order_id", NotNull(column="order_id")),
        ("NOT_NULL", '  "Order Id"  ', NotNull(column="Order Id")),
        ("NOT_NULL", '"a""b"', NotNull(column='a"b')),
        ("NOT_NULL", '"in"', NotNull(column="in")),
        ("NOT_NULL", "größe", NotNull(column="größe")),
        ("RANGE", "amount in [0, 100)", Range(column="amount", low=0, high=100, high_inside=False)),
        ("RANGE", "amount IN (0,100]", Range(column="amount", low=0, high=100, low_inside=False)),
        ("RANGE", "amount in [-1.5, 2e3] not null", Range(column="amount", low=-1.5, high=2000.0, null_passes=False)),
        ("RANGE", "amount in [5, 5]", Range(column="amount", low=5, high=5)),
        ("RANGE", "amount >= 0", Range(column="amount", low=0)),
        ("RANGE", "amount > 0 NOT NULL", Range(column="amount", low=0, low_inside=False, null_passes=False)),
        ("RANGE", "amount <= -3", Range(column="amount", high=-3)),
        ("RANGE", "amount<10", Range(column="amount", high=10, high_inside=False)),
        ("RANGE", "day in ['2024-01-01', '2025-01-01')", Range(column="day", low="2024-01-01", high="2025-01-01", high_inside=False)),
        ("RANGE", "amount >= '12345678901234567890.5'", Range(column="amount", low="12345678901234567890.5")),
        ("RANGE", "n <= 9223372036854775807", Range(column="n", high=2**63 - 1)),
        ("UNIQUE", "order_id", Unique(columns=("order_id",))),
        ("UNIQUE", 'order_id,"line no"', Unique(columns=("order_id", "line no"))),
        ("ROW_COUNT", ">= 1", RowCount(least=1)),
        ("ROW_COUNT", "> 0", RowCount(least=1)),
        ("ROW_COUNT", "< 10", RowCount(most=9)),
        ("ROW_COUNT", "<= 10", RowCount(most=10)),
        ("ROW_COUNT", "= 7", RowCount(least=7, most=7)),
        ("ROW_COUNT", "in [1, 100]", RowCount(least=1, most=100)),
        ("ROW_COUNT", "in (1, 100)", RowCount(least=2, most=99)),
        ("ENUM", "status in ('new', 'paid')", Enumerated(column="status", values=("new", "paid"))),
        ("ENUM", "status in ('it''s') not null", Enumerated(column="status", values=("it's",), null_passes=False)),
        ("ENUM", "size in (1, 2, -3)", Enumerated(column="size", values=(1, 2, -3))),
        ("ENUM", "ok in (true, FALSE)", Enumerated(column="ok", values=(True, False))),
        ("REGEX", "code ~ '[A-Z]{3}'", Regex(column="code", pattern="[A-Z]{3}")),
        ("REGEX", "code ~ '[^'']+' not null", Regex(column="code", pattern="[^']+", null_passes=False)),
    ],
)
def test_an_expression_means_its_tree(type: str, expression: str, tree: RuleTree):
    assert parse(type, expression) == tree
    assert parse(type, spell(tree)) == tree


MALFORMED = [
    ("SUM", "a", "choose one of NOT_NULL, RANGE"),
    ("not_null", "a", "choose one of NOT_NULL, RANGE"),
    ("NOT_NULL", "", "write it like `order_id`"),
    ("NOT_NULL", "   ", "write it like `order_id`"),
    ("NOT_NULL", "a b", "one column alone"),
    ("NOT_NULL", "a, b", "one column alone"),
    ("NOT_NULL", "a is not null", "one column alone"),
    ("NOT_NULL", "null", 'in double quotes, "null"'),
    ("NOT_NULL", "a.b", "in double quotes"),
    ("NOT_NULL", "'a'", "the name of a column is expected, and `'a'` is there"),
    ("NOT_NULL", "5", "the name of a column"),
    ("NOT_NULL", "1a", "is not valid here"),
    ("NOT_NULL", '"a', "has no end"),
    ("NOT_NULL", '""', "is empty"),
    ("NOT_NULL", "a;drop", "`;` at character 2"),
    ("NOT_NULL", "a\0", "NUL character"),
    ("NOT_NULL", "a" * (MOST_LETTERS + 1), "at most 10,000 letters"),
    ("RANGE", "amount", "at character 7"),
    ("RANGE", "amount in", "it ends there"),
    ("RANGE", "amount in [0 100)", "`,` is expected, and `100` is there"),
    ("RANGE", "amount in [0, 100", "`]` or `)` is expected, and it ends there"),
    ("RANGE", "amount in {0, 100}", "`{` at character 11"),
    ("RANGE", "amount in 0, 100", "`[` or `(` is expected"),
    ("RANGE", "amount in [, 100]", "a number, or a text in single quotes,"),
    ("RANGE", "amount in [0, )", "a number, or a text in single quotes,"),
    ("RANGE", "amount in [100, 0]", "this range is empty"),
    ("RANGE", "amount in [5, 5)", "this range is empty"),
    ("RANGE", "amount in [0, '100']", "both in quotes"),
    ("RANGE", "amount = 3", "write an ENUM rule"),
    ("RANGE", "amount != 3", "write an ENUM rule"),
    ("RANGE", "amount between 1 and 2", "`between` is there"),
    ("RANGE", "amount >= 0 and amount < 5", "`amount in [0, 100)`"),
    ("RANGE", "amount >= null", "a number, or a text"),
    ("RANGE", "amount >= 2024-01-01", "nothing more is expected"),
    ("RANGE", "amount >= 99999999999999999999", "in single quotes"),
    ("RANGE", "amount >= 1e999", "too large"),
    ("RANGE", "amount >= 0 not", "`null` is expected"),
    ("RANGE", "amount >= 0 null", "nothing more is expected"),
    ("RANGE", "0 <= amount", "the name of a column"),
    ("RANGE", "amount >= 0x10", "is not valid here"),
    ("RANGE", "amount >= 'a", "has no end"),
    ("UNIQUE", "(a, b)", "write them without"),
    ("UNIQUE", "a b", "`,` is expected"),
    ("UNIQUE", "a,", "the name of a column"),
    ("UNIQUE", "a, a", "name each column once"),
    ("UNIQUE", "a not null", "`,` is expected"),
    ("ROW_COUNT", "5", "`>=` or `>`"),
    ("ROW_COUNT", ">= 1.5", "a whole number, 0 or more"),
    ("ROW_COUNT", ">= -1", "a whole number, 0 or more"),
    ("ROW_COUNT", ">= '1'", "a number of rows"),
    ("ROW_COUNT", "< 0", "this range is empty"),
    ("ROW_COUNT", "in [5, 1]", "this range is empty"),
    ("ROW_COUNT", "in (1, 2)", "this range is empty"),
    ("ROW_COUNT", ">= 1 not null", "nothing more is expected"),
    ("ROW_COUNT", "rows >= 1", "`rows` is there"),
    ("ENUM", "status", "`in` is expected"),
    ("ENUM", "status in ()", "a text in single quotes"),
    ("ENUM", "status in ['a']", "`(` is expected"),
    ("ENUM", "status in ('a' 'b')", "`,` or `)` is expected"),
    ("ENUM", "status in (new)", "a text in single quotes"),
    ("ENUM", "status in ('a', null)", "null passes unless"),
    ("ENUM", "status in ('a', 1)", "of several kinds"),
    ("ENUM", "status in (1, true)", "of several kinds"),
    ("ENUM", "status in ('a', 'a')", "each value once"),
    ("ENUM", "status in (1.5)", "not an exact value"),
    ("ENUM", f"status in ({', '.join(map(str, range(MOST_VALUES + 1)))})", "more than 1,000 values"),
    ("REGEX", "code", "`~` is expected"),
    ("REGEX", "code like 'a%'", "`~` is expected"),
    ("REGEX", "code ~ abc", "a pattern in single quotes"),
    ("REGEX", "code ~ '('", "the pattern is not valid"),
    ("REGEX", "code ~ '(?=a)b'", "the pattern is not valid"),
    ("REGEX", r"code ~ '(a)\1'", "the pattern is not valid"),
]


@pytest.mark.parametrize(("type", "expression", "message"), MALFORMED, ids=[f"{type}-{number}" for number, (type, _, _) in enumerate(MALFORMED)])
def test_an_invalid_expression_is_refused_with_what_to_write(type: str, expression: str, message: str):
    with pytest.raises(RuleInvalid) as refused:
        parse(type, expression)
    assert (refused.value.code, refused.value.status) == ("rule_invalid", 422)
    assert message in refused.value.detail
    assert refused.value.detail.endswith(".")
    assert refused.value.detail.isprintable()
    assert len(refused.value.detail) < 500


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
whole = st.integers(-(2**63), 2**63 - 1)
numbers = whole | st.floats(allow_nan=False, allow_infinity=False)
bounds = st.one_of(st.tuples(numbers, numbers).map(sorted).filter(lambda pair: pair[0] < pair[1]), st.tuples(texts, texts))


def between(pair: Any, column: str, low_inside: bool, high_inside: bool, null_passes: bool) -> Range:
    return Range(column=column, low=pair[0], high=pair[1], low_inside=low_inside, high_inside=high_inside, null_passes=null_passes)


counts = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted)
trees = st.one_of(
    st.builds(NotNull, column=names),
    st.builds(between, bounds, names, st.booleans(), st.booleans(), st.booleans()),
    st.builds(Range, column=names, low=numbers | texts, low_inside=st.booleans(), null_passes=st.booleans()),
    st.builds(Range, column=names, high=numbers | texts, high_inside=st.booleans(), null_passes=st.booleans()),
    st.builds(Unique, columns=st.lists(names, min_size=1, max_size=4, unique=True).map(tuple)),
    counts.map(lambda pair: RowCount(least=pair[0], most=pair[1])),
    st.integers(0, 2**62).map(lambda number: RowCount(least=number)),
    st.integers(0, 2**62).map(lambda number: RowCount(most=number)),
    st.builds(
        Enumerated,
        column=names,
        values=st.one_of(*(st.lists(kind, min_size=1, max_size=5, unique=True).map(tuple) for kind in (texts, whole, st.booleans()))),
        null_passes=st.booleans(),
    ),
    st.builds(Regex, column=names, pattern=st.sampled_from(["[A-Z]{3}", "a|b", "it's", r"\d+", ""]), null_passes=st.booleans()),
)


@pytest.mark.proves("G2.3")
@given(trees)
def test_the_tree_of_a_spelt_tree_is_the_tree_also_after_it_was_stored(tree: RuleTree):
    parsed = parse(tree.type, spell(tree))
    assert parsed == tree
    assert spell(parsed) == spell(tree)
    assert TypeAdapter(RuleTree).validate_json(parsed.model_dump_json()) == tree


@given(st.sampled_from(RuleType), st.text(max_size=40) | st.text("ab \"'[](),<>=~!.-+0159 innotnulltrue", max_size=40))
def test_anything_else_is_a_tree_or_a_clear_refusal(type: RuleType, expression: str):
    try:
        tree = parse(type.value, expression)
    except RuleInvalid as refused:
        assert refused.detail.endswith(".")
    else:
        assert parse(type.value, spell(tree)) == tree


def test_a_policy_has_an_expression_of_its_type():
    assert parse_policy("SCHEMA", "  No  breaking change ") == (PolicyType.SCHEMA, "no breaking change")
    with pytest.raises(PolicyInvalid, match="choose one of SCHEMA"):
        parse_policy("PII", "none")
    with pytest.raises(PolicyInvalid, match="`no breaking change`"):
        parse_policy("SCHEMA", "anything goes")
