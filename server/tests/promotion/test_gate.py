"""The gate: which stage decides, what blocks, and that nothing unknown passes."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelake.control.promotion.gate import Candidate, JudgedDataset, JudgedRule, SchemaFacts, judge, judge_all, unmeasured
from tracelake_sdk.dags import Layer
from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RowCount, RuleScope, Severity, Unique
from tracelake_sdk.rules.promotions import Enforcement, GateStage, GateVerdict

from .candidates import candidate, parent, policy, rule, uuid

# By stage: what is added to a good candidate, and whether that refuses it.
ELIGIBILITY: dict[str, tuple[dict[str, Any], bool]] = {
    "good": ({}, False),
    "inactive": ({"dataset": JudgedDataset(uuid(1), "orders", Layer.SILVER, active=False)}, True),
    "unregistered": ({"dataset": JudgedDataset(uuid(1), "orders", Layer.SILVER, registered=False)}, True),
    "parent_refused": ({"parents": (parent(Layer.BRONZE, allowed=False),)}, True),
    "parent_undecided": ({"parents": (parent(Layer.BRONZE, allowed=None),)}, True),
    "reads_gold": ({"parents": (parent(Layer.BRONZE), parent(Layer.GOLD))}, True),
    "reads_nothing": ({"parents": ()}, True),
}
EXECUTION: dict[str, tuple[dict[str, Any], bool]] = {
    "good": ({}, False),
    "outside": ({"outside_scope": 3}, True),
    "sibling": ({"refused_siblings": ("output 1 (lines) of the same task is blocked",)}, True),
}
CANNOT_CARRY = SchemaFacts(cannot_carry=("The column `t` is a timestamp without a zone.",))
BREAKING = SchemaFacts(breaking=("The column `amount` was removed.",))
POLICIES: dict[str, tuple[dict[str, Any], bool]] = {
    "good": ({}, False),
    "none": ({"policies": ()}, False),
    "broken_block": ({"schema": BREAKING}, True),
    "broken_alert": ({"schema": BREAKING, "policies": (policy(1, enforcement=Enforcement.ALERT),)}, False),
    "broken_both": ({"schema": BREAKING, "policies": (policy(1, enforcement=Enforcement.ALERT), policy(2))}, True),
    "unknown_type": ({"policies": (policy(1, type="PII", enforcement=Enforcement.ALERT),)}, True),
    "unknown_words": ({"policies": (policy(1, expression="anything goes"),)}, True),
}
QUALITY: dict[str, tuple[dict[str, Any], bool]] = {
    "good": ({}, False),
    "passes": ({"rules": (rule(1, 0), rule(2, 0, severity=Severity.WARN))}, False),
    "fails": ({"rules": (rule(1, 3), rule(2, 0))}, True),
    "warns": ({"rules": (rule(1, 3, severity=Severity.WARN),)}, False),
    "error": ({"rules": (rule(1, None, error="the column order_id does not exist"),)}, True),
    "error_of_a_warning": ({"rules": (rule(1, None, severity=Severity.WARN),)}, True),
    "not_measured": ({"rules": (rule(1, 0, measured=False),)}, True),
    "another_revision": ({"rules": (rule(1, 0, revision=2, measured_revision=1),)}, True),
    "impossible": ({"rules": (rule(1, -1),)}, True),
}


@pytest.mark.proves("G2.1", "G2.5")
@pytest.mark.parametrize("eligibility", ELIGIBILITY)
def test_the_first_stage_that_refuses_decides_and_the_rest_is_not_evaluated(eligibility: str):
    for execution, policies, quality in product(EXECUTION, POLICIES, QUALITY):
        check_stages(eligibility, execution, policies, quality)


def check_stages(eligibility: str, execution: str, policies: str, quality: str) -> None:
    chosen = [
        (GateStage.ELIGIBILITY, ELIGIBILITY[eligibility]),
        (GateStage.EXECUTION, EXECUTION[execution]),
        (GateStage.POLICIES, POLICIES[policies]),
        (GateStage.QUALITY, QUALITY[quality]),
    ]
    judged = candidate(**{name: value for _, (parts, _) in chosen for name, value in parts.items()})
    expected = next((stage for stage, (_, refuses) in chosen if refuses), GateStage.DECISION)
    decision = judge(judged)
    assert decision.stage is expected
    assert decision.allowed is (expected is GateStage.DECISION)
    order = [stage for stage, _ in chosen] + [GateStage.DECISION]
    looked = order.index(expected)
    [scope, *rules] = decision.quality_results
    assert len(decision.policy_results) == len(judged.policies)
    assert len(rules) == len(judged.rules)
    assert (scope.verdict is GateVerdict.NOT_EVALUATED) is (looked < order.index(GateStage.EXECUTION))
    assert {result.verdict is GateVerdict.NOT_EVALUATED for result in decision.policy_results} <= {looked < order.index(GateStage.POLICIES)}
    assert {result.verdict is GateVerdict.NOT_EVALUATED for result in rules} <= {looked < order.index(GateStage.QUALITY)}
    assert decision.reason.startswith("Allowed" if decision.allowed else "Blocked")


@pytest.mark.proves("G2.1")
def test_inside_a_stage_everything_is_looked_at():
    decision = judge(candidate(rules=(rule(1, 3), rule(2, 0), rule(3, None), rule(4, 2, severity=Severity.WARN))))
    assert [result.verdict.value for result in decision.quality_results] == ["pass", "fail", "pass", "error", "warn"]
    assert decision.reason.startswith("Blocked by 2 rules: ")


@pytest.mark.proves("G1.4", "G2.2")
@pytest.mark.parametrize(
    ("layer", "parents", "allowed"),
    [
        (layer, parents, allowed)
        for layer, parents, allowed in [
            (Layer.BRONZE, (), True),
            (Layer.BRONZE, (Layer.BRONZE,), True),
            (Layer.BRONZE, (Layer.SILVER,), False),
            (Layer.BRONZE, (Layer.GOLD,), False),
            (Layer.SILVER, (), False),
            (Layer.SILVER, (Layer.BRONZE,), True),
            (Layer.SILVER, (Layer.SILVER,), True),
            (Layer.SILVER, (Layer.BRONZE, Layer.SILVER), True),
            (Layer.SILVER, (Layer.BRONZE, Layer.GOLD), False),
            (Layer.GOLD, (), False),
            (Layer.GOLD, (Layer.BRONZE,), False),
            (Layer.GOLD, (Layer.SILVER,), True),
            (Layer.GOLD, (Layer.GOLD,), False),
            (Layer.GOLD, (Layer.SILVER, Layer.GOLD), True),
            (Layer.GOLD, (Layer.SILVER, Layer.BRONZE), False),
        ]
    ],
)
def test_data_climbs_one_layer_at_a_time(layer: Layer, parents: tuple[Layer, ...], allowed: bool):
    decision = judge(candidate(layer, parents=tuple(parent(one) for one in parents)))
    assert decision.allowed is allowed
    assert decision.stage is (GateStage.DECISION if allowed else GateStage.ELIGIBILITY)
    assert (decision.from_layer, decision.to_layer) == ({Layer.BRONZE: "source", Layer.SILVER: "bronze", Layer.GOLD: "silver"}[layer], layer)


def test_what_a_table_cannot_carry_is_refused_before_policies_are_evaluated():
    decision = judge(candidate(schema=CANNOT_CARRY))
    assert decision.stage is GateStage.EXECUTION
    assert "timestamp without a zone" in decision.reason
    assert [result.verdict for result in decision.policy_results] == [GateVerdict.NOT_EVALUATED]


TREES = [
    NotNull(column="a"), Range(column="a", low=0), Unique(columns=("a",)), Enumerated(column="a", values=("x",)), Regex(column="a", pattern="x"),
    Range(column="a", low=0, null_passes=False),
]  # fmt: skip


@pytest.mark.proves("G2.5")
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.type)
@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("scope", list(RuleScope))
def test_no_rows_break_no_rule_about_rows(tree: Any, measured: bool, scope: RuleScope):
    decision = judge(candidate(rows=0, table_rows=0, rules=(replace(rule(1, 0, tree=tree, measured=measured), scope=scope),)))
    assert decision.allowed
    result = decision.quality_results[1]
    assert (result.verdict, result.violations) == (GateVerdict.PASS, 0)
    assert "there are no rows that could break it" in result.sentence


def test_an_error_blocks_an_empty_batch_too():
    assert not judge(candidate(rows=0, rules=(rule(1, None, error="the column order_id does not exist"),))).allowed
    assert not judge(candidate(rows=0, rules=(rule(1, 2),))).allowed  # rows that are not there cannot break anything


@pytest.mark.parametrize(
    ("tree", "rows", "violations"),
    [
        (RowCount(least=1), 0, 1),
        (RowCount(least=1), 1, 0),
        (RowCount(least=10), 7, 3),
        (RowCount(most=5), 6, 1),
        (RowCount(most=5), 0, 0),
        (RowCount(least=2, most=5), 1, 1),
        (RowCount(least=2, most=5), 5, 0),
        (RowCount(most=0), 0, 0),
    ],
)
@pytest.mark.parametrize("scope", list(RuleScope))
def test_a_number_of_rows_is_judged_without_measuring_also_for_empty_batches(tree: RowCount, rows: int, violations: int, scope: RuleScope):
    others = {"rows": rows, "table_rows": 100} if scope is RuleScope.BATCH else {"rows": 100, "table_rows": rows}
    decision = judge(candidate(**others, rules=(JudgedRule(uuid(7), 1, tree, Severity.FAIL, scope),)))
    assert decision.allowed is (violations == 0)
    assert (decision.quality_results[1].violations, decision.quality_results[1].examined) == (violations, rows)


@pytest.mark.proves("G1.6")
def test_one_refused_output_blocks_its_siblings_and_they_name_it():
    bad = candidate(output_index=1, dataset=JudgedDataset(uuid(2), "lines", Layer.SILVER), rules=(rule(1, 3),))
    also_bad = candidate(output_index=2, dataset=JudgedDataset(uuid(3), None, Layer.SILVER), outside_scope=1)
    good, first, second = judge_all([candidate(), bad, also_bad])
    assert [decision.allowed for decision in (good, first, second)] == [False, False, False]
    assert (first, second) == (judge(bad), judge(also_bad))  # each keeps its own reason
    assert good.stage is GateStage.EXECUTION
    assert "output 1 (lines) of the same task is blocked by 1 rule: order_id must not be null" in good.reason
    assert f"output 2 ({uuid(3)})" in good.reason
    assert [result.verdict for result in good.policy_results] == [GateVerdict.NOT_EVALUATED]


def test_good_siblings_are_judged_as_if_alone():
    one, other = candidate(), candidate(output_index=1, rules=(rule(1, 1, severity=Severity.WARN),))
    assert judge_all([one, other]) == [judge(one), judge(other)]


def test_only_later_rules_must_be_measured():
    new, changed, old, count = rule(1, 0, measured=False), rule(2, 0, revision=3, measured_revision=2), rule(3, 0), rule(4, 0, tree=RowCount(least=1), measured=False)
    assert unmeasured([new, changed, old, count], rows=5, table_rows=5) == [new, changed]
    assert unmeasured([new, replace(changed, scope=RuleScope.TABLE)], rows=0, table_rows=5) == [replace(changed, scope=RuleScope.TABLE)]


def test_what_comes_from_outside_is_stored_as_plain_text():
    decision = judge(candidate(rules=(rule(1, 1, samples=("a\0b",)), rule(2, None, error="no\0 column\n" + "x" * 5000))))
    assert decision.quality_results[1].samples == ["a�b"]
    assert "\0" not in decision.reason + decision.quality_results[2].sentence
    assert "\n" not in decision.reason
    assert len(decision.reason) < 2000


# Whatever is known of a candidate
rules = st.lists(
    st.builds(
        rule,
        st.integers(0, 50),
        st.one_of(st.none(), st.integers(-1, 2000)),
        tree=st.sampled_from([*TREES, RowCount(least=1, most=500)]),
        severity=st.sampled_from(Severity),
        scope=st.sampled_from(RuleScope),
        measured=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda one: one.id,
).map(tuple)
policies = st.lists(
    st.builds(policy, st.integers(0, 50), enforcement=st.sampled_from(Enforcement), type=st.sampled_from(["SCHEMA", "SCHEMA", "PII"])),
    max_size=3,
    unique_by=lambda one: one.id,
).map(tuple)
candidates = st.builds(
    candidate,
    st.sampled_from(Layer),
    rules=rules,
    policies=policies,
    rows=st.integers(0, 2000),
    table_rows=st.integers(0, 5000),
    outside_scope=st.sampled_from([0, 0, 0, 5]),
    schema=st.sampled_from([SchemaFacts(), SchemaFacts(), BREAKING, CANNOT_CARRY]),
)


@pytest.mark.proves("G2.7")
@given(candidates, st.randoms())
def test_the_same_facts_in_any_order_give_the_same_decision(judged: Candidate, random: Any):
    shuffled = replace(
        judged,
        rules=tuple(random.sample(judged.rules, len(judged.rules))),
        policies=tuple(random.sample(judged.policies, len(judged.policies))),
        parents=tuple(reversed(judged.parents)),
    )
    assert judge(judged) == judge(judged) == judge(shuffled)


@given(candidates, rules, st.integers(0, 3))
def test_one_more_broken_thing_never_allows_what_was_refused(judged: Candidate, more: tuple[JudgedRule, ...], what: int):
    known = {one.id for one in judged.rules}
    added = [
        replace(judged, rules=judged.rules + tuple(one for one in more if one.id not in known)),
        replace(judged, rules=(*judged.rules, rule(99, 1))),
        replace(judged, outside_scope=judged.outside_scope + 1),
        replace(judged, schema=CANNOT_CARRY),
    ][what]
    before, after = judge(judged), judge(added)
    assert before.allowed or not after.allowed
    assert what == 0 or not after.allowed


@given(candidates)
def test_allowed_means_that_everything_was_looked_at_and_nothing_blocks(judged: Candidate):
    decision = judge(judged)
    verdicts = {result.verdict for result in (*decision.policy_results, *decision.quality_results)}
    assert decision.allowed is (decision.stage is GateStage.DECISION)
    if decision.allowed:
        assert verdicts <= {GateVerdict.PASS, GateVerdict.WARN}
    assert all(result.sentence.endswith(".") and "None" not in result.sentence for result in (*decision.policy_results, *decision.quality_results))
    assert decision.reason.endswith(".")


@given(st.lists(candidates, min_size=1, max_size=4))
def test_outputs_of_a_task_are_allowed_all_or_none(together: list[Candidate]):
    decisions = judge_all(together)
    assert {decision.allowed for decision in decisions} == {all(judge(one).allowed for one in together)}
