"""Options that many commands take, in the same words."""

from enum import StrEnum
from typing import Annotated, Literal

import typer

MOST_LISTED = 1000  # of one page


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people, or as one JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do and change nothing.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST_LISTED, help="How many at most on one page.")]
Token = Annotated[str | None, typer.Option("--token", help="Where the page before ended; it prints the command.")]
Key = Annotated[str | None, typer.Option("--idempotency-key", metavar="KEY", help="The same key with the same words has its effect once. Made up if left out.")]
LayerName = Literal["bronze", "silver", "gold"]
Shown = OutputFormat.TABLE
