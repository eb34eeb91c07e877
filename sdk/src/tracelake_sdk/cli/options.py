"""Options that many commands take, in the same words."""

from enum import StrEnum
from typing import Annotated, Literal

import typer

MOST_LISTED = 1000  # of one page


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="Text, or one JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST_LISTED, help="Maximum number of items on a page.")]
Token = Annotated[str | None, typer.Option("--token", help="Token of the next page; the page before prints the command.")]
Key = Annotated[str | None, typer.Option("--idempotency-key", metavar="KEY", help="The same key with the same request takes effect once. Generated if omitted.")]
LayerName = Literal["bronze", "silver", "gold"]
Shown = OutputFormat.TABLE
