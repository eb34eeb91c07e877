"""The gate: whether what one run wrote may become a version of its dataset. Pure: the same candidate always gets the same decision, with the same sentences.

Eligibility, execution, policies, quality, decision: the first stage that refuses decides, a stage evaluates everything, and later
checks are recorded as not evaluated. A check that could not be evaluated blocks, whatever its severity: an unchecked warning is not a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from tracelake.control.promotion import gate_sentences as sentences
from tracelake_sdk.dags import Layer
from tracelake_sdk.rules import MeasuringMethod, RowCount, RuleMeasurement, RuleScope, RuleTree, Severity
from tracelake_sdk.rules.promotions import Enforcement, GateStage, GateVerdict, PolicyResult, PolicyType, QualityResult

SOURCE = "source"  # the layer below bronze
NO_BREAKING_CHANGE = "no breaking change"
SCOPE = "SCOPE"  # the rule that every output has
KEY = "KEY"      # the rule that every append has: no row has a null in the unique key

LAYER_BELOW: dict[Layer, str] = {Layer.BRONZE: SOURCE, Layer.SILVER: Layer.BRONZE.value, Layer.GOLD: Layer.SILVER.value}
_READABLE: dict[Layer, frozenset[Layer]] = {
    Layer.BRONZE: frozenset({Layer.BRONZE}),
    Layer.SILVER: frozenset({Layer.BRONZE, Layer.SILVER}),
    Layer.GOLD: frozenset({Layer.SILVER, Layer.GOLD}),
}
_BLOCKS = frozenset({GateVerdict.FAIL, GateVerdict.ERROR})


@dataclass(frozen=True, slots=True)
class JudgedDataset:
    id: UUID
    name: str | None  # None: not published
    layer: Layer
    active: bool = True
    registered: bool = True


@dataclass(frozen=True, slots=True)
class Parent:
    """A version that the run read."""

    dataset: str  # its name, or its uuid if it is not published
    layer: Layer
    version: int
    allowed: bool | None  # whether the decisions that promoted this version allowed it; None: no decision


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """How the written columns fit the table, in sentences."""

    breaking: tuple[str, ...] = ()      # changes that break current readers
    harmless: tuple[str, ...] = ()      # changes that current readers do not notice
    cannot_carry: tuple[str, ...] = ()  # changes that no Delta table can carry


@dataclass(frozen=True, slots=True)
class JudgedPolicy:
    id: UUID
    revision: int
    type: str
    expression: str
    enforcement: Enforcement


@dataclass(frozen=True, slots=True)
class JudgedRule:
    id: UUID
    revision: int
    tree: RuleTree
    severity: Severity
    scope: RuleScope
    measurement: RuleMeasurement | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One run's output of one dataset, with everything that the gate needs."""

    dataset: JudgedDataset
    output_index: int
    parents: tuple[Parent, ...]  # inputs that are tables; an input that only emits ranges has no rows
    policies: tuple[JudgedPolicy, ...]
    rules: tuple[JudgedRule, ...]
    rows: int                    # written rows
    table_rows: int              # rows of the table after the change
    outside_scope: int = 0       # rows outside the announced scopes
    unique_key: tuple[str, ...] = ()  # of an append whose rows must have a key
    null_keys: int = 0           # rows with a null in it
    refused_batches: tuple[str, ...] = ()   # why batches of the same task were refused
    schema: SchemaFacts = SchemaFacts()
    refused_siblings: tuple[str, ...] = ()  # why other outputs of the same task were refused

    @property
    def name(self) -> str:
        return self.dataset.name or str(self.dataset.id)


@dataclass(frozen=True)
class Decision:
    """The gate's decision, with all results."""

    from_layer: str
    to_layer: Layer
    allowed: bool
    stage: GateStage  # the stage that decided
    reason: str       # a sentence
    policy_results: tuple[PolicyResult, ...]
    quality_results: tuple[QualityResult, ...]


def judge_all(candidates: Sequence[Candidate]) -> list[Decision]:
    """The decisions on all outputs of one task, which are published together or not at all: one refusal blocks its siblings, and their decisions name it."""
    alone = [judge(candidate) for candidate in candidates]
    refused = tuple(
        sentences.refused_sibling(candidate.output_index, candidate.name, decision.reason)
        for candidate, decision in zip(candidates, alone, strict=True)
        if not decision.allowed
    )
    return [
        judge(replace(candidate, refused_siblings=refused)) if decision.allowed and refused else decision
        for candidate, decision in zip(candidates, alone, strict=True)
    ]


def judge(candidate: Candidate) -> Decision:
    if ineligible := _ineligible(candidate):
        return _decision(candidate, GateStage.ELIGIBILITY, sentences.blocked_by_facts(ineligible))
    implicit = _implicit_results(candidate)
    if unsuccessful := _unsuccessful(candidate, implicit):
        return _decision(candidate, GateStage.EXECUTION, sentences.blocked_by_facts(unsuccessful), implicit=implicit)
    policies = tuple(_policy_result(candidate, policy) for policy in _ordered_policies(candidate))
    if broken := [result.sentence for result in policies if result.verdict in _BLOCKS]:
        return _decision(candidate, GateStage.POLICIES, sentences.blocked_by(broken, "policy", "policies"), implicit=implicit, policies=policies)
    quality = tuple(_quality_result(candidate, rule) for rule in _ordered_rules(candidate))
    if broken := [result.sentence for result in quality if result.verdict in _BLOCKS]:
        return _decision(candidate, GateStage.QUALITY, sentences.blocked_by(broken, "rule", "rules"), implicit=implicit, policies=policies, quality=quality)
    warnings = [result.sentence for result in (*policies, *quality) if result.verdict is GateVerdict.WARN]
    reason = sentences.allowed(len(policies), len(quality), warnings)
    return _decision(candidate, GateStage.DECISION, reason, implicit=implicit, policies=policies, quality=quality)


def unmeasured(rules: Sequence[JudgedRule], *, rows: int, table_rows: int) -> list[JudgedRule]:
    """The rules that were added or changed after measuring: the attempt must measure them before it is decided."""
    return [rule for rule in rules if _measurement(rule) is None and _needs_measuring(rule, rows if rule.scope is RuleScope.BATCH else table_rows)]


def _ineligible(candidate: Candidate) -> list[str]:
    dataset = candidate.dataset
    if not dataset.registered:
        return [f"{candidate.name} is not a registered dataset"]
    found = [] if dataset.active else [f"{candidate.name} is not active"]
    parents = sorted(candidate.parents, key=lambda parent: (parent.dataset, parent.version))
    layers = {parent.layer for parent in parents}
    for parent in parents:
        if parent.layer not in _READABLE[dataset.layer]:
            found.append(f"a {dataset.layer.value} dataset does not read {parent.layer.value}, and {parent.dataset} is {parent.layer.value}")
    if dataset.layer is Layer.GOLD and Layer.SILVER not in layers:
        found.append("a gold dataset has a silver parent, and this run read none")
    elif dataset.layer is Layer.SILVER and not layers:
        found.append("a silver dataset is made of bronze or silver, and this run read neither")
    for parent in parents:
        if parent.allowed is None:
            found.append(f"no decision promoted version {parent.version} of {parent.dataset}, which this run read")
        elif not parent.allowed:
            found.append(f"version {parent.version} of {parent.dataset}, which this run read, was not allowed")
    return list(dict.fromkeys(found))


def _unsuccessful(candidate: Candidate, implicit: tuple[QualityResult, ...]) -> list[str]:
    found = [sentences.fact(sentence) for sentence in candidate.schema.cannot_carry]
    found += [sentences.fact(result.sentence) for result in implicit if result.verdict in _BLOCKS]
    return [*found, *candidate.refused_batches, *candidate.refused_siblings]


def _implicit_results(candidate: Candidate) -> tuple[QualityResult, ...]:
    """Results of the implicit rules; the key rule is reported only if it is broken, because every append has it."""
    rows = candidate.rows
    scope = _implicit(SCOPE, candidate.outside_scope, rows, sentences.scope_sentence(candidate.outside_scope, rows))
    if not candidate.unique_key or not candidate.null_keys:
        return (scope,)
    return scope, _implicit(KEY, candidate.null_keys, rows, sentences.key_sentence(candidate.unique_key, candidate.null_keys, rows))


def _implicit(type: str, violations: int, rows: int, sentence: str) -> QualityResult:
    return QualityResult(
        rule_id=None,
        revision=None,
        rule_type=type,
        verdict=GateVerdict.PASS if violations == 0 else GateVerdict.FAIL,
        violations=violations,
        examined=rows,
        method=None,
        milliseconds=None,
        sentence=sentence,
    )


def _policy_result(candidate: Candidate, policy: JudgedPolicy) -> PolicyResult:
    if policy.type != PolicyType.SCHEMA or policy.expression != NO_BREAKING_CHANGE:
        # An unknown policy does not pass: it is of a newer release, or was written directly into the database.
        return _policy(policy, GateVerdict.ERROR, sentences.unknown_policy(policy.type, policy.expression))
    if not candidate.schema.breaking:
        return _policy(policy, GateVerdict.PASS, sentences.schema_kept(candidate.schema.harmless))
    verdict = GateVerdict.FAIL if policy.enforcement is Enforcement.BLOCK else GateVerdict.WARN
    return _policy(policy, verdict, sentences.schema_broken(candidate.schema.breaking))


def _policy(policy: JudgedPolicy, verdict: GateVerdict, sentence: str) -> PolicyResult:
    return PolicyResult(policy_id=policy.id, revision=policy.revision, policy_type=policy.type, verdict=verdict, sentence=sentence)


def _quality_result(candidate: Candidate, rule: JudgedRule) -> QualityResult:
    rows = candidate.rows if rule.scope is RuleScope.BATCH else candidate.table_rows
    if isinstance(rule.tree, RowCount):
        return _counted(rule, rule.tree, rows)
    measured = _measurement(rule)
    if measured is None:
        if _needs_measuring(rule, rows):
            return _unknown(rule, measured, "it was not measured")
        return _quality(rule, GateVerdict.PASS, sentences.nothing_to_break(rule.tree), violations=0, examined=0)
    if measured.violations is None:
        return _unknown(rule, measured, measured.error or "it could not be measured")
    if measured.violations < 0 or (rows == 0 and measured.violations > 0):
        return _unknown(rule, measured, f"{measured.violations:,} violations in {rows:,} rows cannot be")
    return _quality(
        rule,
        _verdict(rule, broken=measured.violations > 0),
        sentences.rule_sentence(rule.tree, rule.scope, measured.violations, rows),
        violations=measured.violations,
        measured=measured,
    )


def _counted(rule: JudgedRule, tree: RowCount, rows: int) -> QualityResult:
    """Decided from row counts, without a measurement; a violation is a row too few or too many."""
    missing = max(0, (tree.least or 0) - rows)
    surplus = max(0, rows - tree.most) if tree.most is not None else 0
    violations = missing + surplus
    sentence = sentences.count_sentence(tree, rule.scope, rows, broken=violations > 0)
    return _quality(rule, _verdict(rule, broken=violations > 0), sentence, violations=violations, examined=rows, method=MeasuringMethod.FOOTERS)


def _verdict(rule: JudgedRule, *, broken: bool) -> GateVerdict:
    if not broken:
        return GateVerdict.PASS
    return GateVerdict.FAIL if rule.severity is Severity.FAIL else GateVerdict.WARN


def _unknown(rule: JudgedRule, measured: RuleMeasurement | None, why: str) -> QualityResult:
    return _quality(rule, GateVerdict.ERROR, sentences.not_evaluable(rule.tree, why), measured=measured)


def _measurement(rule: JudgedRule) -> RuleMeasurement | None:
    """The measurement of this revision."""
    measured = rule.measurement
    return measured if measured is not None and (measured.rule_id, measured.revision) == (rule.id, rule.revision) else None


def _needs_measuring(rule: JudgedRule, rows: int) -> bool:
    """Row counts need no measurement, and without rows no rule is broken."""
    return rows > 0 and not isinstance(rule.tree, RowCount)


def _quality(
    rule: JudgedRule,
    verdict: GateVerdict,
    sentence: str,
    *,
    violations: int | None = None,
    examined: int | None = None,
    method: MeasuringMethod | None = None,
    measured: RuleMeasurement | None = None,
) -> QualityResult:
    if measured is not None:
        examined, method = measured.examined, measured.method
    return QualityResult(
        rule_id=rule.id,
        revision=rule.revision,
        rule_type=rule.tree.type,
        verdict=verdict,
        violations=violations,
        examined=examined,
        method=method.value if method else None,
        milliseconds=measured.milliseconds if measured else None,
        samples=[sentences.plain(sample) for sample in measured.samples] if measured else [],
        sentence=sentence,
    )


def _decision(
    candidate: Candidate,
    stage: GateStage,
    reason: str,
    *,
    implicit: tuple[QualityResult, ...] | None = None,
    policies: tuple[PolicyResult, ...] | None = None,
    quality: tuple[QualityResult, ...] | None = None,
) -> Decision:
    """What was not evaluated is recorded as such, never omitted."""
    if implicit is None:
        unknown = {"verdict": GateVerdict.NOT_EVALUATED, "violations": None, "examined": None, "sentence": sentences.NOT_EVALUATED}
        implicit = tuple(result.model_copy(update=unknown) for result in _implicit_results(candidate))
    if policies is None:
        policies = tuple(_policy(policy, GateVerdict.NOT_EVALUATED, sentences.NOT_EVALUATED) for policy in _ordered_policies(candidate))
    if quality is None:
        quality = tuple(_quality(rule, GateVerdict.NOT_EVALUATED, sentences.NOT_EVALUATED) for rule in _ordered_rules(candidate))
    layer = candidate.dataset.layer
    return Decision(LAYER_BELOW[layer], layer, stage is GateStage.DECISION, stage, reason, policies, (*implicit, *quality))


def _ordered_policies(candidate: Candidate) -> list[JudgedPolicy]:
    return sorted(candidate.policies, key=lambda policy: policy.id)


def _ordered_rules(candidate: Candidate) -> list[JudgedRule]:
    return sorted(candidate.rules, key=lambda rule: rule.id)
