"""Output: tables without truncation, sentences, and one JSON document."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_jsonable_python
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

STATE_STYLES = {
    "queued": "yellow", "waiting": "yellow", "running": "cyan", "committing": "cyan", "completed": "green", "failed": "bold red", "canceled": "magenta",
    "SUCCESS": "green", "FAILED": "red", "BLOCKED": "red", "succeeded": "green", "timed_out": "red",
}  # fmt: skip
_FOLDED = 24  # minimum width of a column that may fold
_GAP = 1      # spaces after each column, besides the separator

Cell = str | Text


@dataclass(frozen=True)
class TableColumn:
    """A column of a table; one that `folds` may take several lines on a narrow terminal, all others are never cut."""

    name: str
    right: bool = False
    folds: bool = False


def console() -> Console:
    """Standard output; colours only on a terminal, and external text is never interpreted as markup."""
    return Console(markup=False, highlight=False, emoji=False)


def say(text: Cell = "", *, to: Console | None = None) -> None:
    """One sentence; only the terminal wraps it."""
    (to or console()).print(text if isinstance(text, Text) else clean(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """The single JSON document of this command."""
    sys.stdout.write(json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], *, to: Console | None = None) -> None:
    screen = to or console()
    cells = [[cell if isinstance(cell, Text) else Text(clean(cell)) for cell in row] for row in rows]
    widths = [max([len(column.name), *(row[index].cell_len for row in cells)]) for index, column in enumerate(columns)]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in columns:
        folds = column.folds and screen.is_terminal
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=not folds, overflow="fold" if folds else "crop")
    for row in cells:
        table.add_row(*row)
    # A terminal wraps a long line and copies it as one; a squeezed table would cut ids in two.
    least = sum(min(width, _FOLDED) if column.folds and screen.is_terminal else width for column, width in zip(columns, widths, strict=True))
    least += (_GAP + 1) * len(columns)
    screen.width = max(screen.width, least) if screen.is_terminal else least
    for line in screen.render_lines(table, pad=False):
        row = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        row.rstrip()
        screen.print(row, soft_wrap=True)


def state(name: str) -> Text:
    return Text(name, STATE_STYLES.get(name, ""))


def clean(text: str) -> str:
    """Without characters that would move the cursor or recolour the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode() for letter in text)


def instant(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def duration(start: datetime, end: datetime) -> str:
    seconds = (end - start).total_seconds()
    return f"{seconds:.3f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
