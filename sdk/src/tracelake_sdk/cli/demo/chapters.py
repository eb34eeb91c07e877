"""The chapters of the demo; every number in them is read from the API after the fact."""

import time
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from uuid import UUID

from tracelake_sdk.cli.demo.reader import Reader, reading
from tracelake_sdk.cli.demo.shop_files import Landing
from tracelake_sdk.cli.demo.telling import Teller
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
    """Each method is one chapter; they are told in their order."""

    teller: Teller
    client: Client
    landing: Landing
    definition: Path

    def deploy(self) -> None:
        try:
            deployed = self.client.dags.deploy(self.definition.read_text())
        except (RebuildNeeded, NameTaken) as error:
            raise type(error)(f"{error.detail} To see the demo, give it a home of its own with TRACELAKE_HOME.") from error
        dag = self.client.dags.get(DAG)
        self._go_on(dag)
        self.teller.chapter(f"A DAG of {counted(len(dag.jobs), 'job')}")
        if deployed.created:
            self.teller.say("This file was deployed. Nothing has moved yet: jobs run when files are asked for, or when an event tells of a new version.")
        else:
            self.teller.say("It is here from before: deploying the same file again made nothing new.")
        self.teller.picture([(branch.lines, branch.job.name, JOBS[branch.job.name][1]) for branch in branches(dag)])
        self.teller.command(again("deploy", str(self.definition)))
        self.client.dags.run(DAG, CUSTOMERS)  # it wakes Spark, which takes its time

    def from_files_to_gold(self) -> None:
        self.teller.chapter("From files to gold")
        shop, days = self.landing.shop, self.landing.days
        self.teller.say(
            f"{counted(shop.customers, 'customer')} and {counted(days * shop.orders_a_day, 'order')} of {counted(days, 'day')} lie in the landing folder,",
            "made from a seed. Both sources were asked for a run; what follows, follows by itself.",
        )
        self.teller.command(f"head -n 3 {quote(str(self.landing.file(days)))}")
        dag = self.client.dags.get(DAG)
        self._run(ORDERS)
        self._versions(dag)
        self.teller.say("Every line is a version of a Delta table, and for each the decision that it may be seen was recorded first.")
        self.teller.command(again("run", f"{DAG}/{ORDERS}", "--wait"), again("dataset", "list"), again("promotion", "list"))

    def rules(self) -> None:
        self.teller.chapter("What good data means")
        known = {(rule.rule_type, rule.rule_expression) for rule in self.client.rules.list(dataset=RAW).items}
        missing = [rule for rule in RULES if rule not in known]
        for type, expression in missing:
            self.client.rules.add(RAW, type, expression, idempotency_key=_key(type))
        self.teller.say(
            f"{RAW} {'got' if missing else 'has'} {counted(len(RULES), 'rule')}. A rule is data about a dataset, not code in a pipeline:",
            "every run that is decided from now on is held to it.",
        )
        self.teller.command(*(again("rule", "add", RAW, type, expression, "--idempotency-key", _key(type)) for type, expression in RULES))
        self.teller.command(again("rule", "list", RAW))

    def a_bad_file(self) -> None:
        day = self.landing.days + 1
        self.teller.chapter("A bad file arrives")
        file = self.landing.bring(day, spoiled=True)
        self.teller.say(f"{file.name} lands, and {ORDERS} is asked for a run, while somebody queries {RAW} again and again.")
        with reading(RAW) as reader:
            task = self._run(ORDERS)
        decision = next(one for one in self.client.promotions.list(dataset=RAW, limit=10).items if one.task_id == task.id)
        self._verdict(decision)
        self._what_readers_saw(reader)
        self._what_stays(task)
        self.teller.say(f"Why {RAW} is as it is, in its own words:")
        self._explain(RAW)
        self.teller.command(again("explain", RAW), again("promotion", "show", str(decision.id)), again("log", DAG, "--status", "BLOCKED", "--limit", "5"))

    def corrected(self) -> None:
        before = self._newest(RAW)
        self.teller.chapter("Corrected, resumed, promoted")
        file = self.landing.bring(self.landing.days)
        self.client.dags.resume(DAG, ORDERS)
        dag = self.client.dags.get(DAG)
        self._run(ORDERS)
        self.teller.say(f"{file.name} came again as it should have been, the job was resumed and asked for a run.")
        self._versions(dag)
        after = self._newest(RAW)
        began, ended = (after.parts[-1].custom[name] for name in ("cursor_before", "cursor_after"))
        self.teller.say(
            f"It began behind order {began:,}, where version {before.version} had ended, because a blocked run moves no cursor;",
            f"{counted(after.row_count - before.row_count, 'row')} came in, up to order {ended:,}.",
        )
        self.teller.command(again("resume", f"{DAG}/{ORDERS}"), again("run", f"{DAG}/{ORDERS}", "--wait"), again("dataset", "show", RAW))

    def where_it_comes_from(self) -> int:
        """Returns which version of gold it told of."""
        self.teller.chapter("Where a gold number comes from")
        newest = self._newest(GOLD)
        self.teller.say(f"Every version names the exact versions that it was made from, and the run that made it. Behind {GOLD} version {newest.version}:")
        self.teller.picture([(lines, name, words) for lines, name, words in self._lineage(GOLD, newest, "", "")])
        self.teller.command(again("dataset", "show", GOLD, "--version", str(newest.version)), again("explain", GOLD))
        return newest.version

    # What the chapters are made of
    def _go_on(self, dag: DagStatus) -> None:
        """Somebody, or a telling that was interrupted, may have left it paused."""
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
                    raise TracelakeError(f"{DAG}/{failed.job} failed: {attempt.error_message} Look with `tracelake task show {failed.id}`.")
        return self.client.tasks.get(task.id)

    def _rest(self) -> None:
        """Wait until no task of the DAG is unfinished."""
        started = time.monotonic()
        with self.teller.busy("tasks run …") as show:
            while time.monotonic() < started + _REST_SECONDS:
                dag = self.client.dags.get(DAG)
                unfinished = [job.name for job in dag.jobs if job.tasks.queued or job.tasks.waiting or job.tasks.running or job.tasks.committing]
                if not unfinished:
                    return
                if broken := next((job for job in dag.jobs if job.paused), None):
                    raise TracelakeError(f"The job {DAG}/{broken.name} was paused: {broken.pause_reason} Look with `tracelake log {DAG}`.")
                show(f"{', '.join(unfinished)} … {time.monotonic() - started:.0f} s")
                time.sleep(0.1)
        raise Unavailable(f"The tasks of {DAG} did not come to rest in {_REST_SECONDS:.0f} seconds; look with `tracelake status {DAG}`.")

    def _newest(self, dataset: str) -> Version:
        return self.client.datasets.versions(dataset, limit=1).items[0]

    def _versions(self, dag: DagStatus) -> None:
        """The picture of the DAG with the version that each job has made."""
        drawn = branches(dag)
        names = [JOBS[branch.job.name][0] for branch in drawn]
        newest = [self._newest(name) for name in names]
        width, digits = max(map(len, names)), max(len(f"{one.row_count:,}") for one in newest)
        words = [
            f"{name:<{width}}  version {one.version}  {one.row_count:>{digits},} rows   {one.parts[-1].reason}"
            for name, one in zip(names, newest, strict=True)
        ]
        self.teller.picture([(branch.lines, branch.job.name, said) for branch, said in zip(drawn, words, strict=True)])

    def _verdict(self, decision: Promotion) -> None:
        """The gate's sentence, with the file: the keys that were kept as samples lead to it."""
        samples = [sample for result in decision.quality_results if result.verdict is GateVerdict.FAIL for sample in result.samples]
        ids = [sample.removeprefix("order_id=") for sample in samples]
        files = self.landing.files_with(ids) if ids else []
        came = f"{', '.join(file.name for file in files)}: " if files else ""
        self.teller.stress(f"{came}{decision.reason}", "green" if decision.allowed else "bold red")
        if files:
            self.teller.say(f"Orders {', '.join(ids)} are among them.")
            self.teller.command(f"grep '^{ids[0]},' {quote(str(files[0]))}")

    def _explain(self, dataset: str) -> None:
        self.teller.facts([(reason.code, reason.sentence) for reason in self.client.datasets.explain(dataset).reasons])

    def _what_readers_saw(self, reader: Reader) -> None:
        if len(reader.seen) == 1 and reader.looks > 1:
            [(version, rows)] = reader.seen
            self.teller.say(f"Every query meanwhile read version {version} with {rows:,} rows: what is not allowed does not exist for anyone.")
        else:
            seen = ", then ".join(f"version {version} with {rows:,} rows" for version, rows in reader.seen)
            self.teller.say(f"The queries meanwhile read {seen}.")

    def _what_stays(self, task: Task) -> None:
        job = next(job for job in self.client.dags.get(DAG).jobs if job.name == ORDERS)
        newest = self._newest(RAW)
        cursor = newest.parts[-1].custom["cursor_after"]
        held = "is paused until somebody has looked" if job.paused else "is not paused"
        self.teller.say(f"{ORDERS} {held}: its task {task.state.value} and is not tried again, and its cursor is where it was, at order {cursor:,}.")

    def _lineage(self, name: str, version: Version, here: str, further: str) -> list[tuple[str, str, str]]:
        part = version.parts[-1]
        words = f"version {version.version}, {version.row_count:,} rows, by {part.job}"
        drawn = [(here, name, words)]
        for place, pin in enumerate(part.inputs):
            last = place == len(part.inputs) - 1
            known: UUID | str = pin.name or pin.dataset_uuid
            below = self.client.datasets.version(known, pin.version)
            drawn += self._lineage(str(known), below, further + ("└─ " if last else "├─ "), further + ("   " if last else "│  "))
        return drawn


def _key(type: str) -> str:
    """Under which a rule is made once, however often its command is pasted."""
    return f"demo-{type.lower()}"
