"""The chapters of the demo; every number in them is read from the API after the fact."""

import time
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from uuid import UUID

from tracelake_sdk.cli.demo.printer import Printer
from tracelake_sdk.cli.demo.reader import Reader, reading
from tracelake_sdk.cli.demo.shop_files import Landing
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.picture import branches
from tracelake_sdk.client import Client
from tracelake_sdk.dags.status import DagStatus
from tracelake_sdk.datasets import Version
from tracelake_sdk.errors import NameTaken, RebuildNeeded, TracelakeError, Unavailable
from tracelake_sdk.rules.promotions import GateVerdict, Promotion
from tracelake_sdk.tasks import Task, TaskState
from tracelake_sdk.wording import counted

DAG = "shop"
CUSTOMERS, ORDERS = "ingest_customers", "ingest_orders"
RAW, GOLD = "orders_raw", "revenue"
# Which dataset each job makes, and what it does.
JOBS = {
    CUSTOMERS: ("customers", "bronze: customers as they arrived"),
    ORDERS: (RAW, "bronze: orders as they arrived"),
    "clean_orders": ("orders", "silver: one row per paid order, with its customer"),
    "revenue": (GOLD, "gold: revenue by day and country"),
}
RULES = (("NOT_NULL", "customer_id"), ("RANGE", "amount in (0, 10000]"))

_REST_SECONDS = 600.0
_BLOCKED = "blocked"


@dataclass
class Chapters:
    """Each method is one chapter, in order."""

    printer: Printer
    client: Client
    landing: Landing
    definition: Path

    def deploy(self) -> None:
        try:
            deployed = self.client.dags.deploy(self.definition.read_text())
        except (RebuildNeeded, NameTaken) as error:
            raise type(error)(f"{error.detail} To run the demo, give it its own home with TRACELAKE_HOME.") from error
        dag = self.client.dags.get(DAG)
        self._resume(dag)
        self.printer.chapter(f"A DAG of {counted(len(dag.jobs), 'job')}")
        if deployed.created:
            self.printer.say("This file was deployed. Nothing has run yet: a source job runs on request, the other jobs when an event announces a new version.")
        else:
            self.printer.say("The DAG already exists: deploying the same file again changed nothing.")
        self.printer.picture([(branch.lines, branch.job.name, JOBS[branch.job.name][1]) for branch in branches(dag)])
        self.printer.command(again("deploy", str(self.definition)))
        self.client.dags.run(DAG, CUSTOMERS)  # starts Spark early, because that takes seconds

    def from_files_to_gold(self) -> None:
        self.printer.chapter("From files to gold")
        shop, days = self.landing.shop, self.landing.days
        self.printer.say(
            f"{counted(shop.customers, 'customer')} and {counted(days * shop.orders_a_day, 'order')} of {counted(days, 'day')} are in the landing folder,",
            "generated from a seed. Both source jobs were run; their events started the other jobs.",
        )
        self.printer.command(f"head -n 3 {quote(str(self.landing.file(days)))}")
        dag = self.client.dags.get(DAG)
        self._run(ORDERS)
        self._versions(dag)
        self.printer.say("Every line is a version of a Delta table, and each became visible only after the decision to allow it was recorded.")
        self.printer.command(again("run", f"{DAG}/{ORDERS}", "--wait"), again("dataset", "list"), again("promotion", "list"))

    def rules(self) -> None:
        self.printer.chapter("What good data means")
        existing = {(rule.rule_type, rule.rule_expression) for rule in self.client.rules.list(dataset=RAW).items}
        missing = [rule for rule in RULES if rule not in existing]
        for type, expression in missing:
            self.client.rules.add(RAW, type, expression, idempotency_key=_key(type))
        self.printer.say(
            f"{RAW} {'got' if missing else 'has'} {counted(len(RULES), 'rule')}. A rule is data about a dataset, not code in a pipeline:",
            "it applies to every run that is decided from now on.",
        )
        self.printer.command(*(again("rule", "add", RAW, type, expression, "--idempotency-key", _key(type)) for type, expression in RULES))
        self.printer.command(again("rule", "list", RAW))

    def a_bad_file(self) -> None:
        day = self.landing.days + 1
        self.printer.chapter("A bad file arrives")
        file = self.landing.bring(day, spoiled=True)
        self.printer.say(f"{file.name} arrives, and {ORDERS} runs, while a reader queries {RAW} again and again.")
        with reading(RAW) as reader:
            task = self._run(ORDERS)
        decision = next(one for one in self.client.promotions.list(dataset=RAW, limit=10).items if one.task_id == task.id)
        self._verdict(decision)
        self._what_readers_saw(reader)
        self._what_stays(task)
        self.printer.say(f"The state of {RAW}, explained:")
        self._explain(RAW)
        self.printer.command(again("explain", RAW), again("promotion", "show", str(decision.id)), again("log", DAG, "--status", "BLOCKED", "--limit", "5"))

    def corrected(self) -> None:
        before = self._newest(RAW)
        self.printer.chapter("Fixed, resumed, promoted")
        file = self.landing.bring(self.landing.days)
        self.client.dags.resume(DAG, ORDERS)
        dag = self.client.dags.get(DAG)
        self._run(ORDERS)
        self.printer.say(f"{file.name} was fixed, and the job was resumed and run again.")
        self._versions(dag)
        after = self._newest(RAW)
        began, ended = (after.parts[-1].custom[name] for name in ("cursor_before", "cursor_after"))
        self.printer.say(
            f"The run started after order {began:,}, where version {before.version} ended, because a blocked run does not move the cursor;",
            f"it added {counted(after.row_count - before.row_count, 'row')}, up to order {ended:,}.",
        )
        self.printer.command(again("resume", f"{DAG}/{ORDERS}"), again("run", f"{DAG}/{ORDERS}", "--wait"), again("dataset", "show", RAW))

    def where_it_comes_from(self) -> int:
        """Returns the version of gold that it showed."""
        self.printer.chapter("Where a gold number comes from")
        newest = self._newest(GOLD)
        self.printer.say(f"Every version names the exact versions that it was made from, and the run that made it. The lineage of {GOLD} version {newest.version}:")
        self.printer.picture([(lines, name, words) for lines, name, words in self._lineage(GOLD, newest, "", "")])
        self.printer.command(again("dataset", "show", GOLD, "--version", str(newest.version)), again("explain", GOLD))
        return newest.version

    # Steps that chapters share
    def _resume(self, dag: DagStatus) -> None:
        """An interrupted demo, or a user, may have left it paused."""
        for job in dag.jobs:
            if job.paused:
                self.client.dags.resume(DAG, job.name)
        if dag.paused:
            self.client.dags.resume(DAG)

    def _run(self, job: str) -> Task:
        task = self.client.dags.run(DAG, job)
        self._rest()
        for failed in self.client.tasks.list(dag=DAG, state=TaskState.FAILED, limit=20).items:
            attempts = self.client.tasks.get(failed.id).attempts if failed.id >= task.id else []
            for attempt in attempts[-1:]:
                if attempt.error_class != _BLOCKED:
                    raise TracelakeError(f"{DAG}/{failed.job} failed: {attempt.error_message} See `tracelake task show {failed.id}`.")
        return self.client.tasks.get(task.id)

    def _rest(self) -> None:
        """Wait until no task of the DAG is unfinished."""
        started = time.monotonic()
        with self.printer.busy("running tasks …") as show:
            while time.monotonic() < started + _REST_SECONDS:
                dag = self.client.dags.get(DAG)
                unfinished = [job.name for job in dag.jobs if job.tasks.queued or job.tasks.waiting or job.tasks.running or job.tasks.committing]
                if not unfinished:
                    return
                if broken := next((job for job in dag.jobs if job.paused), None):
                    raise TracelakeError(f"The job {DAG}/{broken.name} was paused: {broken.pause_reason} See `tracelake log {DAG}`.")
                show(f"{', '.join(unfinished)} … {time.monotonic() - started:.0f} s")
                time.sleep(0.1)
        raise Unavailable(f"The tasks of {DAG} did not finish in {_REST_SECONDS:.0f} seconds; see `tracelake status {DAG}`.")

    def _newest(self, dataset: str) -> Version:
        return self.client.datasets.versions(dataset, limit=1).items[0]

    def _versions(self, dag: DagStatus) -> None:
        """The tree of the DAG with the newest version of each job."""
        drawn = branches(dag)
        names = [JOBS[branch.job.name][0] for branch in drawn]
        newest = [self._newest(name) for name in names]
        width, digits = max(map(len, names)), max(len(f"{one.row_count:,}") for one in newest)
        words = [
            f"{name:<{width}}  version {one.version}  {one.row_count:>{digits},} rows   {one.parts[-1].reason}"
            for name, one in zip(names, newest, strict=True)
        ]
        self.printer.picture([(branch.lines, branch.job.name, note) for branch, note in zip(drawn, words, strict=True)])

    def _verdict(self, decision: Promotion) -> None:
        """The gate's reason, with the file that contains the sample keys."""
        samples = [sample for result in decision.quality_results if result.verdict is GateVerdict.FAIL for sample in result.samples]
        ids = [sample.removeprefix("order_id=") for sample in samples]
        files = self.landing.files_with(ids) if ids else []
        came = f"{', '.join(file.name for file in files)}: " if files else ""
        self.printer.stress(f"{came}{decision.reason}", "green" if decision.allowed else "bold red")
        if files:
            self.printer.say(f"Orders {', '.join(ids)} are among them.")
            self.printer.command(f"grep '^{ids[0]},' {quote(str(files[0]))}")

    def _explain(self, dataset: str) -> None:
        self.printer.facts([(reason.code, reason.sentence) for reason in self.client.datasets.explain(dataset).reasons])

    def _what_readers_saw(self, reader: Reader) -> None:
        if len(reader.seen) == 1 and reader.looks > 1:
            [(version, rows)] = reader.seen
            self.printer.say(f"Every query meanwhile read version {version} with {rows:,} rows: blocked data is never visible.")
        else:
            seen = ", then ".join(f"version {version} with {rows:,} rows" for version, rows in reader.seen)
            self.printer.say(f"The queries meanwhile read {seen}.")

    def _what_stays(self, task: Task) -> None:
        job = next(job for job in self.client.dags.get(DAG).jobs if job.name == ORDERS)
        newest = self._newest(RAW)
        cursor = newest.parts[-1].custom["cursor_after"]
        held = "is paused until somebody resumes it" if job.paused else "is not paused"
        self.printer.say(f"{ORDERS} {held}: its task {task.state.value} and is not retried, and its cursor stays at order {cursor:,}.")

    def _lineage(self, name: str, version: Version, here: str, further: str) -> list[tuple[str, str, str]]:
        part = version.parts[-1]
        words = f"version {version.version}, {version.row_count:,} rows, by {part.job}"
        drawn = [(here, name, words)]
        for place, pin in enumerate(part.inputs):
            last = place == len(part.inputs) - 1
            dataset: UUID | str = pin.name or pin.dataset_uuid
            below = self.client.datasets.version(dataset, pin.version)
            drawn += self._lineage(str(dataset), below, further + ("└─ " if last else "├─ "), further + ("   " if last else "│  "))
        return drawn


def _key(type: str) -> str:
    """The key under which a rule is created once, however often its command is pasted."""
    return f"demo-{type.lower()}"
