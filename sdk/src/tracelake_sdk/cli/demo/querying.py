"""The chapter about queries: gold with its receipt, an earlier version, and a replay."""

from decimal import Decimal
from typing import Any

from tracelake_sdk.cli.demo.printer import Printer
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.client import Client
from tracelake_sdk.queries.results import QueryResult
from tracelake_sdk.wording import counted

_DAYS = "SELECT day, sum(orders) AS orders, sum(revenue) AS revenue FROM revenue GROUP BY day ORDER BY day DESC LIMIT 5"


def show_queries(printer: Printer, client: Client, *, newest: int) -> None:
    """Queries the gold dataset, which is at this version."""
    printer.chapter("Query gold, and keep the receipt")
    with printer.busy("running the query …"):
        days = client.query(_DAYS)
    _table(printer, days)
    receipt = days.receipt
    pins = ", ".join(f"{pin.name} version {pin.version}" for pin in receipt.pins)
    printer.say(
        f"The result has a receipt: {counted(receipt.row_count, 'row')} from {pins}, pinned before the first file was read, with the hash of the rows,",
        f"{(receipt.result_hash or 'none')[:16]}…",
    )
    printer.command(again("query", _DAYS))
    if newest > 1:
        _beside(printer, client, newest)
    replayed = client.queries.replay(receipt.id)
    same = replayed.replay is not None and replayed.replay.same
    printer.say(f"Then the receipt was replayed: it returned {'the same rows' if same else 'other rows'}, whatever versions follow.")
    printer.command(again("replay", str(receipt.id)))


def _beside(printer: Printer, client: Client, newest: int) -> None:
    earlier = f'SELECT sum(now.revenue) AS now, (SELECT sum(revenue) FROM "revenue@{newest - 1}") AS before FROM revenue AS now'  # noqa: S608  only numbers are interpolated
    found = client.query(earlier)
    now, before = found.rows[0]
    printer.say(f"The earlier version is still readable: revenue was {_spoken(before)} in version {newest - 1} and is {_spoken(now)} now, in one query.")
    printer.command(again("query", earlier))


def _table(printer: Printer, result: QueryResult) -> None:
    rows = [[column.name for column in result.columns], *[[_spoken(value) for value in row] for row in result.rows]]
    widths = [max(len(row[index]) for row in rows) for index in range(len(result.columns))]
    printer.lines(["   ".join(f"{value:>{width}}" for value, width in zip(row, widths, strict=True)) for row in rows])


def _spoken(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | Decimal) else str(value)
