"""`rule`, `policy` and `promotion`: what good data means, what the platform guarantees, and what was decided."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from rich.text import Text

from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, TableColumn, instant, print_json, print_table, say
from tracelake_sdk.client import Client
from tracelake_sdk.dags import Layer
from tracelake_sdk.errors import Forbidden, NotFound
from tracelake_sdk.pages import Page
from tracelake_sdk.rules import RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, GateVerdict, Policy, Promotion, Rule
from tracelake_sdk.suggestions import nearest

Item = TypeVar("Item")

_VERDICT_STYLES = {GateVerdict.PASS: "green", GateVerdict.WARN: "yellow", GateVerdict.FAIL: "red", GateVerdict.ERROR: "bold red", GateVerdict.NOT_EVALUATED: "dim"}


# Rules
def add_rule(dataset: str, type: str, expression: str, *, severity: str, scope: str, key: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        rule = client.rules.add(dataset, type, expression, severity=Severity(severity), scope=RuleScope(scope), dry_run=dry_run, idempotency_key=key)
        columns = _columns(client, rule)
    _print_rule(rule, columns, dry_run=dry_run, as_json=as_json, new=True)


def revise_rule(
    id: UUID, *, expression: str | None, severity: str | None, scope: str | None, key: str | None, dry_run: bool, as_json: bool
) -> None:
    with Client() as client:
        rule = client.rules.revise(
            id,
            expression=expression,
            severity=Severity(severity) if severity else None,
            scope=RuleScope(scope) if scope else None,
            dry_run=dry_run,
            idempotency_key=key,
        )
        columns = _columns(client, rule)
    _print_rule(rule, columns, dry_run=dry_run, as_json=as_json)


def switch_rule_off(id: UUID, *, key: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        rule = client.rules.deactivate(id, dry_run=dry_run, idempotency_key=key)
    _print_rule(rule, [], dry_run=dry_run, as_json=as_json)


def list_rules(dataset: str | None, *, inactive: bool, limit: int, token: str | None, as_json: bool) -> None:
    columns = [
        TableColumn("rule"), TableColumn("rev", right=True), TableColumn("dataset"), TableColumn("type"), TableColumn("expression", folds=True), TableColumn("severity"), TableColumn("scope"),
        TableColumn("state"),
    ]  # fmt: skip
    with Client() as client:
        page = client.rules.list(dataset=dataset, inactive=inactive, limit=limit, token=token)
    words = ["rule", "list", *([dataset] if dataset else []), *(["--all"] if inactive else [])]
    _print_page(page, columns, _rule_row, words, limit, as_json=as_json, nothing="No rules match.")


def _rule_row(rule: Rule) -> list[Cell]:
    return [
        str(rule.id), str(rule.revision), _dataset(rule), rule.rule_type.value, rule.rule_expression, rule.severity.value, rule.scope.value, _on(rule.active),
    ]  # fmt: skip


def _columns(client: Client, rule: Rule) -> list[str]:
    """The columns of the newest version if the rule names one that it does not have; empty if the author of the rule may not read them."""
    if rule.absent_columns:
        with suppress(Forbidden, NotFound):  # the rule is stored, so a missing suggestion must not look like a failure
            return [column.name for column in client.datasets.get(str(rule.dataset_id)).columns]
    return []


def _print_rule(rule: Rule, columns: list[str], *, dry_run: bool, as_json: bool, new: bool = False) -> None:
    what = f"{rule.rule_type.value} {rule.rule_expression}, {rule.severity.value}, on the {rule.scope.value}"
    # A dry run creates no usable id.
    sentence = f"{'A rule' if new and dry_run else f'Rule {rule.id}'} of {_dataset(rule)} {_is(rule, dry_run)} as revision {rule.revision}: {what}."
    _print_definition(rule, sentence, dry_run=dry_run, as_json=as_json)
    if rule.absent_columns and not as_json:
        say(absent_words(_dataset(rule), rule.absent_columns, columns))


def absent_words(dataset: str, absent: list[str], columns: list[str]) -> str:
    """The warning about columns that a rule names and the newest version does not have; `columns` are the existing ones."""
    meant = [near for column in absent if (near := nearest(column, columns))]
    advice = f" Did you mean {' and '.join(meant)}?" if meant else ""
    return f"The newest version of {dataset} has no column {' and '.join(absent)}: a run without this column cannot be measured and is blocked.{advice}"


def _dataset(of: Rule | Promotion) -> str:
    return of.dataset_name or str(of.dataset_id)


# Policies
def add_policy(layer: str, type: str, expression: str, *, enforcement: str, key: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        policy = client.policies.add(Layer(layer), type, expression, enforcement=Enforcement(enforcement), dry_run=dry_run, idempotency_key=key)
    _print_policy(policy, dry_run=dry_run, as_json=as_json, new=True)


def revise_policy(id: UUID, *, expression: str | None, enforcement: str | None, key: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        chosen = Enforcement(enforcement) if enforcement else None
        policy = client.policies.revise(id, expression=expression, enforcement=chosen, dry_run=dry_run, idempotency_key=key)
    _print_policy(policy, dry_run=dry_run, as_json=as_json)


def switch_policy_off(id: UUID, *, key: str | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        policy = client.policies.deactivate(id, dry_run=dry_run, idempotency_key=key)
    _print_policy(policy, dry_run=dry_run, as_json=as_json)


def list_policies(layer: str | None, *, inactive: bool, limit: int, token: str | None, as_json: bool) -> None:
    columns = [
        TableColumn("policy"), TableColumn("rev", right=True), TableColumn("layer"), TableColumn("type"), TableColumn("expression", folds=True), TableColumn("enforcement"), TableColumn("state"),
    ]  # fmt: skip
    with Client() as client:
        page = client.policies.list(layer=Layer(layer) if layer else None, inactive=inactive, limit=limit, token=token)
    words = ["policy", "list", *([layer] if layer else []), *(["--all"] if inactive else [])]
    _print_page(page, columns, _policy_row, words, limit, as_json=as_json, nothing="No policies match.")


def _policy_row(policy: Policy) -> list[Cell]:
    return [
        str(policy.id), str(policy.revision), policy.applies_to_layer.value, policy.policy_type.value, policy.policy_expression, policy.enforcement.value,
        _on(policy.active),
    ]  # fmt: skip


def _print_policy(policy: Policy, *, dry_run: bool, as_json: bool, new: bool = False) -> None:
    what = f"{policy.policy_type.value} {policy.policy_expression}, {policy.enforcement.value}"
    sentence = f"{'A policy' if new and dry_run else f'Policy {policy.id}'} of the layer {policy.applies_to_layer.value} {_is(policy, dry_run)} as revision {policy.revision}: {what}."
    _print_definition(policy, sentence, dry_run=dry_run, as_json=as_json)


# Decisions
def list_promotions(dataset: str | None, *, blocked: bool, limit: int, token: str | None, as_json: bool) -> None:
    columns = [
        TableColumn("decided"), TableColumn("dataset"), TableColumn("to"), TableColumn("answer"), TableColumn("stage"), TableColumn("run"), TableColumn("reason", folds=True),
    ]  # fmt: skip
    with Client() as client:
        page = client.promotions.list(dataset=dataset, allowed=False if blocked else None, limit=limit, token=token)
    words = ["promotion", "list", *([dataset] if dataset else []), *(["--blocked"] if blocked else [])]
    _print_page(page, columns, _promotion_row, words, limit, as_json=as_json, nothing="No decisions match.")


def _promotion_row(promotion: Promotion) -> list[Cell]:
    return [
        instant(promotion.evaluated_at), _dataset(promotion), promotion.to_layer.value, _answer(promotion), promotion.stage.value, promotion.run_id,
        promotion.reason,
    ]  # fmt: skip


def show_promotion(decision: str, *, as_json: bool) -> None:
    with Client() as client:
        promotion = client.promotions.get(decision)
    if as_json:
        print_json(promotion)
        return
    facts: list[tuple[str, Cell]] = [
        ("decision", str(promotion.id)),
        ("run", promotion.run_id),
        ("dataset", _dataset(promotion)),
        ("from, to", f"{promotion.from_layer}, {promotion.to_layer.value}"),
        ("answer", _answer(promotion)),
        ("stage", promotion.stage.value),
        ("decided", instant(promotion.evaluated_at)),
    ]
    for name, value in facts:
        say(Text.assemble((f"{name:<14}", "bold"), value if isinstance(value, Text) else Text(value)))
    say(promotion.reason)
    say()
    rows: list[list[Cell]] = [["policy", result.policy_type, _verdict(result.verdict), "", result.sentence, ""] for result in promotion.policy_results]
    rows += [
        ["rule", result.rule_type, _verdict(result.verdict), _count(result.violations), result.sentence, ", ".join(result.samples)]
        for result in promotion.quality_results
    ]
    columns = [TableColumn("kind"), TableColumn("type"), TableColumn("verdict"), TableColumn("violations", right=True), TableColumn("found", folds=True), TableColumn("among them", folds=True)]
    some = any(result.samples for result in promotion.quality_results)  # samples are visible only to those who may read the rows
    print_table(columns if some else columns[:-1], rows if some else [row[:-1] for row in rows])


def _answer(promotion: Promotion) -> Text:
    return Text("allowed", "green") if promotion.allowed else Text("blocked", "red")


def _verdict(verdict: GateVerdict) -> Text:
    return Text(verdict.value.replace("_", " "), _VERDICT_STYLES[verdict])


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _on(active: bool) -> Text:
    return Text("active", "green") if active else Text("off", "dim")


def _is(defined: Rule | Policy, dry_run: bool) -> str:
    return f"{'would be' if dry_run else 'is'} {'active' if defined.active else 'off'}"


def _print_definition(defined: Rule | Policy, sentence: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": dry_run, **defined.model_dump(mode="json")})
    else:
        say(sentence + (" Nothing was changed." if dry_run else ""))


def _print_page(
    page: Page[Item], columns: Sequence[TableColumn], row: Callable[[Item], Sequence[Cell]], words: Sequence[str], limit: int, *, as_json: bool, nothing: str
) -> None:
    if as_json:
        print_json(page)
    elif not page.items:
        say(nothing)
    else:
        print_table(columns, [row(item) for item in page.items])
        if page.next is not None:
            say()
            say("Next page:")
            say(f"  {again(*words, '--limit', str(limit), '--token', page.next)}")
