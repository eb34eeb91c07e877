"""The rule, policy and decision tables, one function per query."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from tracelake import wire_json
from tracelake.control.database.ids import new_id
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.promotion.gate import Decision, JudgedPolicy, JudgedRule
from tracelake_sdk.dags import Layer
from tracelake_sdk.rules import RuleMeasurement, RuleScope, RuleToMeasure, RuleTree, Severity
from tracelake_sdk.rules.promotions import Enforcement

sql = load(__name__, "promotion.sql")
_TREE: TypeAdapter[RuleTree] = TypeAdapter(RuleTree)


@dataclass(frozen=True)
class RuleDataset:
    id: UUID
    name: str | None
    layer: str
    has_files: bool


@dataclass(frozen=True)
class RuleRow:
    """The current revision of a rule, as a completion needs it."""

    id: UUID
    revision: int
    dataset_id: UUID
    rule_type: str
    rule_expression: str
    tree: dict[str, Any]
    severity: str
    scope: str
    active: bool

    def to_measure(self) -> RuleToMeasure:
        return RuleToMeasure(id=self.id, revision=self.revision, scope=RuleScope(self.scope), tree=_TREE.validate_python(self.tree))

    def judged(self, measurements: Iterable[RuleMeasurement]) -> JudgedRule:
        """With the measurement of this revision, if there is one."""
        found = next((one for one in measurements if (one.rule_id, one.revision) == (self.id, self.revision)), None)
        return JudgedRule(self.id, self.revision, _TREE.validate_python(self.tree), Severity(self.severity), RuleScope(self.scope), found)


@dataclass(frozen=True, slots=True)
class TableRuleRow:
    """How many rows of a table broke a table rule, after the last place that changed the table."""

    dataset_version_id: UUID
    rule_id: UUID
    revision: int
    place: int
    violations: int


@dataclass(frozen=True)
class RuleLine:
    """The current revision of a rule, as people see it."""

    id: UUID
    revision: int
    dataset_id: UUID
    dataset_name: str | None
    layer: str
    rule_type: str
    rule_expression: str
    tree: dict[str, Any]
    severity: str
    scope: str
    active: bool
    actor: str
    at: datetime


@dataclass(frozen=True)
class PolicyRow:
    """The current revision of a policy."""

    id: UUID
    revision: int
    applies_to_layer: str
    policy_type: str
    policy_expression: str
    enforcement: str
    active: bool
    actor: str
    at: datetime

    def judged(self) -> JudgedPolicy:
        return JudgedPolicy(self.id, self.revision, self.policy_type, self.policy_expression, Enforcement(self.enforcement))


@dataclass(frozen=True)
class Decided:
    """A decision, its output, and its evidence other than results."""

    org_id: UUID
    dataset_id: UUID
    dataset_version_id: UUID
    run_id: str
    task_id: UUID
    attempt: int
    decision: Decision
    evidence: dict[str, Any]
    id: UUID = field(default_factory=new_id)


@dataclass(frozen=True)
class PromotionRow:
    id: UUID
    run_id: str
    task_id: UUID
    attempt: int
    dataset_id: UUID
    dataset_name: str | None
    from_layer: str
    to_layer: str
    allowed: bool
    stage: str
    reason: str
    evidence: dict[str, Any]
    evaluated_at: datetime
    seq: int


@dataclass(frozen=True)
class PolicyResultRow:
    promotion_id: UUID
    policy_id: UUID
    revision: int
    policy_type: str
    verdict: str
    sentence: str


@dataclass(frozen=True)
class QualityResultRow:
    promotion_id: UUID
    rule_id: UUID | None
    revision: int | None
    rule_type: str
    verdict: str
    violations: int | None
    examined: int | None
    method: str | None
    milliseconds: float | None
    samples: list[str]
    sentence: str


def find_dataset(tx: Transaction, *, org: UUID, id: UUID | None, name: str | None) -> RuleDataset | None:
    return tx.find(RuleDataset, sql["find_dataset"], org=org, id=id, name=name)


def columns_now(tx: Transaction, dataset: UUID) -> list[str]:
    return tx.values(sql["columns_now"], dataset=dataset)


# Definitions
def lock_definition(tx: Transaction, id: UUID) -> None:
    """Serializes revisions of one definition."""
    tx.run(sql["lock_definition"], id=id)


def append_rule(tx: Transaction, *, org: UUID, rule: RuleLine) -> None:
    tx.run(
        sql["append_rule"],
        id=rule.id,
        revision=rule.revision,
        org=org,
        dataset=rule.dataset_id,
        type=rule.rule_type,
        expression=rule.rule_expression,
        tree=wire_json.text(rule.tree),
        severity=rule.severity,
        scope=rule.scope,
        active=rule.active,
        actor=rule.actor,
    )


def find_rule(tx: Transaction, *, org: UUID, id: UUID) -> RuleLine | None:
    return tx.find(RuleLine, sql["rule"], org=org, id=id)


def rules(tx: Transaction, *, org: UUID, datasets: list[UUID] | None, inactive: bool, after: UUID | None, limit: int) -> list[RuleLine]:
    """`datasets`: only of these; None: of all."""
    return tx.all(RuleLine, sql["rules"], org=org, datasets=datasets, inactive=inactive, after=after, limit=limit)


def append_policy(tx: Transaction, *, org: UUID, policy: PolicyRow) -> None:
    tx.run(
        sql["append_policy"],
        id=policy.id,
        revision=policy.revision,
        org=org,
        layer=policy.applies_to_layer,
        type=policy.policy_type,
        expression=policy.policy_expression,
        enforcement=policy.enforcement,
        active=policy.active,
        actor=policy.actor,
    )


def find_policy(tx: Transaction, *, org: UUID, id: UUID) -> PolicyRow | None:
    return tx.find(PolicyRow, sql["policy"], org=org, id=id)


def policies(tx: Transaction, *, org: UUID, layer: Layer | None, inactive: bool, after: UUID | None, limit: int) -> list[PolicyRow]:
    return tx.all(PolicyRow, sql["policies"], org=org, layer=layer.value if layer else None, inactive=inactive, after=after, limit=limit)


def has_policies(tx: Transaction, *, org: UUID) -> bool:
    """Whether the org has, or ever had, a policy."""
    return tx.value(sql["has_policies"], org=org)


# Reads and writes of completions
def rules_of(tx: Transaction, datasets: Iterable[UUID]) -> dict[UUID, list[RuleRow]]:
    return send_rules_of(tx, datasets).result()


def send_rules_of(tx: Transaction, datasets: Iterable[UUID]) -> Pending[dict[UUID, list[RuleRow]]]:
    """The active rules of each dataset, in their current revision; every given dataset has an entry."""
    wanted = list(datasets)
    rows = tx.send(RuleRow, sql["rules_of"], datasets=wanted)
    return rows.then(lambda found: {dataset: [row for row in found if row.dataset_id == dataset] for dataset in wanted})


def send_table_rules(tx: Transaction, dataset_versions: Iterable[UUID]) -> Pending[list[TableRuleRow]]:
    return tx.send(TableRuleRow, sql["table_rules"], dataset_versions=list(dataset_versions))


def note_table_rules(tx: Transaction, rows: Sequence[TableRuleRow]) -> None:
    tx.run(
        sql["note_table_rules"],
        dataset_versions=[row.dataset_version_id for row in rows],
        rules=[row.rule_id for row in rows],
        revisions=[row.revision for row in rows],
        places=[row.place for row in rows],
        violations=[row.violations for row in rows],
    )


def send_policies_of(tx: Transaction, *, org: UUID, layers: Iterable[Layer]) -> Pending[dict[Layer, list[PolicyRow]]]:
    """The active policies of each layer, in their current revision; every given layer has an entry."""
    wanted = list(layers)
    rows = tx.send(PolicyRow, sql["policies_of"], org=org, layers=[layer.value for layer in wanted])
    return rows.then(lambda found: {layer: [row for row in found if row.applies_to_layer == layer.value] for layer in wanted})


def decide(tx: Transaction, new: Sequence[Decided], *, now: datetime) -> None:
    """Records the decisions with all their results, in three statements."""
    if not new:
        return
    tx.run(
        sql["decide"],
        evaluated_at=now,
        ids=[one.id for one in new],
        orgs=[one.org_id for one in new],
        datasets=[one.dataset_id for one in new],
        dataset_versions=[one.dataset_version_id for one in new],
        runs=[one.run_id for one in new],
        tasks=[one.task_id for one in new],
        attempts=[one.attempt for one in new],
        from_layers=[one.decision.from_layer for one in new],
        to_layers=[one.decision.to_layer.value for one in new],
        allowed=[one.decision.allowed for one in new],
        stages=[one.decision.stage.value for one in new],
        reasons=[one.decision.reason for one in new],
        evidence=[wire_json.text(one.evidence) for one in new],
    )
    _append_policy_results(tx, new)
    _append_quality_results(tx, new)


def _append_policy_results(tx: Transaction, new: Sequence[Decided]) -> None:
    rows = [(one.id, number, result) for one in new for number, result in enumerate(one.decision.policy_results)]
    if rows:
        tx.run(
            sql["append_policy_results"],
            promotions=[id for id, _, _ in rows],
            numbers=[number for _, number, _ in rows],
            policies=[result.policy_id for _, _, result in rows],
            revisions=[result.revision for _, _, result in rows],
            types=[result.policy_type for _, _, result in rows],
            verdicts=[result.verdict.value for _, _, result in rows],
            sentences=[result.sentence for _, _, result in rows],
        )


def _append_quality_results(tx: Transaction, new: Sequence[Decided]) -> None:
    rows = [(one.id, number, result) for one in new for number, result in enumerate(one.decision.quality_results)]
    if rows:
        tx.run(
            sql["append_quality_results"],
            promotions=[id for id, _, _ in rows],
            numbers=[number for _, number, _ in rows],
            rules=[result.rule_id for _, _, result in rows],
            revisions=[result.revision for _, _, result in rows],
            types=[result.rule_type for _, _, result in rows],
            verdicts=[result.verdict.value for _, _, result in rows],
            violations=[result.violations for _, _, result in rows],
            examined=[result.examined for _, _, result in rows],
            methods=[result.method for _, _, result in rows],
            milliseconds=[result.milliseconds for _, _, result in rows],
            samples=[wire_json.text(result.samples) for _, _, result in rows],
            sentences=[result.sentence for _, _, result in rows],
        )


# Reads of people
def promotions(
    tx: Transaction,
    *,
    org: UUID,
    limit: int,
    id: UUID | None = None,
    run: str | None = None,
    datasets: list[UUID] | None = None,
    allowed: bool | None = None,
    before: int | None = None,
) -> list[PromotionRow]:
    """`datasets`: only about these; None: about all."""
    return tx.all(PromotionRow, sql["promotions"], org=org, id=id, run=run, datasets=datasets, allowed=allowed, before=before, limit=limit)


def policy_results(tx: Transaction, promotions: list[UUID]) -> list[PolicyResultRow]:
    return tx.all(PolicyResultRow, sql["policy_results"], promotions=promotions)


def quality_results(tx: Transaction, promotions: list[UUID]) -> list[QualityResultRow]:
    return tx.all(QualityResultRow, sql["quality_results"], promotions=promotions)
