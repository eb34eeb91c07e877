"""The commands about DAGs and their jobs: `deploy`, `run`, `status`, `events`, `log`, `pause`, `resume`."""

from typing import Annotated, Literal
from uuid import UUID

import typer

from tracelake_sdk.cli.options import DryRun, Limit, Output, OutputFormat, Shown, Token

Anything = Annotated[str | None, typer.Argument(metavar="DAG[/JOB]", help="Only of this DAG or job.")]
Chosen = Annotated[str, typer.Argument(metavar="DAG[/JOB]", help="A DAG, or one job of it.")]
Status = Literal["SUCCESS", "FAILED", "BLOCKED"]


def deploy(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DAG file; - reads it from standard input.")], dry_run: DryRun = False, output: Output = Shown
) -> None:
    """Activate the DAG of a file. The same definition again changes nothing."""
    from tracelake_sdk.cli.actions import dags

    dags.deploy(file, dry_run=dry_run, as_json=output is OutputFormat.JSON)


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
    from tracelake_sdk.cli import targets
    from tracelake_sdk.cli.actions import running

    dag, name = targets.parse_job(job)
    if not wait and (only or timeout is not None):
        raise typer.BadParameter("requires --wait", param_hint="--only" if only else "--timeout")
    wanted = targets.request_of([*(cursor or []), *([cursors] if cursors is not None else [])], rewrite=rewrite, request=request)
    running.run(dag, name, wanted, key=key, waiting=running.Waiting(wait, only, timeout), dry_run=dry_run, as_json=output is OutputFormat.JSON)


def status(
    dag: Annotated[str | None, typer.Argument(metavar="DAG", help="Only this DAG.")] = None, output: Output = Shown
) -> None:
    """Show DAGs with the tasks of each job, and why tasks wait."""
    from tracelake_sdk.cli.actions import dags

    dags.status(dag, as_json=output is OutputFormat.JSON)


def events(
    target: Anything = None,
    producer: Annotated[UUID | None, typer.Option("--producer", metavar="TASK", help="Only events that this task emitted.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List events, and the ledger: the task of each subscriber, or that it filtered the event."""
    from tracelake_sdk.cli import paging, targets
    from tracelake_sdk.cli.actions import history

    chosen = targets.parse_target(target) if target is not None else None
    command = paging.ListCommand(("events",), chosen, limit, token, ("--producer", str(producer)) if producer else ())
    history.list_events(command, producer=producer, as_json=output is OutputFormat.JSON)


def log(
    target: Annotated[str | None, typer.Argument(metavar="DAG[/JOB]|RUN", help="Only of this DAG or job; or one run, with its inputs, outputs and decision.")] = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only runs with this status.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List the run history: what ran, when, and how it ended; or show one run."""
    from tracelake_sdk.cli import paging, targets
    from tracelake_sdk.cli.actions import history

    if target is not None and ":" in target:  # names of DAGs and jobs never contain one
        history.show_run(target, as_json=output is OutputFormat.JSON)
        return
    chosen = targets.parse_target(target) if target is not None else None
    command = paging.ListCommand(("log",), chosen, limit, token, ("--status", status) if status else ())
    history.list_runs(command, status=status, as_json=output is OutputFormat.JSON)


def pause(target: Chosen, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Hold the tasks of a DAG or job; running tasks continue."""
    from tracelake_sdk.cli import targets
    from tracelake_sdk.cli.actions import dags

    dags.pause(targets.parse_target(target), dry_run=dry_run, as_json=output is OutputFormat.JSON)


def resume(target: Chosen, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Resume a paused DAG or job; a stopped line starts again."""
    from tracelake_sdk.cli import targets
    from tracelake_sdk.cli.actions import dags

    dags.resume(targets.parse_target(target), dry_run=dry_run, as_json=output is OutputFormat.JSON)
