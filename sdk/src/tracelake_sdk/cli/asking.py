"""The words of `tracelake query` and `tracelake replay`. What they do they import when they run."""

from enum import StrEnum
from typing import Annotated

import typer

from tracelake_sdk.cli.options import Output, OutputFormat, Shown


class ResultOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


def query(
    sql: Annotated[str | None, typer.Argument(metavar="SQL", help="One SELECT; - reads it from standard input.")] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the statement from a file.")] = None,
    saved: Annotated[str | None, typer.Option("--saved", metavar="NAME", help="The statement that is kept under this name.")] = None,
    save: Annotated[str | None, typer.Option("--save", metavar="NAME", help="Keep the statement under this name when it was answered.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="How many rows at most.")] = None,
    receipt: Annotated[str | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt and the statement into a file, for `replay`.")] = None,
    output: Annotated[ResultOutput, typer.Option("--output", "-o", help="For people, or as JSON, CSV or an Arrow stream.")] = ResultOutput.TABLE,
) -> None:
    """Ask published datasets, all of them as of one moment. A version is asked for as FROM "orders@3"."""
    from tracelake_sdk.cli import queries
    from tracelake_sdk.queries import ResultFormat

    chosen = None if output is ResultOutput.TABLE else ResultFormat(output.value)
    queries.query(queries.statement(sql, file, saved), output=chosen, limit=limit, receipt=receipt, save=save)


def replay(
    what: Annotated[str, typer.Argument(metavar="RECEIPT|ID", help="The id of a query, or the file of its receipt.")], output: Output = Shown
) -> None:
    """Ask a query again on the versions it read, and say whether the same rows come out. Other rows are exit code 1."""
    from tracelake_sdk.cli import queries

    queries.replay(what, as_json=output is OutputFormat.JSON)
