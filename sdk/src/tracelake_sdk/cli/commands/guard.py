"""The commands of `tracelake rule`, `tracelake policy` and `tracelake promotion`."""

from typing import Annotated, Literal
from uuid import UUID

import typer

from tracelake_sdk.cli.options import DryRun, Key, LayerName, Limit, Output, OutputFormat, Shown, Token

rules_app = typer.Typer(help="Rules: what good data means for a dataset.", no_args_is_help=True, rich_markup_mode=None)
policies_app = typer.Typer(help="Policies: what the platform guarantees for a layer.", no_args_is_help=True, rich_markup_mode=None)
promotions_app = typer.Typer(help="Promotions: what was decided about each run's output, and why.", no_args_is_help=True, rich_markup_mode=None)
RuleId = Annotated[UUID, typer.Argument(metavar="RULE", help="The id of the rule.")]
PolicyId = Annotated[UUID, typer.Argument(metavar="POLICY", help="The id of the policy.")]
OfDataset = Annotated[str | None, typer.Argument(metavar="DATASET", help="Only of this dataset, by its name or uuid.")]
Inactive = Annotated[bool, typer.Option("--all", help="Include those that are switched off.")]
SeverityName = Literal["FAIL", "WARN"]
ScopeName = Literal["batch", "table"]
EnforcementName = Literal["BLOCK", "ALERT"]
RuleTypeName = Literal["NOT_NULL", "RANGE", "UNIQUE", "ROW_COUNT", "ENUM", "REGEX"]
PolicyTypeName = Literal["SCHEMA"]


@rules_app.command("add")
def add_rule(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")],
    type: Annotated[RuleTypeName, typer.Argument(metavar="TYPE", help="NOT_NULL, RANGE, UNIQUE, ROW_COUNT, ENUM or REGEX.")],
    expression: Annotated[str, typer.Argument(metavar="EXPRESSION", help="As in: order_id | amount in [0, 100) | order_id, line | '>= 1'.")],
    severity: Annotated[SeverityName, typer.Option("--severity", help="FAIL blocks, WARN is recorded.")] = "FAIL",
    scope: Annotated[ScopeName, typer.Option("--scope", help="What a run wrote, or the whole table as it would be.")] = "batch",
    key: Key = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Define a rule. It applies to every run that is decided from now on."""
    from tracelake_sdk.cli.actions import guard

    guard.add_rule(dataset, type, expression, severity=severity, scope=scope, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@rules_app.command("list")
def list_rules(dataset: OfDataset = None, inactive: Inactive = False, limit: Limit = 50, token: Token = None, output: Output = Shown) -> None:
    """List rules, each in its current revision."""
    from tracelake_sdk.cli.actions import guard

    guard.list_rules(dataset, inactive=inactive, limit=limit, token=token, as_json=output is OutputFormat.JSON)


@rules_app.command("revise")
def revise_rule(
    id: RuleId,
    expression: Annotated[str | None, typer.Option("--expression", metavar="EXPRESSION", help="The new expression.")] = None,
    severity: Annotated[SeverityName | None, typer.Option("--severity", help="FAIL blocks, WARN is recorded.")] = None,
    scope: Annotated[ScopeName | None, typer.Option("--scope", help="What a run wrote, or the whole table as it would be.")] = None,
    key: Key = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Append a revision of a rule. A rule that was off is switched on again."""
    from tracelake_sdk.cli.actions import guard

    guard.revise_rule(id, expression=expression, severity=severity, scope=scope, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@rules_app.command("off")
def switch_rule_off(id: RuleId, key: Key = None, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Switch a rule off. Its revisions are kept."""
    from tracelake_sdk.cli.actions import guard

    guard.switch_rule_off(id, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@policies_app.command("add")
def add_policy(
    layer: Annotated[LayerName, typer.Argument(metavar="LAYER", help="bronze, silver or gold.")],
    type: Annotated[PolicyTypeName, typer.Argument(metavar="TYPE", help="SCHEMA.")],
    expression: Annotated[str, typer.Argument(metavar="EXPRESSION", help="As in: no breaking change.")],
    enforcement: Annotated[EnforcementName, typer.Option("--enforcement", help="BLOCK is absolute, ALERT is recorded.")] = "BLOCK",
    key: Key = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Define a policy of a layer. It applies to every run that is decided from now on."""
    from tracelake_sdk.cli.actions import guard

    guard.add_policy(layer, type, expression, enforcement=enforcement, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@policies_app.command("list")
def list_policies(
    layer: Annotated[LayerName | None, typer.Argument(metavar="LAYER", help="Only of this layer.")] = None,
    inactive: Inactive = False,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List policies, each in its current revision."""
    from tracelake_sdk.cli.actions import guard

    guard.list_policies(layer, inactive=inactive, limit=limit, token=token, as_json=output is OutputFormat.JSON)


@policies_app.command("revise")
def revise_policy(
    id: PolicyId,
    expression: Annotated[str | None, typer.Option("--expression", metavar="EXPRESSION", help="The new expression.")] = None,
    enforcement: Annotated[EnforcementName | None, typer.Option("--enforcement", help="BLOCK is absolute, ALERT is recorded.")] = None,
    key: Key = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Append a revision of a policy. A policy that was off is switched on again."""
    from tracelake_sdk.cli.actions import guard

    guard.revise_policy(id, expression=expression, enforcement=enforcement, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@policies_app.command("off")
def switch_policy_off(id: PolicyId, key: Key = None, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Switch a policy off. Its revisions are kept."""
    from tracelake_sdk.cli.actions import guard

    guard.switch_policy_off(id, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@promotions_app.command("list")
def list_promotions(
    dataset: OfDataset = None,
    blocked: Annotated[bool, typer.Option("--blocked", help="Only blocked decisions.")] = False,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List decisions, newest first."""
    from tracelake_sdk.cli.actions import guard

    guard.list_promotions(dataset, blocked=blocked, limit=limit, token=token, as_json=output is OutputFormat.JSON)


@promotions_app.command("show")
def show_promotion(
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="The id of the decision, or of its run.")], output: Output = Shown
) -> None:
    """Show a decision with all its results."""
    from tracelake_sdk.cli.actions import guard

    guard.show_promotion(decision, as_json=output is OutputFormat.JSON)
