"""The commands of `tracelake task`."""

from typing import Annotated, Literal
from uuid import UUID

import typer

from tracelake_sdk.cli.options import DryRun, Limit, Output, OutputFormat, Shown, Token

tasks_app = typer.Typer(help="Tasks: list them, look at one, cancel one.", no_args_is_help=True, rich_markup_mode=None)
Anything = Annotated[str | None, typer.Argument(metavar="DAG[/JOB]", help="Only of this DAG or job.")]
TaskId = Annotated[UUID, typer.Argument(metavar="ID", help="The id of the task.")]
State = Literal["queued", "running", "committing", "completed", "failed", "canceled"]


@tasks_app.command("list")
def list_tasks(
    target: Anything = None,
    state: Annotated[State | None, typer.Option("--state", help="Only tasks in this state.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List tasks."""
    from tracelake_sdk.cli import paging, targets
    from tracelake_sdk.cli.actions import tasks

    chosen = targets.parse_target(target) if target is not None else None
    command = paging.ListCommand(("task", "list"), chosen, limit, token, ("--state", state) if state else ())
    tasks.list_tasks(command, state=state, as_json=output is OutputFormat.JSON)


@tasks_app.command("show")
def show_task(id: TaskId, output: Output = Shown) -> None:
    """Show a task with its attempts."""
    from tracelake_sdk.cli.actions import tasks

    tasks.show_task(id, as_json=output is OutputFormat.JSON)


@tasks_app.command("cancel")
def cancel_task(id: TaskId, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Cancel a task: a queued task ends at once, a running task gets a stop request."""
    from tracelake_sdk.cli.actions import tasks

    tasks.cancel_task(id, dry_run=dry_run, as_json=output is OutputFormat.JSON)
