"""The story of `tracelake demo`; every number in it is read from the API after the fact."""

import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from uuid import UUID

from tracelake_sdk.cli.demo import embedded
from tracelake_sdk.cli.demo.embedded import OwnSystem
from tracelake_sdk.cli.demo.ledger_walk import Walk, walk
from tracelake_sdk.cli.demo.telling import Teller
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.picture import branches
from tracelake_sdk.cli.printing import counted, scope_words
from tracelake_sdk.client import Client
from tracelake_sdk.errors import NameTaken, RebuildNeeded, TracelakeError, Unavailable
from tracelake_sdk.events import DatasetEvent
from tracelake_sdk.runs import RunStatus
from tracelake_sdk.scopes import CursorScope
from tracelake_sdk.status import DagStatus
from tracelake_sdk.tasks import TaskState

DEFINITION = Path(__file__).with_name("ranges.yaml")
DAG, SOURCE, AGGREGATOR, SPLITTER, LAST = "ranges", "numbers", "hundreds", "tens", "count"

_STEP = 10                  # every tenth number is told: few tasks, several ranges
_FIRST, _SECOND = 30, 60    # so many numbers by each request; ten or more pass the end of a range wherever they start
_REST_SECONDS = 90.0
_LOOKED_BACK = 1000         # of the newest cursors, to go on behind the greatest


def tell() -> None:
    """The whole demo; on a terminal a system that it started stays up until Ctrl-C, elsewhere it is stopped."""
    teller = Teller()
    teller.title("Tracelake: from single numbers to ranges and back")
    with embedded.unwound_by_signals():
        client = embedded.find_running()
        if client is not None:
            with client:
                last = _Story(teller, client, None).tell(already=True)
            _close(teller, "The system runs on. What to try next:", last)
            return
        own = embedded.start()
        try:
            _tell_on(teller, own)
        finally:
            own.stop()


def _tell_on(teller: Teller, own: OwnSystem) -> None:
    started = time.monotonic()
    with teller.busy("Postgres, control and a worker are starting …"):
        own.wait_until_ready()
    with Client() as client:
        last = _Story(teller, client, own).tell(seconds=time.monotonic() - started)
    if sys.stdin.isatty() and sys.stdout.isatty():
        _close(teller, "The system stays up: Ctrl-C stops it. What to try next, in another terminal:", last)
        own.wait()
        own.stop()
        teller.title("Tracelake has stopped.")
    else:
        _close(teller, "The system stops now; its home keeps everything. What to try next, the first in a terminal of its own:", last, again("up"))


def _close(teller: Teller, words: str, last: int, *before: str) -> None:
    aggregator = f"{DAG}/{AGGREGATOR}"
    teller.chapter(words)
    teller.command(*before, again("doctor"), again("run", f"{DAG}/{SOURCE}", "--cursors", f"{last + 1}..{last + 100}", "--wait"), again("status"))
    teller.command(again("pause", aggregator), again("resume", aggregator))


class _Story:
    def __init__(self, teller: Teller, client: Client, own: OwnSystem | None) -> None:
        self._teller: Teller = teller
        self._client: Client = client
        self._own: OwnSystem | None = own
        self._tasks: set[UUID] = set()

    def tell(self, *, already: bool = False, seconds: float = 0) -> int:
        """All chapters; returns the greatest number that was told."""
        self._teller.chapter("A system on this machine")
        if already:
            self._teller.say(f"One runs already, at {self._client.api_url}.")
        else:
            self._teller.say(f"A Postgres, a control process and a worker are up at {self._client.api_url}, after {seconds:.1f} seconds.")
        dag = self._deploy()
        numbers = _numbers(_FIRST, behind=self._greatest_cursor())
        key = str(uuid.uuid4())
        found = self._one_request(dag, key, numbers)
        self._same_again(dag, key, numbers, found)
        if self._own is not None:
            numbers = _numbers(_SECOND, behind=numbers[-1])
            self._worker_is_killed(dag, self._own, numbers)
        self._history()
        return numbers[-1]

    def _deploy(self) -> DagStatus:
        try:
            deployed = self._client.deploy(DEFINITION.read_text())
        except (RebuildNeeded, NameTaken) as error:
            raise type(error)(f"{error.detail} To see the demo, give it a home of its own with TRACELAKE_HOME.") from error
        dag = self._client.dag(DAG)
        self._teller.chapter(f"A DAG of {counted(len(dag.jobs), 'job')}")
        if deployed.created:
            self._teller.say("This file was deployed. Nothing in it has rows: jobs tell events, and every event makes one task for the job below.")
        else:
            self._teller.say("It is here from before: deploying the same file again made nothing new.")
        words = {
            SOURCE: "tells the numbers that you ask it to tell",
            AGGREGATOR: "joins them to ranges of a hundred",
            SPLITTER: "cuts each hundred into tens",
            LAST: "hears of every ten",
        }
        self._teller.picture([(branch.lines, branch.job.name, words.get(branch.job.name, branch.job.operator)) for branch in branches(dag)])
        self._teller.command(again("deploy", _shortest(DEFINITION)))
        self._go_on(dag)
        return dag

    def _go_on(self, dag: DagStatus) -> None:
        """Somebody may have paused it since the last time."""
        paused = [job.name for job in dag.jobs if job.paused]
        for name in paused:
            self._client.resume(DAG, name)
        if dag.paused:
            self._client.resume(DAG)
        if paused or dag.paused:
            self._teller.say(f"It was paused ({', '.join([DAG] * dag.paused + paused)}); now it goes on.")

    def _greatest_cursor(self) -> int:
        """The greatest number told so far, so that the story goes on behind it; 0 where there is none."""
        told = [event.scope for event in self._client.events(dag=DAG, job=SOURCE, limit=_LOOKED_BACK).items]
        return max((scope.value for scope in told if isinstance(scope, CursorScope) and isinstance(scope.value, int)), default=0)

    def _one_request(self, dag: DagStatus, key: str, numbers: list[int]) -> Walk:
        say = self._teller.say
        self._teller.chapter("One request, and what follows by itself")
        task = self._client.run(DAG, SOURCE, {"cursors": numbers}, idempotency_key=key)
        self._rest()
        found = self._walked(dag, task.id)
        told, ranges, chunks = (found.step(job).events for job in (SOURCE, AGGREGATOR, SPLITTER))
        say(
            f"You asked {SOURCE} for every tenth number from {numbers[0]} to {numbers[-1]}, which is one task. It told {counted(len(told), 'event')},",
            f"and each made one task of {AGGREGATOR}: {counted(len(found.step(AGGREGATOR).tasks), 'task')}.",
        )
        say(f"{AGGREGATOR} takes them one at a time, in their order, and remembers where it is.", *_passed(found, ranges))
        if chunks:
            say(
                f"{SPLITTER} cut them into {counted(len(chunks), 'range')} from {_words(chunks[0])} to {_words(chunks[-1])},",
                f"and {LAST} got {counted(len(found.step(LAST).tasks), 'task')}, one for each.",
            )
        self._teller.numbers(found)
        self._account(found)
        self._teller.command(again("task", "show", str(task.id)), again("events", f"{DAG}/{AGGREGATOR}", "--limit", "5"))
        return found

    def _account(self, found: Walk) -> None:
        states = Counter(task.state for task in self._client.iterate_tasks(dag=DAG) if task.id in found.tasks)
        missing = sum(1 for event in found.events if not event.ledger)
        self._teller.say(
            f"The ledger accounts for all of it: {counted(len(found.events), 'event')}, {counted(found.lines, 'line')}, {missing} unaccounted for,"
            f" and {states[TaskState.COMPLETED]} of {counted(len(found.tasks), 'task')} completed."
        )

    def _same_again(self, dag: DagStatus, key: str, numbers: list[int], found: Walk) -> None:
        self._teller.chapter("The same again has no second effect")
        first = next(iter(found.step(SOURCE).tasks))
        repeated = self._client.run(DAG, SOURCE, {"cursors": numbers}, idempotency_key=key)
        self._rest()
        told = len(self._walked(dag, first).events)
        self._teller.say(
            f"The request was sent once more with its idempotency key. The answer is {'the same task' if repeated.id == first else 'another task'},",
            f"and the events are {told}, as before." if told == len(found.events) else f"and the events went from {len(found.events)} to {told}.",
        )
        number = numbers[len(numbers) // 2]
        once_more = self._client.run(DAG, SOURCE, {"cursors": [number]})
        self._rest()
        after = self._walked(dag, once_more.id)
        self._teller.say(
            f"Then a new request told the number {number} a second time: {counted(len(after.step(SOURCE).events), 'event')} and",
            f"{counted(len(after.step(AGGREGATOR).tasks), 'task')}, because nothing is dropped silently. {AGGREGATOR} knows a duplicate when it sees one:",
            f"it told {counted(len(after.step(AGGREGATOR).events), 'range')}.",
        )
        self._teller.command(again("events", "--producer", str(once_more.id)))

    def _worker_is_killed(self, dag: DagStatus, own: OwnSystem, numbers: list[int]) -> None:
        self._teller.chapter("A worker is killed in the middle of it")
        before = {job.name: job.tasks.completed for job in self._client.dag(DAG).jobs}[AGGREGATOR]
        task = self._client.run(DAG, SOURCE, {"cursors": numbers})
        killed = self._kill_in_the_middle(own, before, len(numbers))
        self._rest()
        next_worker = own.worker_after(killed)
        found = self._walked(dag, task.id)
        retried = [task for task in self._client.iterate_tasks(dag=DAG) if task.id in found.tasks and task.attempt > 1]
        self._teller.say(
            f"You asked for every tenth number from {numbers[0]} to {numbers[-1]}, and while {AGGREGATOR} was at it the worker got `kill -9`.",
            f"It was process {killed}; the supervisor started another, process {next_worker}.",
        )
        held = f"{counted(len(retried), 'task')}, tried again when the lease of the first attempt had run out" if retried else "no task at that moment"
        self._teller.say(f"The dead worker had held {held}; everything else just waited for the next worker.")
        self._teller.numbers(found)
        self._account(found)
        if retried:
            self._teller.command(again("task", "show", str(retried[0].id)))

    def _kill_in_the_middle(self, own: OwnSystem, before: int, many: int) -> int:
        """While a task runs and some have completed; on a machine that is too fast to be caught at it, right after the last."""
        while True:
            tasks = next(job.tasks for job in self._client.dag(DAG).jobs if job.name == AGGREGATOR)
            if (tasks.completed > before and tasks.running) or tasks.completed >= before + many:
                return own.kill_worker()

    def _history(self) -> None:
        self._teller.chapter("What ran, for good")
        rows: Counter[RunStatus] = Counter()
        oldest = min(self._tasks)
        for run in self._client.iterate_runs(dag=DAG):
            if run.task_id in self._tasks:
                rows[run.status] += 1
            elif run.task_id < oldest:
                break
        failed = rows[RunStatus.FAILED]
        ended = ", ".join(f"{number:,} {status.value}" for status, number in sorted(rows.items()) if number)
        killed = ", also that of the killed worker," if failed and self._own is not None else ""
        self._teller.say(f"Every attempt{killed} is one row of the run history, which the database itself refuses to change: {counted(rows.total(), 'row')}, {ended}.")
        self._teller.command(again("log", DAG, *(("--status", "FAILED") if failed else ()), "--limit", "10"))

    def _walked(self, dag: DagStatus, task: UUID) -> Walk:
        found = walk(self._client, dag, task)
        self._tasks |= found.tasks
        return found

    def _rest(self) -> None:
        """Wait until no task of the DAG is unfinished; a job that was paused by a failure is an error."""
        deadline = time.monotonic() + _REST_SECONDS
        with self._teller.busy("tasks run …") as show:
            while time.monotonic() < deadline:
                dag = self._client.dag(DAG)
                unfinished = {
                    job.name: number
                    for job in dag.jobs
                    if (number := job.tasks.queued + sum(job.tasks.waiting.values()) + job.tasks.running + job.tasks.committing)
                }
                if not unfinished:
                    return
                broken = next((job for job in dag.jobs if job.paused), None)
                if broken is not None:
                    raise TracelakeError(f"The job {DAG}/{broken.name} was paused: {broken.pause_reason} Look with `tracelake status {DAG}`.")
                show(", ".join(f"{name}: {counted(number, 'task')} to go" for name, number in unfinished.items()))
                time.sleep(0.1)
        raise Unavailable(f"The tasks of {DAG} did not come to rest in {_REST_SECONDS:.0f} seconds; look with `tracelake status {DAG}`.")


def _numbers(many: int, *, behind: int) -> list[int]:
    first = (behind // _STEP + 1) * _STEP
    return list(range(first, first + many * _STEP, _STEP))


def _passed(found: Walk, ranges: tuple[DatasetEvent, ...]) -> list[str]:
    if not ranges:
        return []
    came = scope_words(found.scopes.get(ranges[0].producer_task_id))
    return [f"When {came} came, the end of {_words(ranges[0])} was passed, and it told that range; in all {counted(len(ranges), 'range')} so far."]


def _words(event: DatasetEvent) -> str:
    return scope_words(event.scope)


def _shortest(file: Path) -> str:
    """The example of a clone where this is one, else the file itself."""
    example = Path("examples/ranges/dag.yaml")
    if example.is_file() and example.read_bytes() == file.read_bytes():
        return str(example)
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)
