"""`query --log`, `--show`, `--list-saved` and `--forget`: the query log and saved statements."""

from uuid import UUID

from rich.text import Text

from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.paging import ListCommand, print_page
from tracelake_sdk.cli.printing import Cell, TableColumn, instant, print_json, print_table, say
from tracelake_sdk.client import Client
from tracelake_sdk.queries import QueryRun, QueryStatus
from tracelake_sdk.wording import counted

_STYLES = {QueryStatus.DONE: "green", QueryStatus.REFUSED: "yellow", QueryStatus.OVER_LIMIT: "yellow", QueryStatus.FAILED: "red"}
_LONGEST = 60  # maximum length of a statement in a table


def list_runs(*, limit: int, token: str | None, as_json: bool) -> None:
    """Newest first; admins and auditors also see queries of others, without their statements."""
    columns = [
        TableColumn("asked"), TableColumn("by"), TableColumn("status"), TableColumn("rows", right=True), TableColumn("ms", right=True), TableColumn("read", folds=True), TableColumn("query"),
        TableColumn("statement", folds=True),
    ]  # fmt: skip
    with Client() as client:
        page = client.queries.list(limit=limit, token=token)
        print_page(client, page, columns, _row, ListCommand(["query", "--log"], None, limit, token), as_json=as_json, nothing="No queries found.")


def show_run(id: UUID, *, as_json: bool) -> None:
    with Client() as client:
        run = client.queries.get(id)
    if as_json:
        print_json(run)
        return
    facts: list[tuple[str, Cell]] = [
        ("query", str(run.id)),
        ("asked", f"{instant(run.at)} by {run.actor}"),
        ("status", _status(run)),
        ("rows", "" if run.row_count is None else f"{counted(run.row_count, 'row')} in {run.milliseconds:.0f} ms"),
        ("read", _read(run)),
        ("hash", run.result_hash or ""),
        ("left out", ", ".join(run.left_out)),
        ("replay of", str(run.replay_of or "")),
        ("engine", run.engine_version),
        ("statement", run.sql if run.sql is not None else f"visible to its author alone; its hash is {run.sql_sha256}"),
    ]
    for name, value in facts:
        if value:
            say(Text.assemble((f"{name:<11}", "bold"), value if isinstance(value, Text) else Text(value)))
    if run.replayable:
        say(Text(f"Again, on the same versions: {again('replay', str(run.id))}", style="dim"))
    elif run.why_not:
        say(Text(f"Not replayable: {run.why_not}", style="dim"))


def list_saved(*, as_json: bool) -> None:
    with Client() as client:
        kept = client.saved_queries.list()
    if as_json:
        print_json(kept)
    elif not kept:
        say("No saved statements; `query --save NAME` saves one.")
    else:
        rows: list[list[Cell]] = [[one.name, instant(one.saved_at), one.description, _short(one.sql)] for one in kept]
        print_table([TableColumn("name"), TableColumn("saved"), TableColumn("description", folds=True), TableColumn("statement", folds=True)], rows)


def forget(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        kept = client.saved_queries.get(name)
        if not dry_run:
            client.saved_queries.forget(name)
    if as_json:
        print_json({"dry_run": dry_run, **kept.model_dump(mode="json")})
    else:
        say(f"The statement {name} {'would be' if dry_run else 'is'} removed." + (" Nothing was changed." if dry_run else ""))


def _row(run: QueryRun) -> list[Cell]:
    rows = "" if run.row_count is None else f"{run.row_count:,}"
    return [instant(run.at), run.actor, _status(run), rows, f"{run.milliseconds:,.0f}", _read(run), str(run.id), _short(run.sql or "")]


def _status(run: QueryRun) -> Text:
    return Text(run.status.value + (f" ({run.error_code})" if run.error_code else ""), _STYLES[run.status])


def _read(run: QueryRun) -> str:
    return ", ".join(f"{pin.name.partition('@')[0]} version {pin.version}" for pin in run.pins)


def _short(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
