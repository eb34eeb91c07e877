"""`task list`, `task show`, `task cancel` and `run`: tasks and their attempts."""

from typing import Any
from uuid import UUID

import typer
from rich.console import Console
from rich.text import Text

from tracelake_sdk.cli.dags import job_of
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.paging import Asked, print_page
from tracelake_sdk.cli.printing import Cell, Column, counted, duration, instant, print_json, print_table, say, scope_words, state
from tracelake_sdk.client import FINAL, Client
from tracelake_sdk.errors import AlreadyFinal
from tracelake_sdk.operators import OPERATORS, EmitRequest
from tracelake_sdk.run_requests import check_request
from tracelake_sdk.status import DagStatus
from tracelake_sdk.tasks import Task, TaskState, Waits

_FAILED = 1
_BLOCKED = 4  # by the gate: the operator did its work, and the data may not be seen


def list_tasks(asked: Asked, *, state: str | None, as_json: bool) -> None:
    with Client() as client:
        page = client.tasks(**asked.filters, state=TaskState(state) if state else None, limit=asked.limit, token=asked.token)
        print_page(client, page, _COLUMNS, _row, asked, as_json=as_json, nothing="There is no such task.")


_COLUMNS = [
    Column("task"), Column("job"), Column("state"), Column("scope"), Column("attempt", right=True), Column("created"), Column("finished"),
]  # fmt: skip


def _row(task: Task) -> list[Cell]:
    return [str(task.id), f"{task.dag}/{task.job}", _state_words(task), scope_words(task.scope), str(task.attempt), instant(task.created_at), instant(task.finished_at)]


def show_task(id: UUID, *, as_json: bool) -> None:
    with Client() as client:
        task = client.task(id)
    if as_json:
        print_json(task)
        return
    facts: list[tuple[str, Cell]] = [
        ("task", str(task.id)),
        ("job", f"{task.dag}/{task.job}"),
        ("state", _state_words(task)),
        ("scope", scope_words(task.scope)),
        ("made by", f"{task.trigger_kind} {task.trigger_id}"),
        ("created", instant(task.created_at)),
        ("next attempt", instant(task.due_at)),
        ("cancel asked", instant(task.cancel_asked_at)),
        ("finished", instant(task.finished_at)),
    ]
    for name, value in facts:
        if value:
            say(Text.assemble((f"{name:<14}", "bold"), value if isinstance(value, Text) else Text(value)))
    if not task.attempts:
        return
    say()
    print_table(
        [Column("attempt", right=True), Column("outcome"), Column("worker"), Column("started"), Column("took", right=True), Column("error", folds=True)],
        [
            [
                str(attempt.attempt),
                state(attempt.outcome.value if attempt.outcome else "timed_out" if attempt.timed_out_at else "running"),
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
        task = client.task(id) if dry_run else client.cancel(id)
    if dry_run:
        changes, sentence = _would_cancel(task)
    else:
        changes, sentence = True, f"Task {task.id} is canceled." if task.state is TaskState.CANCELED else f"Task {task.id} is running and was asked to stop."
    if as_json:
        print_json({"dry_run": True, "changes": changes, "says": sentence} if dry_run else task)
    else:
        say(sentence)


def _would_cancel(task: Task) -> tuple[bool, str]:
    match task.state:
        case TaskState.CANCELED:
            return False, f"Task {task.id} is canceled already; a cancel would change nothing."
        case TaskState.COMPLETED | TaskState.FAILED:
            raise AlreadyFinal(f"Task {task.id} is {task.state} and cannot be canceled.")
        case TaskState.QUEUED:
            return True, f"A cancel would end task {task.id} at once. Nothing was changed."
        case _:
            return True, f"A cancel would ask the running task {task.id} to stop. Nothing was changed."


def run(dag: str, job: str, request: dict[str, Any], *, key: str | None, wait: bool, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        if dry_run:
            sentence = _would_run(client, dag, job, request)
            if as_json:
                print_json({"dry_run": True, "changes": True, "says": sentence})
            else:
                say(sentence)
            return
        task = client.run(dag, job, request, idempotency_key=key)
        if wait:
            task = _followed(client, task)
        if as_json:
            print_json(task)
        else:
            _print_run(client, task)
    if task.state in (TaskState.FAILED, TaskState.CANCELED):
        raise typer.Exit(_BLOCKED if task.attempts and task.attempts[-1].error_class == "blocked" else _FAILED)


def _would_run(client: Client, dag: str, job: str, request: dict[str, Any]) -> str:
    status = client.dag(dag)
    found = job_of(status, job)
    operator = OPERATORS.get((found.runtime, found.operator))
    checked = check_request(f"{dag}/{job}", operator, request, is_source=not found.inputs)
    told = f" that tells {counted(len(set(checked.cursors)), 'cursor')}" if isinstance(checked, EmitRequest) else ""
    held = f", which would wait: {f'{dag}/{job}' if found.paused else dag} is paused" if found.paused or status.paused else ""
    return f"A run would make one task of {dag}/{job}{told}{held}. Nothing was changed."


def _followed(client: Client, task: Task) -> Task:
    # On stderr, so that what is printed in the end stands alone; on anything but a terminal nothing is shown.
    screen = Console(stderr=True, markup=False, highlight=False)
    warned = False
    try:
        with screen.status(_progress(task)) as shown:
            for seen in client.follow(task.id):
                task = seen
                shown.update(_progress(task))
                if task.waits is Waits.PAUSED and not warned:
                    say(_held(client.dag(task.dag), task), to=screen)  # also without a terminal: it would wait for ever, and silently
                    warned = True
    except KeyboardInterrupt:
        say(f"Nobody follows task {task.id} any more; it is {task.state.value} and goes on by itself:\n  {again('task', 'show', str(task.id))}", to=screen)
        raise
    return task


def _held(dag: DagStatus, task: Task) -> str:
    job = job_of(dag, task.job)
    held, why = (f"{dag.name}/{job.name}", f" ({job.pause_reason})" if job.pause_reason else "") if job.paused else (dag.name, "")
    return f"Task {task.id} waits, because {held} is paused{why}. This lets it go on:\n  {again('resume', held)}"


def _progress(task: Task) -> Text:
    return Text.assemble(f"task {task.id} is ", _state_words(task), f" (attempt {task.attempt})" if task.attempt else "")


def _print_run(client: Client, task: Task) -> None:
    say(Text.assemble(f"Task {task.id} of {task.dag}/{task.job} is ", _state_words(task), "."))
    if task.state in FINAL:
        told = len(list(client.iterate_events(producer=task.id)))
        say(f"It took {counted(task.attempt, 'attempt')} and told {counted(told, 'event')}.")
        for attempt in task.attempts[-1:]:
            for sentence in attempt.summary:
                say(sentence)
            if attempt.error_class:
                say(f"{attempt.error_class}: {attempt.error_message}")
    say(f"  {again('task', 'show', str(task.id))}")


def _state_words(task: Task) -> Text:
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
}
