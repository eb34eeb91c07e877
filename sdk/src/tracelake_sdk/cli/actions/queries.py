"""`query` and `replay`: run a query on pinned versions, and run it again on the same versions."""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import typer
from rich.console import Console
from rich.text import Text

from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, TableColumn, print_json, print_table, say
from tracelake_sdk.client import Client
from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.queries import SAVED_NAME, QueryAnswer, QueryPin, RawAnswer, Receipt, ResultFormat
from tracelake_sdk.wording import counted

_DIFFERS = 1
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")


def statement(sql: str | None, file: str | None, saved: str | None) -> str:
    """The statement to run: from the command line, a file, standard input, or saved under a name."""
    if sum(source is not None for source in (sql, file, saved)) != 1:
        raise typer.BadParameter("give one statement: SQL itself, --file FILE, - for standard input, or --saved NAME", param_hint="SQL")
    if saved is not None:
        with Client() as client:
            return client.saved_queries.get(saved).sql
    statement = _read(file or "-") if sql in (None, "-") else sql
    if not statement.strip():
        raise typer.BadParameter("the statement is empty; write one SELECT", param_hint="SQL")
    return statement


def _read(file: str) -> str:
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--file") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not text in UTF-8", param_hint="--file") from None


def query(sql: str, *, output: ResultFormat | None, limit: int | None, receipt: str | None, save: str | None, dry_run: bool = False) -> None:
    """Without `output`, prints a table for people; a dry run prints the rows and saves nothing."""
    if output is ResultFormat.ARROW and sys.stdout.isatty():
        raise typer.BadParameter("a terminal cannot show Arrow; redirect it to a file or a program", param_hint="--output")
    if save is not None and not re.fullmatch(SAVED_NAME, save):  # checked before the query runs
        raise typer.BadParameter("a name is a lowercase letter, then at most 127 lowercase letters, digits and underscores", param_hint="--save")
    started = time.monotonic()
    with Client() as client:
        # On stderr, so that stdout has only the rows; without a terminal, stderr only warns about missing rows.
        screen = Console(stderr=True, markup=False, highlight=False)
        with screen.status("the query runs"):
            if output is ResultFormat.CSV or output is ResultFormat.ARROW:
                answer = client.queries.bytes(sql, output, limit=limit)
            else:
                answer = client.queries.answer(sql, limit=limit)
        found = answer.receipt
        if isinstance(answer, RawAnswer):
            sys.stdout.buffer.write(answer.body)
            if answer.more:
                say(_cut(found.row_count, limit), to=screen)
        elif output is ResultFormat.JSON:
            print_json(answer)
        else:
            _print(answer, limit, time.monotonic() - started)
        if save is not None and not dry_run:
            client.saved_queries.save(save, sql)
    if save is not None and output is None:
        kept = f"It would be saved as {save}. Nothing was changed." if dry_run else f"Saved as {save}: {again('query', '--saved', save)}"
        say(Text(kept, style="dim"))
    if receipt is not None:
        _write(Path(receipt), found, sql)


def replay(what: str, *, as_json: bool) -> None:
    """`what` is the id of a query, or the file of its receipt."""
    id, sql = _receipt(what)
    with Client() as client:
        answer = client.queries.replay_answer(id, sql=sql)
    again_ = answer.replay
    if as_json:
        print_json(answer)
    elif again_ is not None and again_.same:
        say(Text.assemble(("same     ", "green"), f"{counted(answer.receipt.row_count, 'row')}, {_pins(answer.receipt.pins)}"))
        say(f"         hash {answer.receipt.result_hash}")
    elif again_ is not None:
        say(Text.assemble(("differs  ", "bold red"), f"{counted(answer.receipt.row_count, 'row')} now, {again_.expected_rows:,} then, {_pins(answer.receipt.pins)}"))
        say(f"         hash {answer.receipt.result_hash} now, {again_.expected_hash} then")
    if again_ is None or not again_.same:
        raise typer.Exit(_DIFFERS)


def _print(answer: QueryAnswer, limit: int | None, seconds: float) -> None:
    columns = [TableColumn(column.name, right=column.type.partition("(")[0] in _NUMBERS) for column in answer.columns]
    if columns:
        print_table(columns, [[_cell(value) for value in row] for row in answer.rows])
        say()
    receipt = answer.receipt
    say(f"{counted(receipt.row_count, 'row')} in {_spent(seconds)}{_pins(receipt.pins, before=', ')}")
    if answer.more:
        say(_cut(receipt.row_count, limit))
    if receipt.left_out:
        say(Text(f"The hash omits columns that are computed in floating point: {', '.join(receipt.left_out)}.", style="dim"))
    if receipt.replayable:
        say(Text(f"Again, on the same versions: {again('replay', str(receipt.id))}", style="dim"))
    else:
        say(Text(f"Not replayable: {receipt.why_not}", style="dim"))


def _cut(shown: int, limit: int | None) -> Text:
    # Fewer rows than requested: the service has a lower limit.
    remedy = "Use --limit for more." if limit is None or shown >= limit else "This is the limit of this system: split the query."
    return Text(f"There are more rows; only the first {shown:,} are shown. {remedy}", style="yellow")


def _cell(value: Any) -> Cell:
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value).replace("\n", "\\n")


def _pins(pins: list[QueryPin], *, before: str = "") -> str:
    words = [pin.name.partition("@")[0] + f" version {pin.version}" for pin in pins]
    return f"{before}from {', '.join(words)}" if words else f"{before}from no dataset"


def _spent(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _write(file: Path, receipt: Receipt, sql: str) -> None:
    """Includes the statement, so that the file is enough for a replay."""
    try:
        file.write_text(json.dumps(receipt.model_dump(mode="json") | {"sql": sql}, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise SettingInvalid(f"--receipt: {file} cannot be written ({type(error).__name__})") from None


def _receipt(what: str) -> tuple[UUID, str | None]:
    try:
        return UUID(what), None
    except ValueError:
        pass
    try:
        found: Any = json.loads(Path(what).read_text())
        return UUID(found["id"]), cast("str", found["sql"])
    except FileNotFoundError:
        raise typer.BadParameter(f"{what!r} is neither the id of a query nor a file", param_hint="RECEIPT|ID") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise typer.BadParameter(f"{what} is not a valid receipt; `query --receipt` writes them", param_hint="RECEIPT|ID") from None
