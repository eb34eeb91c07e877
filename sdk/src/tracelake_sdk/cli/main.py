"""The words of `tracelake`: its commands, their options, and how an error ends it. What a command does it imports when it runs."""

import os
import sys
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

try:
    import typer
except ModuleNotFoundError:
    raise SystemExit("The command line is an extra of the SDK; install `tracelake-sdk[cli]`.") from None

from tracelake_sdk.cli.invocation import pasteable, program
from tracelake_sdk.errors import SettingInvalid, TracelakeError

_FAILED = 1
_USAGE = 2

app = typer.Typer(
    help="Tracelake: pipelines as DAGs, every event and every run accounted for.",
    epilog="Address and token are found in TRACELAKE_HOME, or given by TRACELAKE_API_URL and TRACELAKE_TOKEN."
    " Exit codes: 0 done, 1 failed, 2 wrong usage.",
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
)  # fmt: skip
tasks_app = typer.Typer(help="Tasks: list them, look at one, cancel one.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(tasks_app, name="task")


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people, or as one JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do and change nothing.")]
Anything = Annotated[str | None, typer.Argument(metavar="DAG[/JOB]", help="Only of this DAG or job.")]
Chosen = Annotated[str, typer.Argument(metavar="DAG[/JOB]", help="A DAG, or one job of it.")]
TaskId = Annotated[UUID, typer.Argument(metavar="ID", help="The id of the task.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, the newest first.")]
Token = Annotated[str | None, typer.Option("--token", help="Where the page before ended; it prints the command.")]
State = Literal["queued", "running", "committing", "completed", "failed", "canceled"]
Status = Literal["SUCCESS", "FAILED", "BLOCKED"]
Shown = OutputFormat.TABLE


@app.command()
def up() -> None:
    """Start a system on this machine. It runs until Ctrl-C."""
    from tracelake_sdk.cli import system

    system.up()


@app.command()
def demo() -> None:
    """Run a small DAG on this machine and tell what happens. Starts a system where none runs."""
    from tracelake_sdk.cli.demo import story

    story.tell()


@app.command()
def doctor(output: Output = Shown) -> None:
    """Look what works here and what does not. Says what to do about what is missing."""
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
    job: Annotated[str, typer.Argument(metavar="DAG/JOB", help="A source job.")],
    cursor: Annotated[list[str] | None, typer.Option("--cursor", metavar="CURSOR", help="A cursor to tell: a number or a time. May be repeated.")] = None,
    cursors: Annotated[
        str | None, typer.Option("--cursors", metavar="CURSORS", help="Several: 1..100 (both ends), or 2024-01-01T00:00:00Z,2024-01-02T00:00:00Z.")
    ] = None,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Tell them as rewritten.")] = False,
    request: Annotated[str | None, typer.Option("--request", metavar="JSON", help="The whole request instead, as the job's operator takes it.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the task until it is final; a failed or canceled one is exit code 1.")] = False,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", metavar="KEY", help="The same key with the same request is the same task. Made up if left out.")
    ] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Ask a source job for a run, which is one task."""
    from tracelake_sdk.cli import targets, tasks

    dag, name = targets.parse_job(job)
    wanted = targets.request_of([*(cursor or []), *([cursors] if cursors is not None else [])], rewrite=rewrite, request=request)
    tasks.run(dag, name, wanted, key=key, wait=wait, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def status(
    dag: Annotated[str | None, typer.Argument(metavar="DAG", help="Only this DAG.")] = None, output: Output = Shown
) -> None:
    """Draw DAGs with the tasks of each job, what waits and why."""
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
    asked = paging.Asked(("task", "list"), chosen, limit, token, ("--state", state) if state else ())
    tasks.list_tasks(asked, state=state, as_json=output is OutputFormat.JSON)


@tasks_app.command("show")
def show_task(id: TaskId, output: Output = Shown) -> None:
    """Show a task with its attempts."""
    from tracelake_sdk.cli import tasks

    tasks.show_task(id, as_json=output is OutputFormat.JSON)


@tasks_app.command("cancel")
def cancel_task(id: TaskId, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Cancel a task: a queued one ends at once, a running one is asked to stop."""
    from tracelake_sdk.cli import tasks

    tasks.cancel_task(id, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def events(
    target: Anything = None,
    producer: Annotated[UUID | None, typer.Option("--producer", metavar="TASK", help="Only what this task told.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List events, and the ledger: what each subscriber made of them."""
    from tracelake_sdk.cli import history, paging, targets

    chosen = targets.parse_target(target) if target is not None else None
    asked = paging.Asked(("events",), chosen, limit, token, ("--producer", str(producer)) if producer else ())
    history.list_events(asked, producer=producer, as_json=output is OutputFormat.JSON)


@app.command()
def log(
    target: Anything = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only runs that ended so.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List the run history: what ran, when, and how it ended."""
    from tracelake_sdk.cli import history, paging, targets

    chosen = targets.parse_target(target) if target is not None else None
    asked = paging.Asked(("log",), chosen, limit, token, ("--status", status) if status else ())
    history.list_runs(asked, status=status, as_json=output is OutputFormat.JSON)


@app.command()
def pause(target: Chosen, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Hold the tasks of a DAG or job; what runs goes on."""
    from tracelake_sdk.cli import dags, targets

    dags.pause(targets.parse_target(target), dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def resume(target: Chosen, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Let a paused DAG or job go on."""
    from tracelake_sdk.cli import dags, targets

    dags.resume(targets.parse_target(target), dry_run=dry_run, as_json=output is OutputFormat.JSON)


@app.command()
def version(output: Output = Shown) -> None:
    """Say which releases are installed."""
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
            # Who read it has seen enough; what is left must not complain when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: TracelakeError) -> None:
    from tracelake_sdk.cli.printing import clean

    detail = " ".join(pasteable(error.detail).split())
    print(clean(f"error [{error.code}]: {detail}" + (f" (id {error.id})" if error.id else "")), file=sys.stderr)
