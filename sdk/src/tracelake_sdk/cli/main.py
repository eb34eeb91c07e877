"""The commands of `tracelake`, their options, and how an error ends it. A command imports what it needs when it runs."""

import os
import sys
from typing import Annotated, Literal
from uuid import UUID

try:
    import typer
except ModuleNotFoundError:
    raise SystemExit("The command line is an extra of the SDK; install `tracelake-sdk[cli]`.") from None

from tracelake_sdk.cli.administration import admin_app
from tracelake_sdk.cli.invocation import pasteable, program
from tracelake_sdk.cli.metadata import kind_app, record_app
from tracelake_sdk.cli.options import DryRun, Key, LayerName, Limit, Output, OutputFormat, Shown, Token
from tracelake_sdk.cli.query_commands import query, replay
from tracelake_sdk.errors import SettingInvalid, TracelakeError

_FAILED = 1
_USAGE = 2

app = typer.Typer(
    help="Tracelake: pipelines as DAGs, every event and every run accounted for.",
    epilog="Address and token are found in TRACELAKE_HOME, or given by TRACELAKE_API_URL and TRACELAKE_TOKEN."
    " Exit codes: 0 done, 1 failed, 2 wrong usage, 3 still running at --timeout, 4 blocked by the gate.",
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
)  # fmt: skip
tasks_app = typer.Typer(help="Tasks: list them, look at one, cancel one.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(tasks_app, name="task")
datasets_app = typer.Typer(help="Datasets and their versions.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(datasets_app, name="dataset")
rules_app = typer.Typer(help="Rules: what good data means for a dataset.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(rules_app, name="rule")
policies_app = typer.Typer(help="Policies: what the platform guarantees for a layer.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(policies_app, name="policy")
promotions_app = typer.Typer(help="Promotions: what was decided about each run's output, and why.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(promotions_app, name="promotion")
app.add_typer(record_app, name="record")
app.add_typer(kind_app, name="kind")
app.add_typer(admin_app, name="admin")


Anything = Annotated[str | None, typer.Argument(metavar="DAG[/JOB]", help="Only of this DAG or job.")]
Chosen = Annotated[str, typer.Argument(metavar="DAG[/JOB]", help="A DAG, or one job of it.")]
TaskId = Annotated[UUID, typer.Argument(metavar="ID", help="The id of the task.")]
State = Literal["queued", "running", "committing", "completed", "failed", "canceled"]
Status = Literal["SUCCESS", "FAILED", "BLOCKED"]
RuleId = Annotated[UUID, typer.Argument(metavar="RULE", help="The id of the rule.")]
PolicyId = Annotated[UUID, typer.Argument(metavar="POLICY", help="The id of the policy.")]
OfDataset = Annotated[str | None, typer.Argument(metavar="DATASET", help="Only of this dataset, by its name or uuid.")]
Inactive = Annotated[bool, typer.Option("--all", help="Include those that are switched off.")]
SeverityName = Literal["FAIL", "WARN"]
ScopeName = Literal["batch", "table"]
EnforcementName = Literal["BLOCK", "ALERT"]
RuleTypeName = Literal["NOT_NULL", "RANGE", "UNIQUE", "ROW_COUNT", "ENUM", "REGEX"]
PolicyTypeName = Literal["SCHEMA"]


@app.command()
def up() -> None:
    """Start a system on this machine. It runs until Ctrl-C."""
    from tracelake_sdk.cli import system

    system.up()


@app.command()
def demo() -> None:
    """Run a guided demo on this machine. Starts a system if none is running."""
    from tracelake_sdk.cli.demo import story

    story.run()


@app.command()
def init(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder; created if it is missing.", show_default="this folder")] = ".",
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Create a project folder that works. Existing files are never overwritten."""
    from tracelake_sdk.cli.project import making

    making.init(folder, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def schema() -> None:
    """Print the JSON Schema of DAG files, for editors. `tracelake init` puts it beside the DAG file."""
    from tracelake_sdk.cli.project import making

    print(making.dag_file_schema(), end="")


@app.command()
def doctor(output: Output = Shown) -> None:
    """Check this machine and the running system, and say how to fix what fails."""
    from tracelake_sdk.cli import system

    system.doctor(as_json=output is OutputFormat.JSON)


@app.command()
def deploy(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DAG file; - reads it from standard input.")], dry_run: DryRun = False, output: Output = Shown
) -> None:
    """Activate the DAG of a file. The same definition again changes nothing."""
    from tracelake_sdk.cli import dags

    dags.deploy(file, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def run(
    job: Annotated[str, typer.Argument(metavar="DAG/JOB", help="A source job; with --rewrite, also one that replaces its table.")],
    cursor: Annotated[list[str] | None, typer.Option("--cursor", metavar="CURSOR", help="A cursor to emit: a number or a time. May be repeated.")] = None,
    cursors: Annotated[
        str | None, typer.Option("--cursors", metavar="CURSORS", help="Several: 1..100 (both ends), or 2024-01-01T00:00:00Z,2024-01-02T00:00:00Z.")
    ] = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="With cursors: emit them as rewritten. Without: rewrite the whole table of a job that replaces, from the current inputs.")
    ] = False,
    request: Annotated[str | None, typer.Option("--request", metavar="JSON", help="The complete request as JSON, in the form that the job's operator expects.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the task and everything that it causes is final. Exit code 1: a task failed; 4: the gate blocked one.")
    ] = False,
    only: Annotated[bool, typer.Option("--only", help="With --wait: wait for the task alone.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="With --wait: stop waiting after this time, with exit code 3. The run continues.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", metavar="KEY", help="The same key with the same request is the same task. Generated if omitted.")
    ] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Request a run of a job, which is one task."""
    from tracelake_sdk.cli import running, targets

    dag, name = targets.parse_job(job)
    if not wait and (only or timeout is not None):
        raise typer.BadParameter("requires --wait", param_hint="--only" if only else "--timeout")
    wanted = targets.request_of([*(cursor or []), *([cursors] if cursors is not None else [])], rewrite=rewrite, request=request)
    running.run(dag, name, wanted, key=key, waiting=running.Waiting(wait, only, timeout), dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def status(
    dag: Annotated[str | None, typer.Argument(metavar="DAG", help="Only this DAG.")] = None, output: Output = Shown
) -> None:
    """Show DAGs with the tasks of each job, and why tasks wait."""
    from tracelake_sdk.cli import dags

    dags.status(dag, as_json=output is OutputFormat.JSON)


@tasks_app.command("list")
def list_tasks(
    target: Anything = None,
    state: Annotated[State | None, typer.Option("--state", help="Only tasks in this state.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List tasks."""
    from tracelake_sdk.cli import paging, targets, tasks

    chosen = targets.parse_target(target) if target is not None else None
    command = paging.ListCommand(("task", "list"), chosen, limit, token, ("--state", state) if state else ())
    tasks.list_tasks(command, state=state, as_json=output is OutputFormat.JSON)


@tasks_app.command("show")
def show_task(id: TaskId, output: Output = Shown) -> None:
    """Show a task with its attempts."""
    from tracelake_sdk.cli import tasks

    tasks.show_task(id, as_json=output is OutputFormat.JSON)


@tasks_app.command("cancel")
def cancel_task(id: TaskId, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Cancel a task: a queued task ends at once, a running task gets a stop request."""
    from tracelake_sdk.cli import tasks

    tasks.cancel_task(id, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def events(
    target: Anything = None,
    producer: Annotated[UUID | None, typer.Option("--producer", metavar="TASK", help="Only events that this task emitted.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List events, and the ledger: the task of each subscriber, or that it filtered the event."""
    from tracelake_sdk.cli import history, paging, targets

    chosen = targets.parse_target(target) if target is not None else None
    command = paging.ListCommand(("events",), chosen, limit, token, ("--producer", str(producer)) if producer else ())
    history.list_events(command, producer=producer, as_json=output is OutputFormat.JSON)


@app.command()
def log(
    target: Annotated[str | None, typer.Argument(metavar="DAG[/JOB]|RUN", help="Only of this DAG or job; or one run, with its inputs, outputs and decision.")] = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only runs with this status.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List the run history: what ran, when, and how it ended; or show one run."""
    from tracelake_sdk.cli import history, paging, targets

    if target is not None and ":" in target:  # names of DAGs and jobs never contain one
        history.show_run(target, as_json=output is OutputFormat.JSON)
        return
    chosen = targets.parse_target(target) if target is not None else None
    command = paging.ListCommand(("log",), chosen, limit, token, ("--status", status) if status else ())
    history.list_runs(command, status=status, as_json=output is OutputFormat.JSON)


@app.command()
def pause(target: Chosen, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Hold the tasks of a DAG or job; running tasks continue."""
    from tracelake_sdk.cli import dags, targets

    dags.pause(targets.parse_target(target), dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def resume(target: Chosen, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Resume a paused DAG or job; a stopped line starts again."""
    from tracelake_sdk.cli import dags, targets

    dags.resume(targets.parse_target(target), dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def explain(dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")], output: Output = Shown) -> None:
    """Explain why a dataset is fresh, blocked, behind or empty, and what to do."""
    from tracelake_sdk.cli import datasets

    datasets.explain(dataset, as_json=output is OutputFormat.JSON)


@datasets_app.command("list")
def list_datasets(
    search: Annotated[
        str | None, typer.Option("--search", metavar="WORDS", help="Each word must occur in the name, layer, domain, owner, description, a column or the producer.")
    ] = None,
    layer: Annotated[LayerName | None, typer.Option("--layer", help="Only of this layer.")] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Only of this domain.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only of this owner.")] = None,
    dag: Annotated[str | None, typer.Option("--dag", help="Only made by this DAG.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List the datasets that you may read, with the versions that readers see."""
    from tracelake_sdk.cli import datasets

    filters = {"search": search, "layer": layer, "domain": domain, "owner": owner, "dag": dag}
    datasets.list_datasets(filters, limit=limit, token=token, as_json=output is OutputFormat.JSON)


@datasets_app.command("show")
def show_dataset(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")],
    version: Annotated[int | None, typer.Option("--version", min=1, help="One version, with its runs, their inputs and the reasons.")] = None,
    limit: Limit = 10,
    output: Output = Shown,
) -> None:
    """Show a dataset, its columns and its newest versions."""
    from tracelake_sdk.cli import datasets

    if version is None:
        datasets.show_dataset(dataset, limit=limit, as_json=output is OutputFormat.JSON)
    else:
        datasets.show_version(dataset, version, as_json=output is OutputFormat.JSON)


@datasets_app.command("pin")
def pin_version(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The name to give to the version.")],
    version: Annotated[int | None, typer.Option("--version", min=1, help="Default: the version that readers see now.")] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Pin a name to one version of a dataset. What is read under it never changes."""
    from tracelake_sdk.cli import datasets

    datasets.pin(dataset, name, version=version, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@datasets_app.command("unpin")
def unpin_version(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a snapshot.")], dry_run: DryRun = False, output: Output = Shown
) -> None:
    """Remove the name of a snapshot. No data changes."""
    from tracelake_sdk.cli import datasets

    datasets.unpin(name, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@datasets_app.command("snapshots")
def list_snapshots(output: Output = Shown) -> None:
    """List the names that are pinned to versions."""
    from tracelake_sdk.cli import datasets

    datasets.list_snapshots(as_json=output is OutputFormat.JSON)


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
    from tracelake_sdk.cli import guard

    guard.add_rule(dataset, type, expression, severity=severity, scope=scope, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@rules_app.command("list")
def list_rules(dataset: OfDataset = None, inactive: Inactive = False, limit: Limit = 50, token: Token = None, output: Output = Shown) -> None:
    """List rules, each in its current revision."""
    from tracelake_sdk.cli import guard

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
    from tracelake_sdk.cli import guard

    guard.revise_rule(id, expression=expression, severity=severity, scope=scope, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@rules_app.command("off")
def switch_rule_off(id: RuleId, key: Key = None, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Switch a rule off. Its revisions are kept."""
    from tracelake_sdk.cli import guard

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
    from tracelake_sdk.cli import guard

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
    from tracelake_sdk.cli import guard

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
    from tracelake_sdk.cli import guard

    guard.revise_policy(id, expression=expression, enforcement=enforcement, key=key, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@policies_app.command("off")
def switch_policy_off(id: PolicyId, key: Key = None, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Switch a policy off. Its revisions are kept."""
    from tracelake_sdk.cli import guard

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
    from tracelake_sdk.cli import guard

    guard.list_promotions(dataset, blocked=blocked, limit=limit, token=token, as_json=output is OutputFormat.JSON)


@promotions_app.command("show")
def show_promotion(
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="The id of the decision, or of its run.")], output: Output = Shown
) -> None:
    """Show a decision with all its results."""
    from tracelake_sdk.cli import guard

    guard.show_promotion(decision, as_json=output is OutputFormat.JSON)


app.command()(query)
app.command()(replay)


@app.command()
def version(output: Output = Shown) -> None:
    """Show the installed releases."""
    from tracelake_sdk.cli import system

    system.version(as_json=output is OutputFormat.JSON)


def main() -> None:
    """Run one command; an error is one line on stderr, never a trace."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]  a terminal that lacks a letter shows another
    try:
        app(prog_name=program())
    except TracelakeError as error:
        _complain(error)
        sys.exit(_USAGE if isinstance(error, SettingInvalid) else _FAILED)
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader closed the pipe; flushing the rest must not fail when the interpreter exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: TracelakeError) -> None:
    from tracelake_sdk.cli.printing import clean

    detail = " ".join(pasteable(error.detail).split())
    print(clean(f"error [{error.code}]: {detail}" + (f" (id {error.id})" if error.id else "")), file=sys.stderr)
