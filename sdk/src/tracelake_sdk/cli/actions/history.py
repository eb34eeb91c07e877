"""`events` and `log`: events with their ledger, the run history, and one run with its inputs, outputs and decision."""

from uuid import UUID

from rich.text import Text

from tracelake_sdk.cli.paging import ListCommand, print_page, print_rows
from tracelake_sdk.cli.printing import Cell, TableColumn, duration, instant, print_json, print_table, say, state
from tracelake_sdk.client import Client
from tracelake_sdk.tasks.events import DatasetEvent, EventKind
from tracelake_sdk.tasks.runs import Run, RunStatus
from tracelake_sdk.wording import counted, scope_words


def list_events(command: ListCommand, *, producer: UUID | None, as_json: bool) -> None:
    """One row for each event and subscriber, as in the ledger."""
    columns = [
        TableColumn("event"), TableColumn("emitted"), TableColumn("by job"), TableColumn("dataset"), TableColumn("scope"), TableColumn("to job"), TableColumn("became"), TableColumn("task"),
    ]  # fmt: skip
    with Client() as client:
        page = client.events.list(**command.filters, producer=producer, limit=command.limit, token=command.token)
        rows = [row for event in page.items for row in _lines(event)]
        print_rows(client, page, columns, rows, command, as_json=as_json, nothing="No events match.")


def _lines(event: DatasetEvent) -> list[list[Cell]]:
    scope = scope_words(event.scope) + (" rewritten" if event.kind is EventKind.REWRITTEN else "")
    cells: list[Cell] = [str(event.id), instant(event.emitted_at), event.job, event.dataset_name or str(event.dataset_uuid), scope]
    if not event.ledger:
        return [[*cells, Text("no subscriber", "dim"), "", ""]]
    return [[*cells, line.job, line.outcome.value, str(line.task_id or "")] for line in event.ledger]


def list_runs(command: ListCommand, *, status: str | None, as_json: bool) -> None:
    columns = [
        TableColumn("started"), TableColumn("took", right=True), TableColumn("job"), TableColumn("status"), TableColumn("run"), TableColumn("error", folds=True),
    ]  # fmt: skip
    with Client() as client:
        page = client.runs.list(**command.filters, status=RunStatus(status) if status else None, limit=command.limit, token=command.token)
        print_page(client, page, columns, _row, command, as_json=as_json, nothing="No runs match.")


def _row(run: Run) -> list[Cell]:
    return [
        instant(run.start_time),
        duration(run.start_time, run.end_time),
        f"{run.dag}/{run.job}",
        state(run.status.value),
        run.run_id,
        run.error_message or "",
    ]


def show_run(run_id: str, *, as_json: bool) -> None:
    """One run with its inputs, outputs and decision."""
    with Client() as client:
        run = client.runs.get(run_id)
    if as_json:
        print_json(run)
        return
    output = f"{run.dataset_name or run.dataset_id}" + (f" version {run.version}" if run.version else "") if run.dataset_id else ""
    facts: list[tuple[str, Cell]] = [
        ("run", run.run_id),
        ("job", f"{run.dag}/{run.job}"),
        ("status", state(run.status.value)),
        ("triggered by", run.triggered_by),
        ("DAG version", str(run.dag_version) if run.dag_version else ""),
        ("started", instant(run.start_time)),
        ("took", duration(run.start_time, run.end_time)),
        ("error", run.error_message or ""),
        ("dataset", output),
        ("scopes", ", ".join(scope_words(scope) for scope in run.scopes)),
        ("read", ", ".join(f"{pin.name or pin.dataset_uuid} version {pin.version}" for pin in run.inputs)),
        ("also read", f"{counted(run.hidden_inputs, 'dataset')} that you may not read" if run.hidden_inputs else ""),
        ("decision", run.decision.reason if run.decision else ""),
        ("noted", ", ".join(f"{name}: {value}" for name, value in run.custom.items())),
    ]
    for name, value in facts:
        if value:
            say(Text.assemble((f"{name:<14}", "bold"), value if isinstance(value, Text) else Text(value)))
    if run.decision is None:
        return
    say()
    found = [("policy", one.policy_type, one.verdict, one.sentence) for one in run.decision.policy_results]
    found += [("rule", one.rule_type, one.verdict, one.sentence) for one in run.decision.quality_results]
    rows: list[list[Cell]] = [[kind, type, verdict.value, sentence] for kind, type, verdict, sentence in found]
    print_table([TableColumn("kind"), TableColumn("type"), TableColumn("verdict"), TableColumn("found", folds=True)], rows)
