"""Candidates for the gate, right in everything that a test does not say."""

from typing import Any
from uuid import UUID

from tracelake.control.promotion.gate import NO_BREAKING_CHANGE, Candidate, JudgedDataset, JudgedPolicy, JudgedRule, Parent
from tracelake_sdk.dags import Layer
from tracelake_sdk.rules import NotNull, RuleMeasurement, RuleScope, RuleTree, Severity
from tracelake_sdk.rules.promotions import Enforcement


def uuid(number: int) -> UUID:
    return UUID(int=number)


def candidate(layer: Layer = Layer.SILVER, **parts: Any) -> Candidate:
    known: dict[str, Any] = {
        "dataset": JudgedDataset(uuid(1), "orders", layer),
        "output_index": 0,
        "parents": parents_of(layer),
        "policies": (policy(1),),
        "rules": (),
        "rows": 1000,
        "table_rows": 5000,
    }
    return Candidate(**known | parts)


def parents_of(layer: Layer) -> tuple[Parent, ...]:
    match layer:
        case Layer.BRONZE:
            return ()
        case Layer.SILVER:
            return (parent(Layer.BRONZE),)
        case Layer.GOLD:
            return (parent(Layer.SILVER),)


def parent(layer: Layer, *, allowed: bool | None = True, version: int = 3, name: str | None = None) -> Parent:
    return Parent(name or f"{layer.value}_parent", layer, version, allowed)


def policy(number: int, *, enforcement: Enforcement = Enforcement.BLOCK, type: str = "SCHEMA", expression: str = NO_BREAKING_CHANGE) -> JudgedPolicy:
    return JudgedPolicy(uuid(100 + number), 1, type, expression, enforcement)


def rule(
    number: int,
    violations: int | None,
    *,
    tree: RuleTree | None = None,
    severity: Severity = Severity.FAIL,
    scope: RuleScope = RuleScope.BATCH,
    error: str | None = None,
    samples: tuple[str, ...] = (),
    measured: bool = True,
    revision: int = 1,
    measured_revision: int | None = None,
) -> JudgedRule:
    id = uuid(1000 + number)
    found = RuleMeasurement(rule_id=id, revision=measured_revision or revision, violations=violations, examined=1000, error=error, samples=list(samples))
    return JudgedRule(id, revision, tree or NotNull(column="order_id"), severity, scope, found if measured else None)
