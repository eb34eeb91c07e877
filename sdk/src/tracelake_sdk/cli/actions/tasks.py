"""`task list`, `task show` and `task cancel`: tasks and their attempts."""

from uuid import UUID

from rich.text import Text

from tracelake_sdk.cli.paging import ListCommand, print_page
from tracelake_sdk.cli.printing import Cell, TableColumn, duration, instant, print_json, print_table, say, state
from tracelake_sdk.client import Client
from tracelake_sdk.errors import AlreadyFinal
from tracelake_sdk.tasks import Task, TaskState, Waits
from tracelake_sdk.wording import scope_words


def list_tasks(command: ListCommand, *, state: str | None, as_json: bool) -> None:
    with Client() as client:
        page = client.tasks.list(**command.filters, state=TaskState(state) if state else None, limit=command.limit, token=command.token)
        print_page(client, page, _COLUMNS, _row, command, as_json=as_json, nothing="No tasks match.")


_COLUMNS = [
    TableColumn("task"), TableColumn("job"), TableColumn("state"), TableColumn("scope"), TableColumn("attempt", right=True), TableColumn("created"), TableColumn("finished"),
]  # fmt: skip


def _row(task: Task) -> list[Cell]:
    return [str(task.id), f"{task.dag}/{task.job}", state_words(task), scope_words(task.scope), str(task.attempt), instant(task.created_at), instant(task.finished_at)]


def show_task(id: UUID, *, as_json: bool) -> None:
    with Client() as client:
        task = client.tasks.get(id)
    if as_json:
        print_json(task)
        return
    facts: list[tuple[str, Cell]] = [
        ("task", str(task.id)),
        ("job", f"{task.dag}/{task.job}"),
        ("state", state_words(task)),
        ("scope", scope_words(task.scope)),
        ("made by", f"{task.trigger_kind} {task.trigger_id}"),
        ("created", instant(task.created_at)),
        ("next attempt", instant(task.due_at)),
        ("cancel requested", instant(task.cancel_asked_at)),
        ("finished", instant(task.finished_at)),
    ]
    for name, value in facts:
        if value:
            say(Text.assemble((f"{name:<14}", "bold"), value if isinstance(value, Text) else Text(value)))
    if not task.attempts:
        return
    say()
    print_table(
        [TableColumn("attempt", right=True), TableColumn("outcome"), TableColumn("DAG version", right=True), TableColumn("worker"), TableColumn("started"), TableColumn("took", right=True), TableColumn("error", folds=True)],
        [
            [
                str(attempt.attempt),
                state(attempt.outcome.value if attempt.outcome else "timed_out" if attempt.timed_out_at else "running"),
                str(attempt.dag_version or ""),
                attempt.worker,
                instant(attempt.started_at),
                duration(attempt.started_at, attempt.ended_at) if attempt.ended_at else "",
                f"{attempt.error_class}: {attempt.error_message}" if attempt.error_class else "",
            ]
            for attempt in task.attempts
        ],
    )
    for attempt in task.attempts[-1:]:
        for sentence in attempt.summary:
            say(sentence)


def cancel_task(id: UUID, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        task = client.tasks.get(id) if dry_run else client.tasks.cancel(id)
    if dry_run:
        changes, sentence = _would_cancel(task)
    else:
        changes, sentence = True, f"Task {task.id} is canceled." if task.state is TaskState.CANCELED else f"Task {task.id} is running; a stop was requested."
    if as_json:
        print_json({"dry_run": True, "changes": changes, "says": sentence} if dry_run else task)
    else:
        say(sentence)


def _would_cancel(task: Task) -> tuple[bool, str]:
    match task.state:
        case TaskState.CANCELED:
            return False, f"Task {task.id} is already canceled; a cancel would change nothing."
        case TaskState.COMPLETED | TaskState.FAILED:
            raise AlreadyFinal(f"Task {task.id} is {task.state} and cannot be canceled.")
        case TaskState.QUEUED:
            return True, f"A cancel would end task {task.id} at once. Nothing was changed."
        case _:
            return True, f"A cancel would request a stop of the running task {task.id}. Nothing was changed."


def state_words(task: Task) -> Text:
    """The state, and what a queued task waits for."""
    shown = state(task.state.value)
    if task.waits is not None:
        shown.append(f" ({WAITS[task.waits]})")
    return shown


WAITS = {
    Waits.TURN: "for its turn",
    Waits.PAUSED: "paused",
    Waits.RETRY: "for its next attempt",
    Waits.INPUT: "for the first version of an input",
    Waits.LINE: "for its line",
    Waits.RIGHT: "for a permission",
}
