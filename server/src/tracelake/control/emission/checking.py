"""The checker: exactly one record for each run, decision and result, and none waiting."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tracelake.control.database.transactions import Database
from tracelake.control.emission import store
from tracelake.control.emission.facts import GATE_RESULT, PROMOTION_DECISION, TASK_RUN, DecisionFact, Installation, ResultFact, RunFact
from tracelake.control.emission.storing import RepositoryOf
from tracelake_sdk.records import Comparison, MetadataContext, PathFilter, RecordFilters, StoredRecord, Window

Fact = tuple[str, str]  # kind and id: the run, the decision, or the decision with gate and number

_BATCH = 200
_MOST = 1_000_000
_RECENT = 200                    # facts of each stream
_RECENT_AGE = timedelta(days=1)  # less than any retention


@dataclass(frozen=True)
class Checked:
    """The number of compared facts, and the deviations."""

    facts: int = 0
    missing: list[Fact] = field(default_factory=list)
    doubled: list[Fact] = field(default_factory=list)
    refused: int = 0
    behind: int = 0  # facts that are not emitted yet; they are not counted as missing
    waiting_since: datetime | None = None  # when the oldest of them was made

    @property
    def whole(self) -> bool:
        return not (self.missing or self.doubled or self.refused or self.behind)


Expected = Iterable[tuple[str, list[Fact], list[str]]]  # by tenant, in batches: the facts and their runs


def check(database: Database, repository_of: RepositoryOf, installation: Installation) -> Checked:
    """Reads all facts and records: the cost grows with history."""
    return _compared(database, repository_of, installation, _expected(database), None)


def check_recent(database: Database, repository_of: RepositoryOf, installation: Installation, *, now: datetime, on_the_way: timedelta = timedelta(0)) -> Checked:
    """The newest facts that were emitted, up to a number and an age: the cost does not grow with history. With a bus, facts younger than `on_the_way` are skipped."""
    produced = Window(start=now - _RECENT_AGE)
    return _compared(database, repository_of, installation, _recent(database, now - _RECENT_AGE, now - on_the_way), produced)


def _compared(database: Database, repository_of: RepositoryOf, installation: Installation, every: Expected, produced: Window | None) -> Checked:
    missing: list[Fact] = []
    doubled: list[Fact] = []
    facts = 0
    for tenant, expected, run_ids in every:
        context = MetadataContext(cluster=installation.cluster, workspace=installation.workspace, tenant=tenant)
        found = _found(repository_of, context, run_ids, {kind for kind, _ in expected}, produced)
        facts += len(expected)
        missing += [fact for fact in expected if found[fact] == 0]
        doubled += [fact for fact in expected if found[fact] > 1]
    with database.transaction("emission_check") as tx:
        return Checked(facts, missing, doubled, store.refusals(tx), store.behind(tx, most=_MOST), store.waiting_since(tx))


def _expected(database: Database) -> Expected:
    after = store.START
    while True:
        with database.transaction("emission_check_runs") as tx:
            runs = store.runs(tx, after=after, limit=_BATCH)
        if not runs:
            break
        yield from _of_runs(runs)
        after = store.Offset(runs[-1].xid, runs[-1].seq)
    after = store.START
    while True:
        with database.transaction("emission_check_decisions") as tx:
            decisions = store.decisions(tx, after=after, limit=_BATCH // 10)
            results = store.results(tx, [decision.id for decision in decisions])
        if not decisions:
            return
        yield from _of_decisions(decisions, results)
        after = store.Offset(decisions[-1].xid, decisions[-1].seq)


def _recent(database: Database, start: datetime, end: datetime) -> Expected:
    with database.transaction("emission_check_recent") as tx:
        until = store.emitted(tx, store.RUNS)
        runs = store.runs(tx, after=store.run_before(tx, until, places=_RECENT), limit=_RECENT)
        runs = [run for run in runs if _is_emitted(run, until) and start < run.end_time < end]
        until = store.emitted(tx, store.DECISIONS)
        decisions = store.decisions(tx, after=store.decision_before(tx, until, places=_RECENT), limit=_RECENT)
        decisions = [decision for decision in decisions if _is_emitted(decision, until) and start < decision.evaluated_at < end]
        results = store.results(tx, [decision.id for decision in decisions])
    yield from _of_runs(runs)
    yield from _of_decisions(decisions, results)


def _is_emitted(fact: RunFact | DecisionFact, until: store.Offset) -> bool:
    return (int(fact.xid), fact.seq) <= (int(until.xid), until.seq)


def _of_runs(runs: Sequence[RunFact]) -> Expected:
    for tenant in {run.tenant for run in runs}:
        mine = [run.run_id for run in runs if run.tenant == tenant]
        yield tenant, [(TASK_RUN, run_id) for run_id in mine], mine


def _of_decisions(decisions: Sequence[DecisionFact], results: Sequence[ResultFact]) -> Expected:
    for tenant in {decision.tenant for decision in decisions}:
        mine = [decision for decision in decisions if decision.tenant == tenant]
        ids = {decision.id for decision in mine}
        facts: list[Fact] = [(PROMOTION_DECISION, str(decision.id)) for decision in mine]
        facts += [(GATE_RESULT, f"{result.promotion_id} {result.gate} {result.number}") for result in results if result.promotion_id in ids]
        yield tenant, facts, [decision.run_id for decision in mine]


def _found(repository_of: RepositoryOf, context: MetadataContext, run_ids: list[str], kinds: set[str], produced: Window | None) -> Counter[Fact]:
    found: Counter[Fact] = Counter()
    where = [PathFilter(path="payload.run_id", op=Comparison.IN, value=run_ids)]
    filters = RecordFilters(kinds=sorted(kinds), where=where, produced=produced, limit=1000)
    while True:
        page = repository_of(context.tenant).query(filters, context)
        found.update(_fact(stored) for stored in page)
        if page.next is None:
            return found
        filters = filters.model_copy(update={"page": page.next})


def _fact(stored: StoredRecord) -> Fact:
    payload = stored.record.payload
    match stored.record.kind:
        case "task_run":
            return TASK_RUN, payload["run_id"]
        case "promotion_decision":
            return PROMOTION_DECISION, payload["promotion_id"]
        case other:
            return other, f"{payload['promotion_id']} {payload['gate']} {payload['number']}"
