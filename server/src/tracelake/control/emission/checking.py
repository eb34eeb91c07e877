"""The checker: exactly one record for each run, decision and result, and nobody waits."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tracelake.control.database.transactions import Database
from tracelake.control.emission import store
from tracelake.control.emission.facts import GATE_RESULT, PROMOTION_DECISION, TASK_RUN, Place
from tracelake.control.emission.storing import RepositoryOf
from tracelake_sdk.records import Comparison, MetadataContext, PathFilter, RecordFilters, StoredRecord

Fact = tuple[str, str]  # kind, and which one: the run, the decision, or the decision with gate and number

_BATCH = 200
_MOST = 1_000_000


@dataclass(frozen=True)
class Checked:
    """What was compared, and what is not as it must be."""

    facts: int = 0
    missing: list[Fact] = field(default_factory=list)
    doubled: list[Fact] = field(default_factory=list)
    refused: int = 0
    behind: int = 0  # facts that are not emitted yet; they are not counted as missing

    @property
    def whole(self) -> bool:
        return not (self.missing or self.doubled or self.refused or self.behind)


def check(database: Database, repository_of: RepositoryOf, place: Place) -> Checked:
    """Reads all of both, so it takes as long as there is history."""
    missing: list[Fact] = []
    doubled: list[Fact] = []
    facts = 0
    for tenant, expected, run_ids in _expected(database):
        found = _found(repository_of, MetadataContext(cluster=place.cluster, workspace=place.workspace, tenant=tenant), run_ids, {kind for kind, _ in expected})
        facts += len(expected)
        missing += [fact for fact in expected if found[fact] == 0]
        doubled += [fact for fact in expected if found[fact] > 1]
    with database.transaction("emission_check") as tx:
        return Checked(facts, missing, doubled, store.refusals(tx), store.behind(tx, most=_MOST))


def _expected(database: Database) -> Iterable[tuple[str, list[Fact], list[str]]]:
    """By tenant, in batches: the facts, and the runs that they are of."""
    after = store.START
    while True:
        with database.transaction("emission_check_runs") as tx:
            runs = store.runs(tx, after=after, limit=_BATCH)
        if not runs:
            break
        for tenant in {run.tenant for run in runs}:
            mine = [run.run_id for run in runs if run.tenant == tenant]
            yield tenant, [(TASK_RUN, run_id) for run_id in mine], mine
        after = store.Offset(runs[-1].xid, runs[-1].seq)
    after = store.START
    while True:
        with database.transaction("emission_check_decisions") as tx:
            decisions = store.decisions(tx, after=after, limit=_BATCH // 10)
            results = store.results(tx, [decision.id for decision in decisions])
        if not decisions:
            return
        for tenant in {decision.tenant for decision in decisions}:
            mine = [decision for decision in decisions if decision.tenant == tenant]
            ids = {decision.id for decision in mine}
            facts: list[Fact] = [(PROMOTION_DECISION, str(decision.id)) for decision in mine]
            facts += [(GATE_RESULT, f"{result.promotion_id} {result.gate} {result.number}") for result in results if result.promotion_id in ids]
            yield tenant, facts, [decision.run_id for decision in mine]
        after = store.Offset(decisions[-1].xid, decisions[-1].seq)


def _found(repository_of: RepositoryOf, context: MetadataContext, run_ids: list[str], kinds: set[str]) -> Counter[Fact]:
    found: Counter[Fact] = Counter()
    filters = RecordFilters(kinds=sorted(kinds), where=[PathFilter(path="payload.run_id", op=Comparison.IN, value=run_ids)], limit=1000)
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
