"""The gate: whether what one run wrote may become a version of its dataset. Pure: the same candidate always gets the same decision, word for word.

Eligibility, execution, policies, quality, decision: the first stage that refuses decides, inside a stage everything is looked at, and what lies
behind is recorded as not evaluated. What could not be evaluated blocks, whatever its severity: a warning that nobody could look for is not a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from tracelake.control.promotion import gate_words as words
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

    dataset: str  # its name, or its uuid where it has none
    layer: Layer
    version: int
    allowed: bool | None  # by the decisions that promoted this very version; None: there is none


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """How the columns that were written fit the table, in sentences."""

    breaking: tuple[str, ...] = ()      # a reader of today would miss something
    harmless: tuple[str, ...] = ()      # changes that no reader of today notices
    cannot_carry: tuple[str, ...] = ()  # what no table of this kind can hold


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
    """One run's output of one dataset, and everything that is known of it."""

    dataset: JudgedDataset
    output_index: int
    parents: tuple[Parent, ...]  # inputs that are tables; an input that only emits ranges has no rows
    policies: tuple[JudgedPolicy, ...]
    rules: tuple[JudgedRule, ...]
    rows: int                    # that were written
    table_rows: int              # of the table as it would be
    outside_scope: int = 0       # rows that belong to no scope that was announced
    unique_key: tuple[str, ...] = ()  # of an append in which every row needs one
    null_keys: int = 0           # rows with a null in it
    refused_batches: tuple[str, ...] = ()   # what stands against batches that the same task posted
    schema: SchemaFacts = SchemaFacts()
    refused_siblings: tuple[str, ...] = ()  # what stands against other outputs of the same task

    @property
    def name(self) -> str:
        return self.dataset.name or str(self.dataset.id)


@dataclass(frozen=True)
class Decision:
    """The gate's answer, with everything it rests on."""

    from_layer: str
    to_layer: Layer
    allowed: bool
    stage: GateStage  # where it was decided
    reason: str       # a sentence
    policy_results: tuple[PolicyResult, ...]
    quality_results: tuple[QualityResult, ...]


def judge_all(candidates: Sequence[Candidate]) -> list[Decision]:
    """The decisions on all outputs of one task, which are published all or none: one refusal blocks its siblings, and their decisions name it."""
    alone = [judge(candidate) for candidate in candidates]
    refused = tuple(
        words.refused_sibling(candidate.output_index, candidate.name, decision.reason)
        for candidate, decision in zip(candidates, alone, strict=True)
        if not decision.allowed
    )
    return [
        judge(replace(candidate, refused_siblings=refused)) if decision.allowed and refused else decision
        for candidate, decision in zip(candidates, alone, strict=True)
    ]


def judge(candidate: Candidate) -> Decision:
    if ineligible := _ineligible(candidate):
        return _decision(candidate, GateStage.ELIGIBILITY, words.blocked_by_facts(ineligible))
    implicit = _implicit_results(candidate)
    if unsuccessful := _unsuccessful(candidate, implicit):
        return _decision(candidate, GateStage.EXECUTION, words.blocked_by_facts(unsuccessful), implicit=implicit)
    policies = tuple(_policy_result(candidate, policy) for policy in _ordered_policies(candidate))
    if broken := [result.sentence for result in policies if result.verdict in _BLOCKS]:
        return _decision(candidate, GateStage.POLICIES, words.blocked_by(broken, "policy", "policies"), implicit=implicit, policies=policies)
    quality = tuple(_quality_result(candidate, rule) for rule in _ordered_rules(candidate))
    if broken := [result.sentence for result in quality if result.verdict in _BLOCKS]:
        return _decision(candidate, GateStage.QUALITY, words.blocked_by(broken, "rule", "rules"), implicit=implicit, policies=policies, quality=quality)
    warnings = [result.sentence for result in (*policies, *quality) if result.verdict is GateVerdict.WARN]
    reason = words.allowed(len(policies), len(quality), warnings)
    return _decision(candidate, GateStage.DECISION, reason, implicit=implicit, policies=policies, quality=quality)


def unmeasured(rules: Sequence[JudgedRule], *, rows: int, table_rows: int) -> list[JudgedRule]:
    """The rules that came, or changed, after the measuring: an attempt is asked to measure them before it is judged."""
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
    found = [words.fact(sentence) for sentence in candidate.schema.cannot_carry]
    found += [words.fact(result.sentence) for result in implicit if result.verdict in _BLOCKS]
    return [*found, *candidate.refused_batches, *candidate.refused_siblings]


def _implicit_results(candidate: Candidate) -> tuple[QualityResult, ...]:
    """Of the implicit rules; the one about keys is reported only if it is broken, because every append has it."""
    rows = candidate.rows
    scope = _implicit(SCOPE, candidate.outside_scope, rows, words.scope_sentence(candidate.outside_scope, rows))
    if not candidate.unique_key or not candidate.null_keys:
        return (scope,)
    return scope, _implicit(KEY, candidate.null_keys, rows, words.key_sentence(candidate.unique_key, candidate.null_keys, rows))


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
        # Not understood is not passed: a policy of a newer release, or one that was written around the service.
        return _policy(policy, GateVerdict.ERROR, words.unknown_policy(policy.type, policy.expression))
    if not candidate.schema.breaking:
        return _policy(policy, GateVerdict.PASS, words.schema_kept(candidate.schema.harmless))
    verdict = GateVerdict.FAIL if policy.enforcement is Enforcement.BLOCK else GateVerdict.WARN
    return _policy(policy, verdict, words.schema_broken(candidate.schema.breaking))


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
        return _quality(rule, GateVerdict.PASS, words.nothing_to_break(rule.tree), violations=0, examined=0)
    if measured.violations is None:
        return _unknown(rule, measured, measured.error or "it could not be measured")
    if measured.violations < 0 or (rows == 0 and measured.violations > 0):
        return _unknown(rule, measured, f"{measured.violations:,} violations in {rows:,} rows cannot be")
    return _quality(
        rule,
        _verdict(rule, broken=measured.violations > 0),
        words.rule_sentence(rule.tree, rule.scope, measured.violations, rows),
        violations=measured.violations,
        measured=measured,
    )


def _counted(rule: JudgedRule, tree: RowCount, rows: int) -> QualityResult:
    """Decided from the numbers of rows, which the gate knows by itself; a violation is a row too few or too many."""
    missing = max(0, (tree.least or 0) - rows)
    surplus = max(0, rows - tree.most) if tree.most is not None else 0
    violations = missing + surplus
    sentence = words.count_sentence(tree, rule.scope, rows, broken=violations > 0)
    return _quality(rule, _verdict(rule, broken=violations > 0), sentence, violations=violations, examined=rows, method=MeasuringMethod.FOOTERS)


def _verdict(rule: JudgedRule, *, broken: bool) -> GateVerdict:
    if not broken:
        return GateVerdict.PASS
    return GateVerdict.FAIL if rule.severity is Severity.FAIL else GateVerdict.WARN


def _unknown(rule: JudgedRule, measured: RuleMeasurement | None, why: str) -> QualityResult:
    return _quality(rule, GateVerdict.ERROR, words.not_evaluable(rule.tree, why), measured=measured)


def _measurement(rule: JudgedRule) -> RuleMeasurement | None:
    """What was measured for this very revision."""
    measured = rule.measurement
    return measured if measured is not None and (measured.rule_id, measured.revision) == (rule.id, rule.revision) else None


def _needs_measuring(rule: JudgedRule, rows: int) -> bool:
    """A number of rows is known without measuring, and no row breaks no rule."""
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
        samples=[words.plain(sample) for sample in measured.samples] if measured else [],
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
    """What was not looked at is recorded as that, never left out."""
    if implicit is None:
        unknown = {"verdict": GateVerdict.NOT_EVALUATED, "violations": None, "examined": None, "sentence": words.NOT_EVALUATED}
        implicit = tuple(result.model_copy(update=unknown) for result in _implicit_results(candidate))
    if policies is None:
        policies = tuple(_policy(policy, GateVerdict.NOT_EVALUATED, words.NOT_EVALUATED) for policy in _ordered_policies(candidate))
    if quality is None:
        quality = tuple(_quality(rule, GateVerdict.NOT_EVALUATED, words.NOT_EVALUATED) for rule in _ordered_rules(candidate))
    layer = candidate.dataset.layer
    return Decision(LAYER_BELOW[layer], layer, stage is GateStage.DECISION, stage, reason, policies, (*implicit, *quality))


def _ordered_policies(candidate: Candidate) -> list[JudgedPolicy]:
    return sorted(candidate.policies, key=lambda policy: policy.id)


def _ordered_rules(candidate: Candidate) -> list[JudgedRule]:
    return sorted(candidate.rules, key=lambda rule: rule.id)
