"""`run`: requests a run, follows everything that it causes, and reports the result."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from tracelake_sdk.cli.actions.dags import job_of
from tracelake_sdk.cli.actions.tasks import WAITS, state_words
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.options import MOST_LISTED
from tracelake_sdk.cli.printing import STATE_STYLES, print_json, say
from tracelake_sdk.client import Client
from tracelake_sdk.client.tasks import FINAL
from tracelake_sdk.dags import UpdateStrategy
from tracelake_sdk.dags.operators import OPERATORS, EmitRequest
from tracelake_sdk.dags.run_requests import check_request
from tracelake_sdk.dags.status import TaskCounts
from tracelake_sdk.errors import NotFound
from tracelake_sdk.rules.promotions import GateVerdict, Promotion
from tracelake_sdk.tasks import Task, TaskState, Waits
from tracelake_sdk.tasks.cascades import Cascade, CausedJob
from tracelake_sdk.wording import counted, plural

_FAILED = 1
_TIMED_OUT = 3
_BLOCKED = 4          # by the gate: the operator succeeded, but its data is not visible
_LINE_SECONDS = 5.0   # between two lines of progress where there is no terminal
_REFUSED = (GateVerdict.FAIL, GateVerdict.ERROR, GateVerdict.NOT_EVALUATED)


@dataclass(frozen=True)
class Waiting:
    """How long `run` follows what it started: not at all, the task alone, or everything that it causes."""

    wanted: bool = False
    only: bool = False
    timeout: float | None = None


@dataclass(frozen=True)
class Followed:
    """The last seen state of the task, and of its cascade if requested."""

    task: Task
    cascade: Cascade | None = None
    timed_out: bool = False

    @property
    def failed(self) -> list[Task]:
        if self.cascade is not None:
            return self.cascade.failed
        return [self.task] if self.task.state in (TaskState.FAILED, TaskState.CANCELED) else []

    @property
    def exit_code(self) -> int:
        """Failed wins over blocked, and both win over still running."""
        if any(not task.blocked for task in self.failed):
            return _FAILED
        return _BLOCKED if self.failed else _TIMED_OUT if self.timed_out else 0


def run(dag: str, job: str, request: dict[str, Any], *, key: str | None, waiting: Waiting, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        if dry_run:
            sentence = _would_run(client, dag, job, request)
            if as_json:
                print_json({"dry_run": True, "changes": True, "says": sentence})
            else:
                say(sentence)
            return
        task = client.dags.run(dag, job, request, idempotency_key=key)
        followed = _follow(client, task, waiting) if waiting.wanted else Followed(task)
        if as_json:
            print_json(_document(followed))
        else:
            _print_followed(client, followed)
    if followed.exit_code:
        raise typer.Exit(followed.exit_code)


def _would_run(client: Client, dag: str, job: str, request: dict[str, Any]) -> str:
    status = client.dags.get(dag)
    found = job_of(status, job)
    operator = OPERATORS.get((found.runtime, found.operator))
    replaces = found.update_strategy == UpdateStrategy.REPLACE.value
    checked = check_request(f"{dag}/{job}", operator, request, is_source=not found.inputs, replaces=replaces)
    emitted = f" that emits {counted(len(set(checked.cursors)), 'cursor')}" if isinstance(checked, EmitRequest) else ""
    held = f", which would wait: {f'{dag}/{job}' if found.paused else dag} is paused" if found.paused or status.paused else ""
    return f"A run would make one task of {dag}/{job}{emitted}{held}. Nothing was changed."


def _document(followed: Followed) -> dict[str, Any]:
    caused = {} if followed.cascade is None else {"caused": followed.cascade.jobs, "failed": followed.cascade.failed}
    return {**followed.task.model_dump(mode="json"), **caused, **({"timed_out": True} if followed.timed_out else {})}


# Following
def _follow(client: Client, task: Task, waiting: Waiting) -> Followed:
    # On stderr, so that stdout has only the result.
    screen = Console(stderr=True, markup=False, highlight=False)
    deadline = float("inf") if waiting.timeout is None else time.monotonic() + waiting.timeout
    followed = Followed(task)
    held = _HeldNotice(client, screen)
    try:
        with _progress(screen) as show:
            for followed in _looks(client, task, only=waiting.only):
                show(followed)
                held.look(followed)
                if time.monotonic() >= deadline and not _is_over(followed):
                    return Followed(followed.task, followed.cascade, timed_out=True)
    except KeyboardInterrupt:
        seen = followed.task
        say(f"Stopped following task {seen.id}; it is {_still(followed)}:\n  {again('task', 'show', str(seen.id))}", to=screen)
        raise
    return followed


def _looks(client: Client, task: Task, *, only: bool) -> Iterator[Followed]:
    if only:
        yield from (Followed(seen) for seen in client.tasks.follow(task.id))
    else:
        yield from (Followed(seen.task, seen) for seen in client.tasks.follow_cascade(task.id))


def _is_over(followed: Followed) -> bool:
    return followed.task.state in FINAL if followed.cascade is None else followed.cascade.over


def _still(followed: Followed) -> str:
    if followed.task.state not in FINAL:
        return f"still {followed.task.state.value}" if followed.task.waits is None else "still waiting"
    return f"{followed.task.state.value}, and what it caused is still running"


class _HeldNotice:
    """Prints once per job that its tasks wait for a resume, also without a terminal: otherwise the run would wait silently."""

    def __init__(self, client: Client, screen: Console) -> None:
        self._client: Client = client
        self._screen: Console = screen
        self._printed: set[str] = set()

    def look(self, followed: Followed) -> None:
        held = [job.name for job in followed.cascade.jobs if job.tasks.waiting.get(Waits.PAUSED.value)] if followed.cascade else []
        if not followed.cascade and followed.task.waits is Waits.PAUSED:
            held = [f"{followed.task.dag}/{followed.task.job}"]
        for name in held:
            if name not in self._printed:
                self._printed.add(name)
                self._say(name)

    def _say(self, name: str) -> None:
        paused, why = _paused_by(self._client, name)
        say(f"A task of {name} waits because {paused} is paused{why}. To continue:\n  {again('resume', paused)}", to=self._screen)


def _paused_by(client: Client, name: str) -> tuple[str, str]:
    """The job DAG/JOB, or its DAG if only the DAG is paused; and the reason in brackets, if any."""
    dag, _, job_name = name.partition("/")
    job = job_of(client.dags.get(dag), job_name)
    return (name, f" ({job.pause_reason})" if job.pause_reason else "") if job.paused else (dag, "")


@contextmanager
def _progress(screen: Console) -> Generator[Callable[[Followed], None]]:
    """A live tree on a terminal; elsewhere a line at intervals, if something has changed."""
    if screen.is_terminal:
        with Live(console=screen, transient=True, refresh_per_second=8) as live:
            yield lambda followed: live.update(_tree(followed))
        return
    last, at = "", time.monotonic()

    def show(followed: Followed) -> None:
        nonlocal last, at
        line = line_of(_lines(followed))
        if line != last and time.monotonic() - at >= _LINE_SECONDS:
            last, at = line, time.monotonic()
            say(line, to=screen)

    yield show


def line_of(lines: Iterable[tuple[str, Text]]) -> str:
    """The tree on one line."""
    return "; ".join(f"{name.strip().removeprefix('└─ ')} {words.plain}" for name, words in lines)


def _tree(followed: Followed) -> Text:
    lines = _lines(followed)
    width = max(len(name) for name, _ in lines)
    return Text("\n").join(Text.assemble(f"{name:<{width}}  ", words) for name, words in lines)


def _lines(followed: Followed) -> list[tuple[str, Text]]:
    """Each job with its connecting lines and the states of its tasks."""
    if followed.cascade is None:
        task = followed.task
        return [(f"{task.dag}/{task.job}", Text.assemble(state_words(task), f" (attempt {task.attempt})" if task.attempt > 1 else ""))]
    return list(branches(followed.cascade.jobs))


def branches(jobs: list[CausedJob]) -> Iterator[tuple[str, Text]]:
    names = {job.name for job in jobs}
    below: dict[str | None, list[CausedJob]] = {}
    for job in jobs:
        below.setdefault(job.after if job.after in names and job.after != job.name else None, []).append(job)

    def walk(job: CausedJob, depth: int) -> Iterator[tuple[str, Text]]:
        yield f"{'   ' * (depth - 1)}{'└─ ' if depth else ''}{job.name}", _counts(job.tasks)
        for child in below.get(job.name, []):
            yield from walk(child, depth + 1)

    for root in below.get(None, []):
        yield from walk(root, 0)


def _counts(tasks: TaskCounts) -> Text:
    """`3 running, 2 waiting (paused), 1 completed`; only the state if there is one task."""
    numbers = {name: getattr(tasks, name) for name in ("failed", "canceled", "running", "committing", "queued", "completed")}
    parts = [(f"{number} {name}", STATE_STYLES[name]) for name, number in numbers.items() if number]
    parts += [(f"{number} waiting {WAITS[Waits(why)]}" if why != Waits.PAUSED.value else f"{number} paused", "yellow") for why, number in tasks.waiting.items()]
    if len(parts) == 1 and parts[0][0].startswith("1 "):
        parts = [(parts[0][0].removeprefix("1 "), parts[0][1])]
    return Text(", ").join(Text(words, style) for words, style in parts)


# Result
def _print_followed(client: Client, followed: Followed) -> None:
    task = followed.task
    say(Text.assemble(f"Task {task.id} of {task.dag}/{task.job} is ", state_words(task), "."))
    if task.state in FINAL:
        emitted = len(list(client.events.iterate(producer=task.id)))
        say(f"Finished in {counted(task.attempt, 'attempt')}; emitted {counted(emitted, 'event')}.")
        if not emitted and task.state is TaskState.COMPLETED:
            _print_empty(client, task)
    for sentence in task.attempts[-1].summary if task.attempts else []:
        say(sentence)
    if followed.cascade is not None and followed.cascade.number > 1:
        _print_cascade(followed)
    for failed in followed.failed:
        _print_failure(client, failed)
    if followed.timed_out:
        say("Timed out:")
        for sentence in _unfinished(client, followed):
            say(f"  {sentence}")
    if task not in followed.failed:
        say(f"  {again('task', 'show', str(task.id))}")


def _print_empty(client: Client, task: Task) -> None:
    """Names the datasets of a completed job that have no version yet, as far as the caller may see them."""
    for dataset in client.datasets.list(dag=task.dag, limit=MOST_LISTED).items:
        if dataset.job == task.job and dataset.has_files and dataset.version is None:
            say(f"The run completed without rows, so dataset {dataset.name or dataset.uuid} has no version yet.")


def _unfinished(client: Client, followed: Followed) -> Iterator[str]:
    """The unfinished tasks of each job, and the command to resume a paused one."""
    for name, tasks in _open_tasks(followed):
        if working := tasks.running + tasks.committing:
            yield f"{name}: {counted(working, 'task')} {plural(working, 'is', 'are')} still running."
        if tasks.queued:
            yield f"{name}: {counted(tasks.queued, 'task')} {plural(tasks.queued, 'is', 'are')} queued for a worker."
        for why, number in tasks.waiting.items():
            queued = f"{name}: {counted(number, 'task')} {plural(number, 'is', 'are')} queued"
            if why == Waits.PAUSED.value:
                paused, reason = _paused_by(client, name)
                yield f"{queued}: {paused} is paused{reason}; resume it with `{again('resume', paused)}`."
            else:
                yield f"{queued} and {plural(number, 'waits', 'wait')} {WAITS[Waits(why)]}."


def _open_tasks(followed: Followed) -> list[tuple[str, TaskCounts]]:
    if followed.cascade is not None:
        return [(job.name, job.tasks) for job in followed.cascade.jobs if job.tasks.open]
    task = followed.task
    states = {state.value: int(task.state is state and task.waits is None) for state in TaskState}
    return [(f"{task.dag}/{task.job}", TaskCounts(waiting={task.waits.value: 1} if task.waits else {}, more=False, **states))]


def _print_cascade(followed: Followed) -> None:
    cascade = followed.cascade
    if cascade is None:
        return
    others = cascade.number - 1
    done = "all completed" if not cascade.open and not cascade.failed else "not all completed"
    say(f"It caused {counted(others, 'more task')}; {done}:" if cascade.task.state is TaskState.COMPLETED else f"It caused {counted(others, 'more task')}:")
    say(_tree(followed))


def _print_failure(client: Client, task: Task) -> None:
    last = task.attempts[-1] if task.attempts else None
    reason = f"{last.error_class}: {last.error_message}" if last and last.error_class else task.state.value
    say(f"{task.dag}/{task.job} {reason}")
    decision = _decision(client, task) if task.blocked else None
    if decision is None:
        say(f"  {again('task', 'show', str(task.id))}")
        return
    for result in decision.policy_results:
        if result.verdict in _REFUSED:
            say(f"  policy {result.policy_type}: {result.sentence}")
    for result in decision.quality_results:
        if result.verdict in _REFUSED:
            number = "" if result.violations is None else f" ({result.violations:,} of {result.examined or 0:,} rows)"
            say(f"  rule {result.rule_type}{number}: {result.sentence}")
            if result.samples:
                say(f"    sample keys: {', '.join(result.samples)}")
    say(f"  {again('promotion', 'show', str(decision.id))}")


def _decision(client: Client, task: Task) -> Promotion | None:
    """The gate's decision about the last attempt; None if the caller lacks permission to see it, or if a batch was blocked and not the task itself."""
    try:
        return client.promotions.get(f"{task.id}:{task.attempts[-1].attempt}")
    except NotFound:
        return None
