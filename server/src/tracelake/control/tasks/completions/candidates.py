"""Candidates: everything that the gate needs for some reports, read at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tracelake.control.dags.store import Output
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.promotion import store as promotion
from tracelake.control.promotion.gate import Candidate, JudgedDataset, JudgedRule, Parent, SchemaFacts, unmeasured
from tracelake.control.promotion.store import PolicyRow, RuleRow, TableRuleRow
from tracelake.control.registry import store as registry
from tracelake.control.registry.store import DatasetFacts
from tracelake.control.tasks.completions import store
from tracelake.control.tasks.completions.reported import Reported
from tracelake.control.tasks.completions.rows import PinnedParent
from tracelake.control.tasks.completions.tables import Plan
from tracelake.control.tasks.fingerprints import Pin
from tracelake_sdk.dags import Layer
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.rules import RuleScope, RuleToMeasure, RuleType


@dataclass(frozen=True)
class Gathered:
    """The rules, policies and parents for all reports of one transaction."""

    datasets: dict[UUID, DatasetFacts]
    rules: dict[UUID, list[RuleRow]]               # by dataset
    policies: dict[Layer, list[PolicyRow]]
    parents: dict[tuple[UUID, int], list[PinnedParent]]  # by task and attempt

    def pins_of(self, given: Reported) -> list[Pin]:
        return [parent.pin for parent in self._parents_of(given)]

    def noted_pins(self, given: Reported) -> list[dict[str, Any]]:
        """The pins as a decision stores them, so that a replay reads exactly these."""
        return [
            {"index": pin.index, "dataset": str(pin.dataset_id), "dataset_version": str(pin.dataset_version_id), "version": pin.version}
            for pin in self.pins_of(given)
        ]

    def has_table_rules(self, output: Output) -> bool:
        """Whether a table rule was measured; row counts are computed when deciding."""
        return any(rule.scope == RuleScope.TABLE.value and rule.rule_type != RuleType.ROW_COUNT.value for rule in self.rules[output.dataset_id])

    def unmeasured(self, given: Reported, measured: Mapping[int, OutputMeasured], plans: Mapping[int, Plan]) -> dict[int, list[RuleToMeasure]]:
        """By output: the active rules that the report did not measure."""
        found: dict[int, list[RuleToMeasure]] = {}
        for output in given.outputs:
            index = output.output_index
            rules = self.rules[output.dataset_id]
            missing = unmeasured(self._judged(rules, measured[index]), rows=measured[index].rows, table_rows=plans[index].row_count)
            if missing:
                wanted = {(rule.id, rule.revision) for rule in missing}
                found[index] = [rule.to_measure() for rule in rules if (rule.id, rule.revision) in wanted]
        return found

    def counted_on_table(self, output: Output, measured: OutputMeasured, place: int) -> list[TableRuleRow]:
        """Counts that later measurements of the table need not repeat."""
        counted = {(found.rule_id, found.revision): found.violations for found in measured.rules}
        return [
            TableRuleRow(output.dataset_version_id, rule.id, rule.revision, place, violations)
            for rule in self.rules[output.dataset_id]
            if rule.scope == RuleScope.TABLE.value and rule.rule_type == RuleType.UNIQUE.value
            if (violations := counted.get((rule.id, rule.revision))) is not None
        ]

    def candidates(self, given: Reported, measured: Mapping[int, OutputMeasured], plans: Mapping[int, Plan]) -> list[Candidate]:
        parents = tuple(
            Parent(parent.name or str(parent.pin.dataset_id), Layer(parent.layer), parent.pin.version, parent.allowed) for parent in self._parents_of(given)
        )
        return [self._candidate(given, output, measured[output.output_index], plans[output.output_index], parents) for output in given.outputs]

    def _candidate(self, given: Reported, output: Output, measured: OutputMeasured, plan: Plan, parents: tuple[Parent, ...]) -> Candidate:
        fact = self.datasets.get(output.dataset_id)
        layer = Layer(output.layer)
        return Candidate(
            dataset=JudgedDataset(output.dataset_id, fact.name if fact else None, layer, active=bool(fact and fact.active), registered=fact is not None),
            output_index=output.output_index,
            parents=parents,
            policies=tuple(policy.judged() for policy in self.policies[layer]),
            rules=tuple(self._judged(self.rules[output.dataset_id], measured)),
            rows=measured.rows,
            table_rows=plan.row_count,
            outside_scope=measured.outside_scope,
            unique_key=given.needed_key,
            null_keys=measured.null_keys,
            schema=SchemaFacts(
                breaking=tuple(fact.sentence for fact in plan.carried.breaking),
                harmless=tuple(fact.sentence for fact in plan.carried.harmless),
                cannot_carry=tuple(plan.carried.refused),
            ),
        )

    def _parents_of(self, given: Reported) -> list[PinnedParent]:
        return self.parents.get((given.task.id, given.attempt.attempt), [])

    @staticmethod
    def _judged(rules: Sequence[RuleRow], measured: OutputMeasured) -> list[JudgedRule]:
        return [rule.judged(measured.rules) for rule in rules]


def gather(tx: Transaction, org: UUID, outputs: Sequence[Output], fences: Sequence[tuple[UUID, int]]) -> Pending[Gathered]:
    """For the attempts of these fences, whose jobs have these outputs."""
    written = sorted({output.dataset_id for output in outputs})
    datasets = registry.send_facts(tx, written)
    rules = promotion.send_rules_of(tx, written)
    policies = promotion.send_policies_of(tx, org=org, layers=sorted({Layer(output.layer) for output in outputs}))
    parents = store.send_parents(tx, fences)
    return parents.then(lambda found: Gathered(datasets.result(), rules.result(), policies.result(), found))
