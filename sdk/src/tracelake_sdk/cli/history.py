"""`events` and `log`: what was told and who accounted for it, what ran and how it ended."""

from uuid import UUID

from rich.text import Text

from tracelake_sdk.cli.paging import Asked, print_page, print_rows
from tracelake_sdk.cli.printing import Cell, Column, duration, instant, scope_words, state
from tracelake_sdk.client import Client
from tracelake_sdk.events import DatasetEvent, EventKind
from tracelake_sdk.runs import Run, RunStatus


def list_events(asked: Asked, *, producer: UUID | None, as_json: bool) -> None:
    """One row for each event and subscriber, as the ledger has it."""
    columns = [
        Column("event"), Column("told"), Column("by job"), Column("dataset"), Column("scope"), Column("to job"), Column("became"), Column("task"),
    ]  # fmt: skip
    with Client() as client:
        page = client.events(**asked.filters, producer=producer, limit=asked.limit, token=asked.token)
        rows = [row for event in page.items for row in _lines(event)]
        print_rows(client, page, columns, rows, asked, as_json=as_json, nothing="There is no such event.")


def _lines(event: DatasetEvent) -> list[list[Cell]]:
    scope = scope_words(event.scope) + (" rewritten" if event.kind is EventKind.REWRITTEN else "")
    told: list[Cell] = [str(event.id), instant(event.told_at), event.job, event.dataset_name or str(event.dataset_uuid), scope]
    if not event.ledger:
        return [[*told, Text("no subscriber", "dim"), "", ""]]
    return [[*told, line.job, line.outcome.value, str(line.task_id or "")] for line in event.ledger]


def list_runs(asked: Asked, *, status: str | None, as_json: bool) -> None:
    columns = [
        Column("started"), Column("took", right=True), Column("job"), Column("status"), Column("attempt", right=True), Column("task"),
        Column("error", folds=True),
    ]  # fmt: skip
    with Client() as client:
        page = client.runs(**asked.filters, status=RunStatus(status) if status else None, limit=asked.limit, token=asked.token)
        print_page(client, page, columns, _row, asked, as_json=as_json, nothing="Nothing has run.")


def _row(run: Run) -> list[Cell]:
    return [
        instant(run.start_time),
        duration(run.start_time, run.end_time),
        f"{run.dag}/{run.job}",
        state(run.status.value),
        str(run.attempt),
        str(run.task_id),
        run.error_message or "",
    ]
