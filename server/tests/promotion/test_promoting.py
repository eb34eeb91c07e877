"""The gate at work: a real completion is decided by the rules and policies that are in force at that moment."""

from typing import Any

import pyarrow as pa
import pytest
from support.lakes import SCHEMA, SILVER, Lake
from support.lines import tasks_of

from tracelake.control.database.transactions import DatabaseRole
from tracelake.control.promotion import store
from tracelake.control.promotion.gate import JudgedDataset, judge_all
from tracelake.control.promotion.store import Decided
from tracelake_sdk.dags import Layer
from tracelake_sdk.errors import NotFound
from tracelake_sdk.rules import RuleMeasurement, RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, GateStage, GateVerdict, Rule
from tracelake_sdk.tasks import ClaimedTask, CompletionAnswer, CompletionResult, TaskState

from .candidates import candidate

DATASET = "sample_raw"


def found(rule: Rule, violations: int | None, *, error: str | None = None, samples: tuple[str, ...] = ()) -> RuleMeasurement:
    return RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=violations, examined=2, error=error, samples=list(samples))


def claim(lake: Lake) -> ClaimedTask:
    lake.services.tasks.pauses.resume(lake.admin, "sample", "load")  # a refusal pauses a source
    lake.run()
    return lake.take_one()


def tell(lake: Lake, task: ClaimedTask, *rules: RuleMeasurement, rows: tuple[tuple[Any, ...], ...] = ((7, "a"), (8, "b")), **facts: Any) -> CompletionAnswer:
    return lake.report(task, lake.measured([lake.stage(task, rows)] if rows else [], rules=rules, **facts))


def log_of(lake: Lake) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (lake.location() / "_delta_log").iterdir()}


def begin(lake: Lake) -> dict[str, bytes]:
    """A first version, so that there is a table to leave untouched."""
    assert tell(lake, claim(lake), rows=((1, "a"), (2, "b"))).result is CompletionResult.COMMITTING
    lake.move()
    return log_of(lake)


@pytest.mark.proves("G2.5")
def test_a_rule_that_fails_blocks_and_the_log_stays_as_it_is_byte_for_byte(lake: Lake):
    before = begin(lake)
    rule = lake.services.guard.add_rule(lake.admin, DATASET, "NOT_NULL", "value")
    task = claim(lake)
    answer = tell(lake, task, found(rule, 1, samples=("8",)))
    reason = "Blocked by 1 rule: value must not be null, and 1 of 2 rows has none."
    assert (answer.result, answer.task_state, answer.detail) == (CompletionResult.BLOCKED, TaskState.FAILED, reason)
    assert lake.move() == 0
    assert log_of(lake) == before
    assert lake.query("SELECT status::text, error_message FROM run_history ORDER BY seq DESC LIMIT 1") == [("BLOCKED", reason)]
    decision = lake.services.guard.decision(lake.admin, f"{task.payload.task_id}:1")
    assert (decision.allowed, decision.stage, decision.reason, decision.dataset_name) == (False, GateStage.QUALITY, reason, DATASET)
    assert [(result.rule_type, result.verdict, result.violations, result.samples) for result in decision.quality_results] == [
        ("SCOPE", GateVerdict.PASS, 0, []),
        ("NOT_NULL", GateVerdict.FAIL, 1, ["8"]),
    ]
    assert [(result.policy_type, result.verdict) for result in decision.policy_results] == [("SCHEMA", GateVerdict.PASS)]
    # Final for this candidate: only a new run is decided again.
    assert tell(lake, claim(lake), found(rule, 0)).result is CompletionResult.COMMITTING


@pytest.mark.proves("G2.5")
def test_a_warning_is_recorded_and_the_version_comes(lake: Lake):
    rule = lake.services.guard.add_rule(lake.admin, DATASET, "NOT_NULL", "value", severity=Severity.WARN)
    assert tell(lake, claim(lake), found(rule, 1)).result is CompletionResult.COMMITTING
    assert lake.move() == 1
    [decision] = lake.services.guard.promotions(lake.admin, dataset=DATASET).items
    assert decision.allowed
    assert decision.reason == "Allowed with 1 warning: value must not be null, and 1 of 2 rows has none."
    assert [result.verdict for result in decision.quality_results] == [GateVerdict.PASS, GateVerdict.WARN]


@pytest.mark.proves("G2.5")
@pytest.mark.parametrize("severity", list(Severity))
def test_an_evaluation_error_blocks_whatever_the_severity(lake: Lake, severity: Severity):
    before = begin(lake)
    rule = lake.services.guard.add_rule(lake.admin, DATASET, "NOT_NULL", "missing", severity=severity)
    answer = tell(lake, claim(lake), found(rule, None, error="The column missing does not exist."))
    assert answer.result is CompletionResult.BLOCKED
    assert log_of(lake) == before
    [decision] = lake.services.guard.promotions(lake.admin, allowed=False).items
    assert decision.quality_results[1].verdict is GateVerdict.ERROR
    assert decision.reason == "Blocked by 1 rule: missing must not be null, which could not be evaluated: the column missing does not exist."


@pytest.mark.proves("G2.3")
def test_a_rule_that_is_added_while_a_batch_runs_is_measured_and_not_blocked(lake: Lake):
    guard = lake.services.guard
    task = claim(lake)
    old = guard.add_rule(lake.admin, DATASET, "NOT_NULL", "id")
    changed = guard.add_rule(lake.admin, DATASET, "RANGE", "id >= 0")
    answer = tell(lake, task, found(old, 0), found(changed, 0))
    assert answer.result is CompletionResult.COMMITTING  # measured as they are

    task = claim(lake)
    revised = guard.revise_rule(lake.admin, changed.id, expression="id >= 5")
    new = guard.add_rule(lake.admin, DATASET, "UNIQUE", "id", scope=RuleScope.TABLE)
    counted = guard.add_rule(lake.admin, DATASET, "ROW_COUNT", ">= 1")
    rows = ((17, "a"), (18, "b"))
    answer = tell(lake, task, found(old, 0), found(changed, 0), rows=rows)
    assert answer.result is CompletionResult.MEASURE
    assert [(missing.index, [(rule.id, rule.revision) for rule in missing.rules]) for missing in answer.measure] == [
        (0, [(revised.id, 2), (new.id, 1)])  # a number of rows needs no measuring
    ]
    assert guard.promotions(lake.admin).items[0].run_id != f"{task.payload.task_id}:1"  # nothing was decided
    assert tell(lake, task, found(old, 0), found(revised, 0), found(new, 0), rows=rows).result is CompletionResult.COMMITTING
    [last, *_] = guard.promotions(lake.admin).items
    assert [(result.rule_id, result.revision) for result in last.quality_results] == [(None, None), (old.id, 1), (revised.id, 2), (new.id, 1), (counted.id, 1)]
    guard.deactivate_rule(lake.admin, new.id)
    assert tell(lake, claim(lake), found(old, 0), found(revised, 0), rows=((27, "a"),)).result is CompletionResult.COMMITTING


@pytest.mark.proves("G2.4")
def test_a_breaking_change_is_blocked_by_the_policy_unless_that_only_alerts(lake: Lake):
    before = begin(lake)
    fewer = pa.schema([SCHEMA.field("id")])

    def drop_a_column(key: int) -> CompletionAnswer:
        task = claim(lake)
        return lake.report(task, lake.measured([lake.stage(task, [(key,)], schema=fewer)], schema=fewer))

    answer = drop_a_column(8)
    assert answer.result is CompletionResult.BLOCKED
    assert answer.detail == "Blocked by 1 policy: SCHEMA allows no breaking change, and the column `value` was removed."
    assert log_of(lake) == before
    [decision] = lake.services.guard.promotions(lake.admin, allowed=False).items
    assert (decision.stage, [result.verdict for result in decision.policy_results]) == (GateStage.POLICIES, [GateVerdict.FAIL])
    [policy] = [one for one in lake.services.guard.list_policies(lake.admin).items if one.applies_to_layer == "bronze"]
    lake.services.guard.revise_policy(lake.admin, policy.id, enforcement=Enforcement.ALERT)
    assert drop_a_column(9).result is CompletionResult.COMMITTING
    assert lake.services.guard.promotions(lake.admin).items[0].policy_results[0].verdict is GateVerdict.WARN


def test_empty_batches_are_decided_explicitly(lake: Lake):
    guard = lake.services.guard
    guard.add_rule(lake.admin, DATASET, "NOT_NULL", "id")
    answer = tell(lake, claim(lake), rows=())
    assert answer.result is CompletionResult.UNCHANGED  # an append of nothing passes its rules and changes nothing
    guard.add_rule(lake.admin, DATASET, "ROW_COUNT", ">= 1")
    answer = tell(lake, claim(lake), rows=())
    assert answer.result is CompletionResult.BLOCKED
    assert answer.detail == "Blocked by 1 rule: the batch must have at least 1 row, and it has 0."


@pytest.mark.proves("G2.1")
def test_a_child_is_judged_by_the_decisions_that_promoted_what_it_read(lake: Lake):
    lake.deploy(SILVER.replace("{strategy}", "append").replace("{key}", "unique_key: [id]"), name="layers")
    lake.services.tasks.requests.run(lake.admin, "layers", "load", {}, idempotency_key=None)
    [task] = tasks_of(lake, "load")
    lake.write(task, [(1, "a")])
    lake.move()
    # The parent's newest run is blocked; the version that the child reads was allowed, and that counts.
    lake.services.tasks.requests.run(lake.admin, "layers", "load", {}, idempotency_key=None)
    [blocked] = tasks_of(lake, "load")
    assert lake.report(blocked, lake.measured([lake.stage(blocked, [(2, "b")])], outside_scope=1)).result is CompletionResult.BLOCKED
    [child] = tasks_of(lake, "clean")
    assert lake.write(child, [(1, "a")]).result is CompletionResult.COMMITTING
    decision = lake.services.guard.decision(lake.admin, f"{child.payload.task_id}:1")
    assert (decision.from_layer, decision.to_layer) == ("bronze", "silver")
    assert [pin["version"] for pin in decision.evidence["pins"]] == [1]


def test_decisions_are_listed_newest_first_and_are_this_orgs_alone(lake: Lake):
    for key in (1, 2, 3):
        tell(lake, claim(lake), rows=((key, "a"),))
    guard = lake.services.guard
    first = guard.promotions(lake.admin, dataset=DATASET, limit=2)
    assert first.next is not None
    rest = guard.promotions(lake.admin, dataset=DATASET, limit=2, before=int(first.next))
    assert (len(first.items), len(rest.items), rest.next) == (2, 1, None)
    times = [one.evaluated_at for one in first.items + rest.items]
    assert times == sorted(times, reverse=True)
    one = first.items[0]
    assert guard.decision(lake.admin, str(one.id)) == guard.decision(lake.admin, one.run_id) == one
    for unknown in ("nothing", "0" * 36, str(one.task_id)):
        with pytest.raises(NotFound):
            guard.decision(lake.admin, unknown)
    with pytest.raises(NotFound):
        guard.promotions(lake.admin, dataset="nowhere")


@pytest.mark.proves("G1.6")
def test_decisions_on_siblings_are_stored_with_all_their_results_and_read_back_as_they_were_judged(lake: Lake):
    guard = lake.services.guard
    rules = [guard.add_rule(lake.admin, DATASET, "NOT_NULL", "id"), guard.add_rule(lake.admin, DATASET, "ENUM", "value in ('it''s', '{\"odd\"}')")]
    [(dataset, dataset_version)] = lake.query("SELECT dataset_id, id FROM dataset_version")
    org, task = lake.admin.org_id, claim(lake).payload.task_id
    with lake.services.database.transaction("test", role=DatabaseRole.DECIDE) as tx:
        defined = store.rules_of(tx, [dataset])[dataset]
        policies = tuple(row.judged() for row in store.send_policies_of(tx, org=org, layers=[Layer.BRONZE]).result()[Layer.BRONZE])
        measured = [found(rules[0], 0), found(rules[1], 2, samples=("a,\\\"{}", "ü"))]
        one = candidate(Layer.BRONZE, dataset=JudgedDataset(dataset, DATASET, Layer.BRONZE), policies=policies, rules=tuple(row.judged([]) for row in defined), rows=0)
        other = candidate(Layer.BRONZE, output_index=1, policies=policies, rules=tuple(row.judged(measured) for row in defined))
        decisions = judge_all([one, other])
        new = [
            Decided(org, dataset, dataset_version, f"{task}:1:{index}", task, 1, decision, {"place": 1, "pins": []}) for index, decision in enumerate(decisions)
        ]
        store.decide(tx, new, now=lake.one("SELECT now()"))
        store.decide(tx, [], now=lake.one("SELECT now()"))
    for given in new:
        read = guard.decision(lake.admin, str(given.id))
        assert (read.allowed, read.stage, read.reason, read.evidence) == (False, given.decision.stage, given.decision.reason, given.evidence)
        assert tuple(read.policy_results) == given.decision.policy_results
        assert tuple(read.quality_results) == given.decision.quality_results
    assert decisions[0].reason.startswith("Blocked: output 1 (orders) of the same task is blocked by 1 rule: value must be one of")
