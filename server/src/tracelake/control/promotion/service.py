"""Rules and policies: admins define them; people read decisions and their reasons."""

import hashlib
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from tracelake import wire_json
from tracelake.control.access import store as access
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database import idempotency
from tracelake.control.database.ids import new_id
from tracelake.control.database.pages import next_token
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.promotion import store
from tracelake.control.promotion.gate import NO_BREAKING_CHANGE
from tracelake.control.promotion.policy_expressions import parse_policy
from tracelake.control.promotion.rule_expressions import parse
from tracelake.control.promotion.store import PolicyRow, PromotionRow, RuleDataset, RuleLine
from tracelake.control.registry import reading
from tracelake_sdk.dags import Layer
from tracelake_sdk.errors import IdempotencyConflict, NotFound, PolicyInvalid, RuleInvalid
from tracelake_sdk.pages import Page
from tracelake_sdk.rules import RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, Policy, PolicyType, Promotion, Rule

_DEFINITION = "definition"
_EVERY = 100_000  # limit of definitions of one dataset or org, never reached in practice


@dataclass(frozen=True)
class RulesAndPolicies:
    database: Database

    # Rules
    def add_rule(
        self,
        caller: Caller,
        dataset: str,
        type: str,
        expression: str,
        *,
        severity: Severity = Severity.FAIL,
        scope: RuleScope = RuleScope.BATCH,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Rule:
        """Defines a rule of a dataset, by its name or uuid; it applies to every run that is decided from now on. A dry run only validates."""
        caller.require(Permission.DEFINE)
        tree = parse(type, expression)
        with self.database.transaction("add_rule", role=DatabaseRole.DEFINE) as tx:
            found = _dataset(tx, caller, dataset)
            if not found.has_files:
                raise RuleInvalid(f"The dataset {dataset} has events only and no rows; a rule needs the rows of a table.")
            store.lock_definition(tx, found.id)
            new = RuleLine(
                new_id(), 1, found.id, found.name, found.layer, tree.type, expression.strip(), tree.model_dump(mode="json"), severity.value, scope.value,
                True, caller.name, datetime.now(UTC),
            )  # fmt: skip
            if earlier := _earlier(tx, caller, None if dry_run else idempotency_key, ["add_rule", str(found.id), type, expression, severity, scope], new.id):
                return _rule(_get_rule(tx, caller, earlier))
            for other in store.rules(tx, org=caller.org_id, datasets=[found.id], inactive=False, after=None, limit=_EVERY):
                if (other.tree, other.scope) == (new.tree, new.scope):
                    raise RuleInvalid(f"This rule already exists for this dataset, as {other.id}; revise that one.")
            return _append_rule(tx, caller, new, "add_rule", dry_run=dry_run)

    def revise_rule(
        self,
        caller: Caller,
        id: UUID,
        *,
        expression: str | None = None,
        severity: Severity | None = None,
        scope: RuleScope | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Rule:
        """Appends a revision with the given values and activates an inactive rule; without a change it appends nothing."""
        caller.require(Permission.DEFINE)
        with self.database.transaction("revise_rule", role=DatabaseRole.DEFINE) as tx:
            store.lock_definition(tx, id)
            before = _get_rule(tx, caller, id)
            after = before if expression is None else replace(
                before, rule_expression=expression.strip(), tree=parse(before.rule_type, expression).model_dump(mode="json")
            )
            after = replace(after, severity=(severity or Severity(before.severity)).value, scope=(scope or RuleScope(before.scope)).value, active=True)
            if _earlier(tx, caller, None if dry_run else idempotency_key, ["revise_rule", str(id), expression, severity, scope], id):
                return _rule(before)
            return _revise_rule(tx, caller, before, after, "revise_rule", dry_run=dry_run)

    def deactivate_rule(self, caller: Caller, id: UUID, *, dry_run: bool = False, idempotency_key: str | None = None) -> Rule:
        """Deactivates a rule with a new revision; an inactive rule does not change."""
        caller.require(Permission.DEFINE)
        with self.database.transaction("deactivate_rule", role=DatabaseRole.DEFINE) as tx:
            store.lock_definition(tx, id)
            before = _get_rule(tx, caller, id)
            if _earlier(tx, caller, None if dry_run else idempotency_key, ["deactivate_rule", str(id)], id):
                return _rule(before)
            return _revise_rule(tx, caller, before, replace(before, active=False), "deactivate_rule", dry_run=dry_run)

    def list_rules(self, caller: Caller, *, dataset: str | None = None, inactive: bool = False, limit: int = 50, after: UUID | None = None) -> Page[Rule]:
        """The current revision of each rule, the oldest rule first."""
        caller.require(Permission.READ)
        with self.database.transaction("list_rules") as tx:
            chosen = [reading.find(tx, caller, dataset)] if dataset else reading.all_visible(tx, caller)
            rows = store.rules(tx, org=caller.org_id, datasets=chosen, inactive=inactive, after=after, limit=limit + 1)
        return Page(items=[_rule(row) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.id))

    # Policies
    def add_policy(
        self,
        caller: Caller,
        layer: Layer,
        type: str,
        expression: str,
        *,
        enforcement: Enforcement = Enforcement.BLOCK,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Policy:
        """Defines a policy for every dataset of a layer; it applies to every run that is decided from now on. A dry run only validates."""
        caller.require(Permission.DEFINE)
        policy_type, says = parse_policy(type, expression)
        with self.database.transaction("add_policy", role=DatabaseRole.DEFINE) as tx:
            store.lock_definition(tx, caller.org_id)
            new = PolicyRow(new_id(), 1, layer.value, policy_type.value, says, enforcement.value, True, caller.name, datetime.now(UTC))
            if earlier := _earlier(tx, caller, None if dry_run else idempotency_key, ["add_policy", layer, type, expression, enforcement], new.id):
                return _policy(_get_policy(tx, caller, earlier))
            for other in store.policies(tx, org=caller.org_id, layer=layer, inactive=False, after=None, limit=_EVERY):
                if (other.policy_type, other.policy_expression) == (new.policy_type, new.policy_expression):
                    raise PolicyInvalid(f"The layer {layer.value} already has this policy, as {other.id} with {other.enforcement}; revise that one.")
            return _append_policy(tx, caller, new, "add_policy", dry_run=dry_run)

    def revise_policy(
        self,
        caller: Caller,
        id: UUID,
        *,
        expression: str | None = None,
        enforcement: Enforcement | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Policy:
        """Appends a revision with the given values and activates an inactive policy; without a change it appends nothing."""
        caller.require(Permission.DEFINE)
        with self.database.transaction("revise_policy", role=DatabaseRole.DEFINE) as tx:
            store.lock_definition(tx, id)
            before = _get_policy(tx, caller, id)
            says = before.policy_expression if expression is None else parse_policy(before.policy_type, expression)[1]
            after = replace(before, policy_expression=says, enforcement=(enforcement or Enforcement(before.enforcement)).value, active=True)
            if _earlier(tx, caller, None if dry_run else idempotency_key, ["revise_policy", str(id), expression, enforcement], id):
                return _policy(before)
            return _revise_policy(tx, caller, before, after, "revise_policy", dry_run=dry_run)

    def deactivate_policy(self, caller: Caller, id: UUID, *, dry_run: bool = False, idempotency_key: str | None = None) -> Policy:
        """Deactivates a policy with a new revision; an inactive policy does not change."""
        caller.require(Permission.DEFINE)
        with self.database.transaction("deactivate_policy", role=DatabaseRole.DEFINE) as tx:
            store.lock_definition(tx, id)
            before = _get_policy(tx, caller, id)
            if _earlier(tx, caller, None if dry_run else idempotency_key, ["deactivate_policy", str(id)], id):
                return _policy(before)
            return _revise_policy(tx, caller, before, replace(before, active=False), "deactivate_policy", dry_run=dry_run)

    def list_policies(
        self, caller: Caller, *, layer: Layer | None = None, inactive: bool = False, limit: int = 50, after: UUID | None = None
    ) -> Page[Policy]:
        """The current revision of each policy, the oldest policy first."""
        caller.require(Permission.READ)
        with self.database.transaction("list_policies") as tx:
            rows = store.policies(tx, org=caller.org_id, layer=layer, inactive=inactive, after=after, limit=limit + 1)
        return Page(items=[_policy(row) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.id))

    # Decisions
    def promotions(
        self, caller: Caller, *, dataset: str | None = None, allowed: bool | None = None, limit: int = 50, before: int | None = None
    ) -> Page[Promotion]:
        """Decisions with their results, the newest first."""
        caller.require(Permission.READ)
        with self.database.transaction("list_promotions") as tx:
            chosen = [reading.find(tx, caller, dataset)] if dataset else reading.all_visible(tx, caller)
            rows = store.promotions(tx, org=caller.org_id, datasets=chosen, allowed=allowed, before=before, limit=limit + 1)
            items = _with_results(tx, caller, rows[:limit])
        return Page(items=items, next=next_token(rows, limit, lambda row: row.seq))

    def decision(self, caller: Caller, which: str) -> Promotion:
        """One decision, by its id or by the id of its run."""
        caller.require(Permission.READ)
        id = reading.uuid_of(which)
        with self.database.transaction("get_promotion") as tx:
            rows = store.promotions(tx, org=caller.org_id, id=id, run=None if id else which, datasets=reading.all_visible(tx, caller), limit=1)
            if not rows:
                raise NotFound(f"Decision {which[:100]!r} was not found in this org; `tracelake promotion list` lists them.")
            return _with_results(tx, caller, rows)[0]


def decision_of(tx: Transaction, caller: Caller, *, run: str) -> Promotion | None:
    """The decision about a run that the caller may see."""
    found = _with_results(tx, caller, store.promotions(tx, org=caller.org_id, run=run, limit=1))
    return found[0] if found else None


def ensure_default_policies(tx: Transaction, *, org: UUID, actor: str) -> None:
    """By default no layer accepts a breaking change. An org that has or had a policy keeps its own."""
    store.lock_definition(tx, org)
    if store.has_policies(tx, org=org):
        return
    for layer in Layer:
        default = PolicyRow(
            new_id(), 1, layer.value, PolicyType.SCHEMA.value, NO_BREAKING_CHANGE, Enforcement.BLOCK.value, True, actor, datetime.now(UTC)
        )
        store.append_policy(tx, org=org, policy=default)
    access.append_audit(tx, org=org, actor=actor, action="add_policy", object="the default policies")


def _dataset(tx: Transaction, caller: Caller, named: str) -> RuleDataset:
    id = reading.uuid_of(named)
    found = store.find_dataset(tx, org=caller.org_id, id=id, name=None if id else named)
    if found is None:
        raise NotFound(f"Dataset {named[:128]!r} was not found in this org; {reading.advice(tx, caller, named)}")
    return found


def _get_rule(tx: Transaction, caller: Caller, id: UUID) -> RuleLine:
    found = store.find_rule(tx, org=caller.org_id, id=id)
    if found is None:
        raise NotFound(f"Rule {id} was not found in this org; `tracelake rule list` lists them.")
    return found


def _get_policy(tx: Transaction, caller: Caller, id: UUID) -> PolicyRow:
    found = store.find_policy(tx, org=caller.org_id, id=id)
    if found is None:
        raise NotFound(f"Policy {id} was not found in this org; `tracelake policy list` lists them.")
    return found


def _revise_rule(tx: Transaction, caller: Caller, before: RuleLine, after: RuleLine, action: str, *, dry_run: bool) -> Rule:
    if after == before:
        return _with_warning(tx, before)
    new = replace(after, revision=before.revision + 1, actor=caller.name, at=datetime.now(UTC))
    return _append_rule(tx, caller, new, action, dry_run=dry_run)


def _append_rule(tx: Transaction, caller: Caller, new: RuleLine, action: str, *, dry_run: bool) -> Rule:
    if dry_run:
        return _with_warning(tx, new)
    store.append_rule(tx, org=caller.org_id, rule=new)
    detail = {"revision": new.revision, "dataset": str(new.dataset_id), "type": new.rule_type, "severity": new.severity, "active": new.active}
    access.append_audit(tx, org=caller.org_id, actor=caller.name, action=action, object=str(new.id), detail=detail)
    return _with_warning(tx, _get_rule(tx, caller, new.id))


def _with_warning(tx: Transaction, row: RuleLine) -> Rule:
    """Adds a warning for columns that the table lacks: they are misspelled and block every run, or do not exist yet."""
    there = store.columns_now(tx, row.dataset_id) if row.active else []
    named = [row.tree["column"]] if "column" in row.tree else row.tree.get("columns", [])
    return _rule(row).model_copy(update={"absent_columns": [column for column in named if there and column not in there]})


def _revise_policy(tx: Transaction, caller: Caller, before: PolicyRow, after: PolicyRow, action: str, *, dry_run: bool) -> Policy:
    if after == before:
        return _policy(before)
    new = replace(after, revision=before.revision + 1, actor=caller.name, at=datetime.now(UTC))
    return _append_policy(tx, caller, new, action, dry_run=dry_run)


def _append_policy(tx: Transaction, caller: Caller, new: PolicyRow, action: str, *, dry_run: bool) -> Policy:
    if dry_run:
        return _policy(new)
    store.append_policy(tx, org=caller.org_id, policy=new)
    detail = {"revision": new.revision, "layer": new.applies_to_layer, "type": new.policy_type, "enforcement": new.enforcement, "active": new.active}
    access.append_audit(tx, org=caller.org_id, actor=caller.name, action=action, object=str(new.id), detail=detail)
    return _policy(_get_policy(tx, caller, new.id))


def _earlier(tx: Transaction, caller: Caller, key: str | None, request: list[str | None], id: UUID) -> UUID | None:
    """The definition that an earlier request with this key created; None for the first request, or without a key."""
    if key is None:
        return None
    name = hashlib.sha256(key.encode()).digest()
    body = hashlib.sha256(wire_json.encode(request)).digest()
    if idempotency.remember_first(tx, org=caller.org_id, kind=_DEFINITION, key=name, body=body, id=id):
        return None
    earlier = idempotency.known(tx, org=caller.org_id, kind=_DEFINITION, keys=[name])[name]
    if earlier.body_sha256 != body:
        raise IdempotencyConflict
    return earlier.id


def _rule(row: RuleLine) -> Rule:
    return Rule.model_validate(asdict(row))


def _policy(row: PolicyRow) -> Policy:
    return Policy.model_validate(asdict(row))


def _with_results(tx: Transaction, caller: Caller, rows: list[PromotionRow]) -> list[Promotion]:
    """Samples are row values and need read permission; inputs that the caller may not see are not named."""
    ids = [row.id for row in rows]
    policies, quality = store.policy_results(tx, ids), store.quality_results(tx, ids)
    reads = reading.readable(tx, caller, {row.dataset_id for row in rows})
    rows = _known_pins(tx, caller, rows)
    unread = {row.id for row in rows if row.dataset_id not in reads}
    quality = [replace(result, samples=[]) if result.promotion_id in unread else result for result in quality]
    return [
        Promotion.model_validate(
            asdict(row)
            | {
                "policy_results": [asdict(result) for result in policies if result.promotion_id == row.id],
                "quality_results": [asdict(result) for result in quality if result.promotion_id == row.id],
            }
        )
        for row in rows
    ]


def _known_pins(tx: Transaction, caller: Caller, rows: list[PromotionRow]) -> list[PromotionRow]:
    read = {UUID(pin["dataset"]) for row in rows for pin in row.evidence.get("pins", [])}
    unknown = {str(dataset) for dataset in read - reading.visible(tx, caller, read)}
    if not unknown:
        return rows
    return [replace(row, evidence=row.evidence | {"pins": [pin for pin in row.evidence.get("pins", []) if pin["dataset"] not in unknown]}) for row in rows]
