"""Promotions: LakeGuard's rules and policies as people see them, and its decisions with their evidence."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from tracelake_sdk.dags import Layer
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.rules.rule import RuleScope, RuleType, Severity


class Enforcement(StrEnum):
    BLOCK = "BLOCK"  # absolute
    ALERT = "ALERT"  # only recorded


class PolicyType(StrEnum):
    SCHEMA = "SCHEMA"  # allowed changes of the table's columns


class GateStage(StrEnum):
    ELIGIBILITY = "eligibility"  # the dataset is registered and active, and its inputs are promoted versions of allowed layers
    EXECUTION = "execution"      # the run succeeded, and its rows are in the declared scopes
    POLICIES = "policies"
    QUALITY = "quality"
    DECISION = "decision"        # no stage blocked it


class GateVerdict(StrEnum):
    PASS = "pass"  # noqa: S105 a word, no secret
    WARN = "warn"                    # violated, and only recorded
    FAIL = "fail"                    # violated, and it blocks
    ERROR = "error"                  # could not be evaluated, and it blocks
    NOT_EVALUATED = "not_evaluated"  # an earlier stage blocked it; never a pass


class Rule(Deferred):
    """What good data means for one dataset; a change is a new revision."""

    id: UUID
    revision: int
    dataset_id: UUID
    dataset_name: str | None  # None: the dataset is not published
    layer: Layer
    rule_type: RuleType
    rule_expression: str
    severity: Severity
    scope: RuleScope
    active: bool
    actor: str
    at: datetime
    absent_columns: list[str] = Field(default_factory=list)  # columns of the rule that the newest version does not have; a warning for its author


class Policy(Deferred):
    """What the platform guarantees for every dataset of a layer; a change is a new revision."""

    id: UUID
    revision: int
    applies_to_layer: Layer
    policy_type: PolicyType
    policy_expression: str
    enforcement: Enforcement
    active: bool
    actor: str
    at: datetime


class PolicyResult(Deferred):
    policy_id: UUID
    revision: int
    policy_type: str
    verdict: GateVerdict
    sentence: str


class QualityResult(Deferred):
    rule_id: UUID | None  # None for the rule that every output has: no rows outside the declared scope
    revision: int | None
    rule_type: str
    verdict: GateVerdict
    violations: int | None
    examined: int | None
    method: str | None
    milliseconds: float | None
    samples: list[str] = Field(default_factory=list)
    sentence: str


class Promotion(Deferred):
    """A decision about one candidate: one output of one run."""

    id: UUID
    run_id: str
    task_id: UUID
    attempt: int
    dataset_id: UUID
    dataset_name: str | None
    from_layer: str  # `source` for bronze
    to_layer: Layer
    allowed: bool
    stage: GateStage  # the stage that decided
    reason: str
    evidence: dict[str, Any]  # the place in the line, the pins of all inputs, and the operator state
    evaluated_at: datetime
    policy_results: list[PolicyResult]
    quality_results: list[QualityResult]
