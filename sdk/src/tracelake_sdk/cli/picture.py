"""A DAG as a small tree of its jobs: each job below the first of its inputs, with a note where it reads more than that."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from tracelake_sdk.cli.printing import Cell, TableColumn, print_table, say
from tracelake_sdk.dags.status import DagStatus, JobStatus


@dataclass(frozen=True)
class Branch:
    """One job with the connecting lines before it."""

    lines: str
    job: JobStatus
    also_reads: tuple[str, ...]

    @property
    def picture(self) -> str:
        return self.lines + self.job.name


def branches(dag: DagStatus) -> list[Branch]:
    """Every job once, in the order of the tree."""
    jobs = {job.name: job for job in dag.jobs}
    # A dataset of another DAG may have the name of a job of this one; an input that would form a cycle is such a dataset.
    above = {job.name: next((name for name in job.inputs if name in jobs and name != job.name), None) for job in dag.jobs}
    below: dict[str | None, list[str]] = {}
    for name, parent in above.items():
        below.setdefault(parent, []).append(name)
    drawn: list[Branch] = []
    for root in below.get(None, []):
        drawn.extend(_walk(root, "", "", jobs, below))
    seen = {branch.job.name for branch in drawn}
    for name, job in jobs.items():
        if name not in seen:
            drawn.append(Branch("", job, tuple(job.inputs)))
    return drawn


def _walk(name: str, here: str, further: str, jobs: dict[str, JobStatus], below: dict[str | None, list[str]]) -> Iterator[Branch]:
    job = jobs[name]
    above = next((other for other in job.inputs if other in jobs and other != name), None)
    yield Branch(here, job, tuple(other for other in job.inputs if other != above))
    children = below.get(name, [])
    for index, child in enumerate(children):
        last = index == len(children) - 1
        yield from _walk(child, further + ("└─ " if last else "├─ "), further + ("   " if last else "│  "), jobs, below)


def print_dag(dag: DagStatus) -> None:
    """The tree with the tasks of each job by state."""
    heading = Text(dag.name, "bold")
    heading.append(f"  version {dag.version}" if dag.version is not None else "  not active", "not bold")
    if dag.paused:
        heading.append("  paused", "bold yellow")
    say(heading)
    drawn = branches(dag)
    notes = [_note(branch) for branch in drawn]
    columns = [TableColumn("job"), TableColumn("operator"), *(TableColumn(name, right=True) for name in ("queued", "waiting", "running", "completed", "failed", "canceled"))]
    rows = [_row(branch) for branch in drawn]
    if any(notes):
        columns.append(TableColumn("note", folds=True))
        rows = [[*row, note] for row, note in zip(rows, notes, strict=True)]
    print_table(columns, rows)
    if any(branch.job.tasks.more for branch in drawn):
        say("For jobs with very many tasks, only the newest tasks are counted.")


def waiting_words(waiting: dict[str, int]) -> str:
    """`3 (turn)`: how many wait and for what; `0` if none waits."""
    return "0" if not waiting else f"{sum(waiting.values())} ({', '.join(waiting)})"


def _row(branch: Branch) -> list[Cell]:
    job, tasks = branch.job, branch.job.tasks
    numbers: list[Cell] = [
        _number(tasks.queued, "yellow"),
        Text(waiting_words(tasks.waiting), "yellow" if tasks.waiting else "dim"),
        _number(tasks.running + tasks.committing, "cyan"),
        _number(tasks.completed, "green"),
        _number(tasks.failed, "bold red"),
        _number(tasks.canceled, "magenta"),
    ]
    return [Text.assemble((branch.lines, "dim"), (job.name, "bold")), f"{job.runtime}/{job.operator}", *numbers]


def _number(number: int, style: str) -> Text:
    return Text(str(number), style if number else "dim")


def _note(branch: Branch) -> str:
    paused = [f"paused: {branch.job.pause_reason}" if branch.job.pause_reason else "paused"] if branch.job.paused else []
    reads = [f"{'also ' if branch.lines else ''}reads {', '.join(branch.also_reads)}"] if branch.also_reads else []
    return "; ".join(paused + reads)
