"""The commands `tracelake query` and `tracelake replay`. They import what they need when they run."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from tracelake_sdk.cli.options import DryRun, Output, OutputFormat, Shown, Token


class ResultOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


def query(
    sql: Annotated[str | None, typer.Argument(metavar="SQL", help="One SELECT; - reads it from standard input.")] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the statement from a file.")] = None,
    saved: Annotated[str | None, typer.Option("--saved", metavar="NAME", help="The saved statement with this name.")] = None,
    save: Annotated[str | None, typer.Option("--save", metavar="NAME", help="Save the statement under this name after it succeeded; overwrites an earlier one.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of rows; with --log, of lines.")] = None,
    receipt: Annotated[str | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt and the statement into a file, for `replay`.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Run no query; list earlier queries.")] = False,
    show: Annotated[UUID | None, typer.Option("--show", metavar="ID", help="Run no query; show one line of the log.")] = None,
    list_saved: Annotated[bool, typer.Option("--list-saved", help="Run no query; list your saved statements.")] = False,
    forget: Annotated[str | None, typer.Option("--forget", metavar="NAME", help="Run no query; remove the saved statement with this name.")] = None,
    token: Token = None,
    dry_run: DryRun = False,
    output: Annotated[ResultOutput, typer.Option("--output", "-o", help="Table, JSON, CSV or an Arrow stream.")] = ResultOutput.TABLE,
) -> None:
    """Query published datasets, all as of one point in time. Select a version with FROM "orders@3"."""
    from tracelake_sdk.cli.actions import queries, query_log
    from tracelake_sdk.queries import ResultFormat

    instead = [log, show is not None, list_saved, forget is not None]
    if any(instead):
        if sum(instead) > 1 or any(option is not None for option in (sql, file, saved, save, receipt)):
            raise typer.BadParameter("--log, --show, --list-saved and --forget cannot be combined with other options", param_hint="--log")
        if output not in (ResultOutput.TABLE, ResultOutput.JSON):
            raise typer.BadParameter("only the formats table and JSON are supported here", param_hint="--output")
        as_json = output is ResultOutput.JSON
        if log:
            query_log.list_runs(limit=limit or 50, token=token, as_json=as_json)
        elif show is not None:
            query_log.show_run(show, as_json=as_json)
        elif forget is not None:
            query_log.forget(forget, dry_run=dry_run, as_json=as_json)
        else:
            query_log.list_saved(as_json=as_json)
        return
    if dry_run and save is None:
        raise typer.BadParameter("a query changes nothing; --dry-run is for --save and --forget", param_hint="--dry-run")
    chosen = None if output is ResultOutput.TABLE else ResultFormat(output.value)
    queries.query(queries.statement(sql, file, saved), output=chosen, limit=limit, receipt=receipt, save=save, dry_run=dry_run)


def replay(
    what: Annotated[str, typer.Argument(metavar="RECEIPT|ID", help="The id of a query, or the file of its receipt.")], output: Output = Shown
) -> None:
    """Run a query again on the versions that it read, and compare the rows. Exit code 1 if they differ."""
    from tracelake_sdk.cli.actions import queries

    queries.replay(what, as_json=output is OutputFormat.JSON)
