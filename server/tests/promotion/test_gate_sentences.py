"""The gate's sentences, word for word: they are what a person gets to see."""

import pytest

from tracelake.control.promotion.gate import JudgedDataset, SchemaFacts, judge, judge_all
from tracelake_sdk.dags import Layer
from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RowCount, RuleScope, RuleTree, Severity, Unique
from tracelake_sdk.rules.promotions import Enforcement

from .candidates import candidate, parent, policy, rule, uuid

AMOUNT = Range(column="amount", low=0, high=100, high_inside=False)
BREAKING = SchemaFacts(breaking=("The column `amount` was removed.", "The column `day` was a date and is a text now."))


@pytest.mark.parametrize(
    ("tree", "violations", "sentence"),
    [
        (NotNull(column="order_id"), 3, "order_id must not be null, and 3 of 1,000 rows have none."),
        (NotNull(column="order_id"), 1, "order_id must not be null, and 1 of 1,000 rows has none."),
        (NotNull(column="order_id"), 0, "order_id must not be null, and all 1,000 rows pass."),
        (AMOUNT, 1000, "amount must be in [0, 100), and 1,000 of 1,000 rows are outside."),
        (Range(column="amount", low=0, null_passes=False), 2, "amount must not be null and be at least 0, and 2 of 1,000 rows are outside."),
        (Range(column="amount", high=1.5, high_inside=False), 1, "amount must be less than 1.5, and 1 of 1,000 rows is outside."),
        (Range(column="day", low="2024-01-01", low_inside=False), 1, "day must be greater than '2024-01-01', and 1 of 1,000 rows is outside."),
        (Unique(columns=("order_id", "line")), 2, "order_id, line must be unique, and 2 of 1,000 rows repeat a key."),
        (Enumerated(column="status", values=("new", "paid")), 1, "status must be one of 'new', 'paid', and 1 of 1,000 rows has another value."),
        (Enumerated(column="ok", values=(True,)), 5, "ok must be true, and 5 of 1,000 rows have another value."),
        (Regex(column="code", pattern="[A-Z]{3}"), 4, "code must match '[A-Z]{3}', and 4 of 1,000 rows do not."),
        (RowCount(least=2000), 0, "the batch must have at least 2,000 rows, and it has 1,000."),
        (RowCount(least=1, most=10), 0, "the batch must have between 1 and 10 rows, and it has 1,000."),
        (RowCount(least=1000, most=1000), 0, "the batch must have exactly 1,000 rows, as it has 1,000."),
    ],
)
def test_a_rule_is_named_with_its_column_and_the_count(tree: RuleTree, violations: int, sentence: str):
    decision = judge(candidate(rules=(rule(1, violations, tree=tree),)))
    assert decision.quality_results[1].sentence == sentence
    assert decision.reason == ("Allowed: 1 policy and 1 rule hold." if decision.allowed else f"Blocked by 1 rule: {sentence}")


@pytest.mark.parametrize(
    ("judged", "reason"),
    [
        (candidate(policies=()), "Allowed: no policy and no rule applies."),
        (candidate(policies=(), rules=(rule(1, 0),)), "Allowed: 1 rule holds."),
        (candidate(), "Allowed: 1 policy holds."),
        (candidate(rules=(rule(1, 0), rule(2, 0))), "Allowed: 1 policy and 2 rules hold."),
        (
            candidate(rules=(rule(1, 2, severity=Severity.WARN), rule(2, 0))),
            "Allowed with 1 warning: order_id must not be null, and 2 of 1,000 rows have none.",
        ),
        (
            candidate(rules=tuple(rule(number, number) for number in range(1, 6))),
            "Blocked by 5 rules: order_id must not be null, and 1 of 1,000 rows has none; order_id must not be null, and 2 of 1,000 rows have none;"
            " order_id must not be null, and 3 of 1,000 rows have none; and 2 more.",
        ),
        (
            candidate(rules=(rule(1, None, error="The column order_id does not exist."),)),
            "Blocked by 1 rule: order_id must not be null, which could not be evaluated: the column order_id does not exist.",
        ),
        (candidate(rules=(rule(1, 0, measured=False),)), "Blocked by 1 rule: order_id must not be null, which could not be evaluated: it was not measured."),
        (
            candidate(rules=(rule(1, 7, scope=RuleScope.TABLE),)),
            "Blocked by 1 rule: order_id must not be null, and 7 of 5,000 rows of the table have none.",
        ),
        (
            candidate(schema=BREAKING),
            "Blocked by 1 policy: SCHEMA allows no breaking change, and the column `amount` was removed; the column `day` was a date and is a text now.",
        ),
        (
            candidate(schema=BREAKING, policies=(policy(1, enforcement=Enforcement.ALERT),)),
            "Allowed with 1 warning: SCHEMA allows no breaking change, and the column `amount` was removed; the column `day` was a date and is a text now.",
        ),
        (candidate(outside_scope=1), "Blocked: 1 of 1,000 rows is outside the declared scope."),
        (candidate(outside_scope=1200), "Blocked: 1,200 rows are outside the declared scope."),
        (candidate(dataset=JudgedDataset(uuid(1), "orders", Layer.SILVER, active=False)), "Blocked: orders is not active."),
        (candidate(dataset=JudgedDataset(uuid(1), None, Layer.SILVER, registered=False)), f"Blocked: {uuid(1)} is not a registered dataset."),
        (candidate(Layer.GOLD, parents=()), "Blocked: a gold dataset has a silver parent, and this run read none."),
        (
            candidate(Layer.GOLD, parents=(parent(Layer.BRONZE, name="raw"),)),
            "Blocked: a gold dataset does not read bronze, and raw is bronze; a gold dataset has a silver parent, and this run read none.",
        ),
        (candidate(parents=(parent(Layer.BRONZE, name="raw", allowed=False),)), "Blocked: version 3 of raw, which this run read, was not allowed."),
        (candidate(parents=(parent(Layer.BRONZE, name="raw", allowed=None),)), "Blocked: no decision promoted version 3 of raw, which this run read."),
    ],
)
def test_a_reason_is_a_sentence(judged, reason: str):
    assert judge(judged).reason == reason


def test_a_blocked_sibling_names_the_refused_output():
    bad = candidate(output_index=1, dataset=JudgedDataset(uuid(2), "lines", Layer.SILVER), rules=(rule(1, 3),))
    assert judge_all([candidate(), bad])[0].reason == (
        "Blocked: output 1 (lines) of the same task is blocked by 1 rule: order_id must not be null, and 3 of 1,000 rows have none."
    )


def test_columns_keep_their_spelling():
    assert judge(candidate(rules=(rule(1, 1, tree=NotNull(column="Amount")),))).reason == "Blocked by 1 rule: Amount must not be null, and 1 of 1,000 rows has none."
