"""The words of `tracelake query` and `tracelake replay`. What they do they import when they run."""

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
    saved: Annotated[str | None, typer.Option("--saved", metavar="NAME", help="The statement that is kept under this name.")] = None,
    save: Annotated[str | None, typer.Option("--save", metavar="NAME", help="Keep the statement under this name when it was answered, in the place of an earlier one.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="How many rows at most; of the log, how many lines.")] = None,
    receipt: Annotated[str | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt and the statement into a file, for `replay`.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Ask nothing; list what was asked before.")] = False,
    show: Annotated[UUID | None, typer.Option("--show", metavar="ID", help="Ask nothing; show one line of the log.")] = None,
    list_saved: Annotated[bool, typer.Option("--list-saved", help="Ask nothing; list the statements that you keep.")] = False,
    forget: Annotated[str | None, typer.Option("--forget", metavar="NAME", help="Ask nothing; keep the statement of this name no longer.")] = None,
    token: Token = None,
    dry_run: DryRun = False,
    output: Annotated[ResultOutput, typer.Option("--output", "-o", help="For people, or as JSON, CSV or an Arrow stream.")] = ResultOutput.TABLE,
) -> None:
    """Ask published datasets, all of them as of one moment. A version is asked for as FROM "orders@3"."""
    from tracelake_sdk.cli import queries, query_log
    from tracelake_sdk.queries import ResultFormat

    instead = [log, show is not None, list_saved, forget is not None]
    if any(instead):
        if sum(instead) > 1 or any(given is not None for given in (sql, file, saved, save, receipt)):
            raise typer.BadParameter("--log, --show, --list-saved and --forget stand alone", param_hint="--log")
        if output not in (ResultOutput.TABLE, ResultOutput.JSON):
            raise typer.BadParameter("this is shown as a table or as JSON", param_hint="--output")
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
    """Ask a query again on the versions it read, and say whether the same rows come out. Other rows are exit code 1."""
    from tracelake_sdk.cli import queries

    queries.replay(what, as_json=output is OutputFormat.JSON)
