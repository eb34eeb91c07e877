"""The chapter about queries: gold with its receipt, an earlier version beside it, and the same rows once more."""

from decimal import Decimal
from typing import Any

from tracelake_sdk.cli.demo.telling import Teller
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.client import Client
from tracelake_sdk.queries.results import QueryResult
from tracelake_sdk.wording import counted

_DAYS = "SELECT day, sum(orders) AS orders, sum(revenue) AS revenue FROM revenue GROUP BY day ORDER BY day DESC LIMIT 5"


def ask(teller: Teller, client: Client, *, newest: int) -> None:
    """Tells of the gold dataset, which is at this version."""
    teller.chapter("Ask gold, and keep the receipt")
    with teller.busy("the query process answers …"):
        days = client.query(_DAYS)
    _table(teller, days)
    receipt = days.receipt
    pins = ", ".join(f"{pin.name} version {pin.version}" for pin in receipt.pins)
    teller.say(
        f"The answer has a receipt: {counted(receipt.row_count, 'row')} from {pins}, fixed before the first file was read, with the hash of the rows,",
        f"{(receipt.result_hash or 'none')[:16]}…",
    )
    teller.command(again("query", _DAYS))
    if newest > 1:
        _beside(teller, client, newest)
    replayed = client.queries.replay(receipt.id)
    same = replayed.replay is not None and replayed.replay.same
    teller.say(f"And the receipt was replayed: {'the same rows came out' if same else 'other rows came out'}, as they will however many versions follow.")
    teller.command(again("replay", str(receipt.id)))


def _beside(teller: Teller, client: Client, newest: int) -> None:
    earlier = f'SELECT sum(now.revenue) AS now, (SELECT sum(revenue) FROM "revenue@{newest - 1}") AS before FROM revenue AS now'  # noqa: S608  numbers alone
    found = client.query(earlier)
    now, before = found.rows[0]
    teller.say(f"The version before is there too: {_spoken(before)} of revenue in version {newest - 1}, {_spoken(now)} now, in one question.")
    teller.command(again("query", earlier))


def _table(teller: Teller, result: QueryResult) -> None:
    rows = [[column.name for column in result.columns], *[[_spoken(value) for value in row] for row in result.rows]]
    widths = [max(len(row[place]) for row in rows) for place in range(len(result.columns))]
    teller.lines(["   ".join(f"{value:>{width}}" for value, width in zip(row, widths, strict=True)) for row in rows])


def _spoken(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | Decimal) else str(value)
