"""The gate where it stands: in the transaction that takes a place, against the table as of that place."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from support.lakes import BRONZE, SCHEMA, Lake
from support.lines import APPENDING, PARTITIONED, REPLACING, load, load_parts, part, rewrite, rewritten, tasks_of, versions_of

from tracelake_sdk.datasets.scopes import FullScope
from tracelake_sdk.rules import RuleMeasurement, RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, Rule
from tracelake_sdk.tasks import ClaimedTask, Completion, CompletionResult, Outcome, TaskState
from tracelake_sdk.tasks.events import EventDraft


def rule(lake: Lake, type: str, expression: str, *, dataset: str = "sample_raw", **parts: Any) -> Rule:
    return lake.services.guard.add_rule(lake.admin, dataset, type, expression, **parts)


def measured(rule: Rule | Any, violations: int | None = 0, **parts: Any) -> RuleMeasurement:
    return RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=violations, examined=1, **parts)


def log_of(lake: Lake, job: str = "load") -> dict[str, tuple[bytes, int]]:
    folder = lake.location_of(job) / "_delta_log"
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} if folder.exists() else {}


def clean_dataset(lake: Lake) -> str:
    return str(lake.one("SELECT dataset.id FROM dataset JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'clean'"))


def verdicts(lake: Lake, task: ClaimedTask) -> list[tuple[str, str]]:
    return lake.query(
        "SELECT result.rule_type, result.verdict::text FROM quality_result AS result JOIN promotion_status AS decision ON decision.id = promotion_id"
        " WHERE decision.task_id = %s ORDER BY result.number",
        task.fence.task_id,
    )


@pytest.mark.proves("G2.3")
def test_a_rule_that_came_while_a_batch_was_running_is_measured_and_not_blocked(lake: Lake):
    lake.deploy(BRONZE)
    earlier = rule(lake, "NOT_NULL", "id")
    lake.run()
    task = lake.take_one()
    assert [given.id for given in task.payload.outputs[0].staged.rules] == [earlier.id]
    later = rule(lake, "NOT_NULL", "value")
    files = [lake.stage(task, [(1, "a")])]
    answer = lake.report(task, lake.measured(files, rules=[measured(earlier)]))
    assert (answer.result, answer.task_state) == (CompletionResult.MEASURE, None)
    assert [(asked.index, [(given.id, given.revision) for given in asked.rules]) for asked in answer.measure] == [(0, [(later.id, 1)])]
    assert lake.query("SELECT count(*) FROM promotion_status") == [(0,)]
    assert lake.report(task, lake.measured(files, rules=[measured(earlier), measured(later)])).result == "committing"
    assert verdicts(lake, task) == [("SCOPE", "pass"), ("NOT_NULL", "pass"), ("NOT_NULL", "pass")]


def test_a_revision_that_came_while_a_batch_was_running_is_measured_too(lake: Lake):
    lake.deploy(BRONZE)
    first = rule(lake, "RANGE", "id in [0, 10]")
    lake.run()
    task = lake.take_one()
    second = lake.services.guard.revise_rule(lake.admin, first.id, expression="id in [0, 5]")
    files = [lake.stage(task, [(7, "a")])]
    answer = lake.report(task, lake.measured(files, rules=[measured(first)]))
    assert [given.revision for given in answer.measure[0].rules] == [2]
    assert lake.report(task, lake.measured(files, rules=[measured(second, 1)])).result is CompletionResult.BLOCKED


def test_a_rule_that_was_switched_off_meanwhile_is_not_judged(lake: Lake):
    lake.deploy(BRONZE)
    off = rule(lake, "NOT_NULL", "value")
    lake.run()
    task = lake.take_one()
    lake.services.guard.deactivate_rule(lake.admin, off.id)
    assert lake.report(task, lake.measured([lake.stage(task, [(1, None)])], rules=[measured(off, 1)])).result == "committing"


def test_a_rule_about_the_table_finds_all_that_stays_of_it_also_when_it_came_late(lake: Lake):
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")], part("b"): [(2, "b")]})
    for task in tasks_of(lake, "clean"):
        scopes = task.payload.outputs[0].staged.scopes
        if scopes:
            rewrite(lake, task, {scopes[0]: [(1, scopes[0].key)]})
    lake.move()
    load_parts(lake, {part("a"): [(3, "a")]})
    task = next(task for task in tasks_of(lake, "clean") if not task.payload.outputs[0].staged.everything)
    assert task.payload.outputs[0].staged.rules == []
    assert [file.scope for file in task.payload.outputs[0].staged.current] == [part("b")]
    late = rule(lake, "UNIQUE", "id", dataset=clean_dataset(lake), scope=RuleScope.TABLE)
    answer = rewrite(lake, task, {part("a"): [(1, "a")]})
    assert [given.id for given in answer.measure[0].rules] == [late.id]


@pytest.mark.proves("G2.5")
@pytest.mark.parametrize(
    ("severity", "violations", "error", "result", "verdict"),
    [
        (Severity.FAIL, 1, None, CompletionResult.BLOCKED, "fail"),
        (Severity.WARN, 1, None, CompletionResult.COMMITTING, "warn"),
        (Severity.FAIL, None, "The column is gone.", CompletionResult.BLOCKED, "error"),
        (Severity.WARN, None, "The column is gone.", CompletionResult.BLOCKED, "error"),
        (Severity.FAIL, 0, None, CompletionResult.COMMITTING, "pass"),
    ],
)
def test_a_broken_rule_blocks_or_is_recorded_by_its_severity(
    lake: Lake, severity: Severity, violations: int | None, error: str | None, result: CompletionResult, verdict: str
):
    lake.deploy(BRONZE)
    load(lake, 1)
    before = log_of(lake)
    given = rule(lake, "NOT_NULL", "value", severity=severity)
    lake.run()
    task = lake.take_one()
    answer = lake.report(task, lake.measured([lake.stage(task, [(2, None)])], rules=[measured(given, violations, error=error)]))
    assert answer.result is result
    assert verdicts(lake, task) == [("SCOPE", "pass"), ("NOT_NULL", verdict)]
    moved = lake.move()
    if result is CompletionResult.BLOCKED:
        assert moved == 0
        assert log_of(lake) == before
        assert answer.task_state is TaskState.FAILED and answer.code == "blocked"
        assert lake.query("SELECT status::text, error_message FROM run_history WHERE task_id = %s", task.fence.task_id) == [("BLOCKED", answer.detail)]
        assert lake.query("SELECT reason FROM promotion_status WHERE task_id = %s AND NOT allowed", task.fence.task_id) == [(answer.detail,)]
        assert lake.rows(lake.location()) == [(1, "a")]
    else:
        assert moved == 1
        assert lake.rows(lake.location()) == [(1, "a"), (2, None)]


def test_a_blocked_task_of_an_ordered_job_pauses_it_and_its_state_stays(lake: Lake):
    lake.deploy(BRONZE)
    load(lake, 1)
    lake.run()
    task = lake.take_one()
    lake.run()
    blocked = lake.report(task, lake.measured([lake.stage(task, [(2, "b")])], outside_scope=1), state={"rows": 99})
    assert blocked.result is CompletionResult.BLOCKED
    assert lake.query("SELECT value FROM operator_state") == [({"rows": 1},)]
    assert lake.take() == []
    assert lake.one("SELECT pause_reason FROM job_key WHERE name = 'load'").startswith("Task ")
    lake.services.tasks.pauses.resume(lake.admin, "sample", "load")
    assert len(lake.take()) == 1


# Rules about the table, and two batches at once

def two_tasks(lake: Lake) -> tuple[ClaimedTask, ClaimedTask]:
    load(lake, 10_001)
    load(lake, 10_002)
    one, two = tasks_of(lake, "clean")
    return one, two


@pytest.mark.proves("G2.3")
def test_a_number_of_rows_is_never_exceeded_by_two_batches_at_once(lake: Lake):
    lake.deploy(APPENDING)
    rule(lake, "ROW_COUNT", "<= 3", dataset=clean_dataset(lake), scope=RuleScope.TABLE)
    one, two = two_tasks(lake)
    assert lake.write(one, [(1, "a"), (2, "a")]).result == "committing"
    answer = lake.write(two, [(11, "a"), (12, "a")])
    assert answer.result is CompletionResult.BLOCKED
    lake.move()
    assert len(lake.rows(lake.location_of("clean"))) == 2


def test_a_number_of_rows_is_never_exceeded_by_two_reports_of_one_call(lake: Lake):
    lake.deploy(APPENDING)
    rule(lake, "ROW_COUNT", "<= 3", dataset=clean_dataset(lake), scope=RuleScope.TABLE)
    reports = [
        Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=task.payload.base, outputs=[lake.measured([lake.stage(task, [(at, "a"), (at + 1, "a")])])])
        for at, task in zip((1, 11), two_tasks(lake), strict=True)
    ]
    assert [answer.result for answer in lake.complete(*reports)] == ["committing", "blocked"]
    lake.move()
    assert len(lake.rows(lake.location_of("clean"))) == 2


@pytest.mark.proves("G2.3")
def test_a_key_of_the_table_is_measured_against_the_files_since_by_two_batches_at_once(lake: Lake):
    """Also where the batches' own keys lie apart: the rule is about another column."""
    lake.deploy(APPENDING)
    unique = rule(lake, "UNIQUE", "value", dataset=clean_dataset(lake), scope=RuleScope.TABLE)
    one, two = two_tasks(lake)
    assert lake.report(one, lake.measured([lake.stage(one, [(1, "same")])], rules=[measured(unique)])).result == "committing"
    files = [lake.stage(two, [(11, "same")])]
    answer = lake.report(two, lake.measured(files, rules=[measured(unique)]))
    assert answer.result is CompletionResult.BASE_MOVED
    assert [file.path.split("/")[0] for file in answer.moved[0].added] == [f"{one.fence.task_id}-1"]
    blocked = lake.report(two, lake.measured(files, rules=[measured(unique, 1)]), base=answer.base)
    assert blocked.result is CompletionResult.BLOCKED
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(1, "same")]


# Layers, registry, schema

def as_owner(lake: Lake, *statements: tuple[str, Sequence[Any]]) -> None:
    """Around every check: as somebody who writes into the database."""
    with psycopg.connect(lake.database.superuser_url) as connection:
        for guarded in ("dataset", "dataset_revision", "job"):
            connection.execute(f"ALTER TABLE {guarded} DISABLE TRIGGER USER")  # pyright: ignore[reportArgumentType]
        for statement, values in statements:
            connection.execute(statement, values)  # pyright: ignore[reportArgumentType]


@pytest.mark.proves("G1.4")
@pytest.mark.proves("G2.2")
@pytest.mark.parametrize(
    ("layer", "says"),
    [("gold", "a gold dataset does not read bronze"), ("bronze", None)],
)
def test_a_layer_that_is_skipped_is_refused_at_the_gate_too(lake: Lake, layer: str, says: str | None):
    lake.deploy(REPLACING)
    as_owner(lake, ("UPDATE dataset SET layer = %s::layer FROM job_key WHERE job_key.id = job_key_id AND job_key.name = 'clean'", [layer]))
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    answer = lake.write(task, [(1, "a")])
    if says is None:
        assert answer.result == "committing"
        return
    assert answer.result is CompletionResult.BLOCKED
    assert answer.detail is not None and says in answer.detail and "a gold dataset has a silver parent" in answer.detail
    assert lake.query("SELECT stage::text FROM promotion_status WHERE task_id = %s", task.fence.task_id) == [("eligibility",)]
    assert lake.move() == 0
    assert not (lake.location_of("clean") / "_delta_log").exists()


@pytest.mark.proves("G2.2")
def test_a_source_cannot_write_gold_or_silver(lake: Lake):
    lake.deploy(BRONZE)
    for layer in ("gold", "silver"):
        as_owner(lake, ("UPDATE dataset SET layer = %s::layer", [layer]))
        lake.run()
        task = lake.take_one()
        assert lake.write(task, [(1, "a")]).result is CompletionResult.BLOCKED
        lake.services.tasks.pauses.resume(lake.admin, "sample", "load")
    assert lake.move() == 0


@pytest.mark.proves("G1.4")
def test_an_inactive_dataset_cannot_be_written(lake: Lake):
    lake.deploy(BRONZE)
    load(lake, 1)
    before = log_of(lake)
    as_owner(lake, ("INSERT INTO dataset_revision SELECT dataset_id, revision + 1, domain, owner, description, false, now(), 'test' FROM dataset_revision", []))
    lake.run()
    answer = lake.write(lake.take_one(), [(2, "b")])
    assert answer.result is CompletionResult.BLOCKED and "is not active" in (answer.detail or "")
    lake.move()
    assert log_of(lake) == before


def test_a_dataset_that_is_not_registered_cannot_be_written(lake: Lake):
    lake.deploy(BRONZE)
    lake.run()
    task = lake.take_one()
    as_owner(lake, ("DELETE FROM dataset_revision", []))
    answer = lake.write(task, [(2, "b")])
    assert answer.result is CompletionResult.BLOCKED and "is not a registered dataset" in (answer.detail or "")


WITH_MORE = SCHEMA.append(pa.field("more", pa.int32()))
WITHOUT = pa.schema([("id", pa.int64())])
RETYPED = pa.schema([("id", pa.int64()), ("value", pa.int64())])


def metadata_actions(lake: Lake, job: str = "load") -> list[int]:
    """The Delta versions that carry a schema."""
    entries = sorted(path for path in (lake.location_of(job) / "_delta_log").iterdir() if path.suffix == ".json")
    return [int(path.stem) for path in entries if b'"metaData"' in path.read_bytes()]


@pytest.mark.proves("G2.4")
def test_a_dropped_column_blocks_and_an_added_one_passes_and_is_reported_once(lake: Lake):
    lake.deploy(REPLACING)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    lake.write(task, [(1, "a")])
    lake.move()
    load(lake, 2)
    [task] = tasks_of(lake, "clean")
    answer = lake.write(task, [(1,)], schema=WITHOUT)
    assert answer.result is CompletionResult.BLOCKED and "The column `value` was removed" in (answer.detail or "").replace("the column", "The column")
    for number in (3, 4):
        load(lake, number)
        [task] = tasks_of(lake, "clean")
        assert lake.write(task, [(number, "a", 7)], schema=WITH_MORE).result == "committing"
        lake.move()
    assert metadata_actions(lake, "clean") == [0, 1]
    table = DeltaTable(str(lake.location_of("clean")))
    assert [field.name for field in table.schema().fields] == ["id", "value", "more"]
    assert table.to_pyarrow_table().to_pylist() == [{"id": 4, "value": "a", "more": 7}]
    assert [field.name for field in DeltaTable(str(lake.location_of("clean")), version=0).schema().fields] == ["id", "value"]


def test_a_dropped_column_passes_where_the_policy_only_alerts_and_the_table_keeps_it(lake: Lake):
    lake.deploy(REPLACING)
    [policy] = [policy for policy in lake.services.guard.list_policies(lake.admin).items if policy.applies_to_layer == "silver"]
    lake.services.guard.revise_policy(lake.admin, policy.id, enforcement=Enforcement.ALERT)
    for number, (schema, row) in enumerate([(SCHEMA, (1, "a")), (WITHOUT, (2,))]):
        load(lake, number)
        [task] = tasks_of(lake, "clean")
        assert lake.write(task, [row], schema=schema).result == "committing"
        lake.move()
    assert metadata_actions(lake, "clean") == [0]
    assert DeltaTable(str(lake.location_of("clean"))).to_pyarrow_table().to_pylist() == [{"id": 2, "value": None}]
    assert lake.query("SELECT verdict::text FROM policy_result JOIN promotion_status AS d ON d.id = promotion_id WHERE d.task_id = %s", task.fence.task_id) == [("warn",)]


def test_another_type_is_refused_with_a_sentence(lake: Lake):
    lake.deploy(BRONZE)
    load(lake, 1)
    before = log_of(lake)
    lake.run()
    answer = lake.write(lake.take_one(), [(2, 3)], schema=RETYPED)
    assert answer.result is CompletionResult.BLOCKED
    assert "`value` is string in the table and long in what was written" in (answer.detail or "")
    lake.move()
    assert log_of(lake) == before


def test_appends_with_an_older_and_a_newer_schema_in_one_move_make_two_versions(lake: Lake):
    lake.deploy(APPENDING)
    one, two = two_tasks(lake)
    assert lake.write(one, [(1, "a")]).result == "committing"
    assert lake.write(two, [(11, "a", 7)], schema=WITH_MORE).result == "committing"
    lake.move()
    assert versions_of(lake, "clean") == [1, 2]
    assert metadata_actions(lake, "clean") == [0, 1]
    # What was written with the older schema after that is of the newer one.
    load(lake, 10_003)
    [task] = tasks_of(lake, "clean")
    assert lake.write(task, [(21, "a")]).result == "blocked"  # a writer that drops a column says so; the default policy takes none


def test_a_state_of_an_operator_that_keeps_none_is_refused(lake: Lake):
    lake.deploy(REPLACING)
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    answer = lake.write(task, [(1, "a")], state={"a": 1})
    assert (answer.result, answer.code) == (CompletionResult.REFUSED, "invalid")
    assert lake.query("SELECT count(*) FROM promotion_status WHERE task_id = %s", task.fence.task_id) == [(0,)]
    assert lake.write(task, [(1, "a")]).result == "committing"


@pytest.mark.parametrize("wrong", ["outside", "unsafe", "twice", "file twice", "none", "events"])
def test_a_report_that_does_not_fit_its_attempt_is_refused_and_changes_nothing(lake: Lake, wrong: str):
    lake.deploy(BRONZE)
    lake.run()
    task = lake.take_one()
    file = lake.stage(task, [(1, "a")])
    good = lake.measured([file])
    bad = {
        "outside": [good.model_copy(update={"files": [file.model_copy(update={"path": f"{UUID(int=1)}-1/full/part.parquet"})]})],
        "unsafe": [good.model_copy(update={"files": [file.model_copy(update={"path": f"{task.fence.task_id}-1/../../x.parquet"})]})],
        "twice": [good, good],
        "file twice": [lake.measured([file, file])],
        "none": [],
        "events": [good],
    }[wrong]
    events = [EventDraft(output=0, scope=FullScope())] if wrong == "events" else []
    answer = lake.report(task, *bad, events=events)
    assert (answer.result, answer.code) == (CompletionResult.REFUSED, "invalid")
    assert lake.query("SELECT count(*) FROM promotion_status") == [(0,)]
    assert lake.report(task, good).result == "committing"


def test_one_refused_output_blocks_its_siblings(lake: Lake):
    """No operator has two outputs yet; the job is given a second one around every check."""
    lake.deploy(REPLACING)
    [(job, generation)] = lake.query(
        "SELECT job_key.id, generation.id FROM generation JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'clean'"
    )
    dataset, table = UUID(int=7), UUID(int=8)
    as_owner(
        lake,
        ("INSERT INTO dataset (id, org_id, job_key_id, output_index, layer, has_files) SELECT %s, org_id, %s, 1, 'silver', true FROM dag LIMIT 1", [dataset, job]),
        ("INSERT INTO dataset_revision (dataset_id, revision, domain, owner, description, active, actor) VALUES (%s, 1, 'd', 'o', 's', true, 'test')", [dataset]),
        ("INSERT INTO dataset_version (id, dataset_id, generation_id) VALUES (%s, %s, %s)", [table, dataset, generation]),
        ("UPDATE job SET spec = jsonb_set(spec, '{outputs,1}', spec->'outputs'->0) WHERE generation_id = %s", [generation]),
    )
    second = rule(lake, "NOT_NULL", "value", dataset=str(dataset))
    load(lake, 1)
    [task] = tasks_of(lake, "clean")
    assert len(task.payload.outputs) == 2
    outputs = [lake.measured([lake.stage(task, [(1, None)])]), both(lake, task, second, 1)]
    answer = lake.report(task, *outputs)
    assert answer.result is CompletionResult.BLOCKED
    assert lake.query("SELECT allowed, stage::text FROM promotion_status WHERE task_id = %s ORDER BY run_id", task.fence.task_id) == [(False, "execution"), (False, "quality")]
    assert lake.query("SELECT run_id, status::text FROM run_history WHERE task_id = %s ORDER BY run_id", task.fence.task_id) == [
        (f"{task.fence.task_id}:1:0", "BLOCKED"), (f"{task.fence.task_id}:1:1", "BLOCKED")
    ]
    assert lake.move() == 0

    load(lake, 2)
    [task] = tasks_of(lake, "clean")
    assert lake.report(task, lake.measured([lake.stage(task, [(1, "a")])]), both(lake, task, second, 0)).result == "committing"
    assert lake.move() == 1
    assert lake.query("SELECT dataset_id, version FROM data_version WHERE promoted_by LIKE %s ORDER BY dataset_id", f"{task.fence.task_id}%") == [
        (dataset, 1), (UUID(clean_first(lake)), 1)
    ]
    assert lake.query("SELECT count(*) FROM materialization WHERE task_id = %s", task.fence.task_id) == [(2,)]


def clean_first(lake: Lake) -> str:
    return str(lake.one("SELECT dataset.id FROM dataset JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'clean' AND output_index = 0"))


def both(lake: Lake, task: ClaimedTask, rule: Rule, violations: int) -> Any:
    """The second output of the same task."""
    first = task.payload.outputs[0]
    swapped = task.model_copy(update={"payload": task.payload.model_copy(update={"outputs": [task.payload.outputs[1], first]})})
    made = rewritten(lake, swapped, {}) if violations < 0 else lake.measured([lake.stage(swapped, [(1, None)])], rules=[measured(rule, violations)])
    return made.model_copy(update={"index": 1})


def known_of(task: ClaimedTask) -> list[tuple[UUID, int, int]]:
    staged = task.payload.outputs[0].staged
    assert staged is not None
    return [(state.rule_id, state.revision, state.violations) for state in staged.known]


@pytest.mark.proves("G2.3")
def test_a_claim_says_how_many_keys_the_table_repeats_as_of_its_base_and_nothing_older(lake: Lake):
    lake.deploy(BRONZE)
    unique = rule(lake, "UNIQUE", "value", scope=RuleScope.TABLE, severity=Severity.WARN)

    def run() -> ClaimedTask:
        lake.run()
        return lake.take_one()

    def write(task: ClaimedTask, id: int, *found: RuleMeasurement) -> None:
        assert lake.report(task, lake.measured([lake.stage(task, [(id, "a")])], rules=found), state={"at": id}).result == "committing"
        lake.move()

    task = run()
    assert known_of(task) == []
    write(task, 1, measured(unique, 0))
    task = run()
    assert known_of(task) == [(unique.id, 1, 0)]
    write(task, 2, measured(unique, 1))
    task = run()
    assert known_of(task) == [(unique.id, 1, 1)]
    lake.services.guard.deactivate_rule(lake.admin, unique.id)
    write(task, 3)
    again = lake.services.guard.revise_rule(lake.admin, unique.id)
    task = run()
    assert known_of(task) == [], "a change that was not measured by it came in between"
    write(task, 4, measured(again, 3))
    assert known_of(run()) == [(unique.id, again.revision, 3)]


@pytest.mark.proves("G2.3")
def test_a_moved_base_comes_with_what_is_known_of_the_table_now(lake: Lake):
    lake.deploy(APPENDING)
    unique = rule(lake, "UNIQUE", "value", dataset=clean_dataset(lake), scope=RuleScope.TABLE, severity=Severity.WARN)
    load(lake, 1)
    load(lake, 2)
    first, second = tasks_of(lake, "clean")
    assert lake.report(first, lake.measured([lake.stage(first, [(1, "a"), (2, "a")])], rules=[measured(unique, 1)])).result == "committing"
    answer = lake.report(second, lake.measured([lake.stage(second, [(3, "b")])], rules=[measured(unique, 0)]))
    assert answer.result is CompletionResult.BASE_MOVED
    assert [(state.rule_id, state.revision, state.violations) for state in answer.moved[0].known] == [(unique.id, 1, 1)]


@pytest.mark.proves("T8.2")
@pytest.mark.proves("G2.5")
def test_a_row_without_a_key_blocks_unless_the_job_calls_such_rows_distinct(lake: Lake):
    lake.deploy(BRONZE)
    lake.run()
    task = lake.take_one()
    files = [lake.stage(task, [(1, "a"), (2, "b")])]
    answer = lake.report(task, lake.measured(files, null_keys=1))
    assert answer.result is CompletionResult.BLOCKED
    assert answer.detail == (
        "Blocked: 1 of 2 rows has a null in the unique key (id) and cannot be deduplicated; fix the rows, or write `null_keys: distinct` in the job"
        " to append them every time."
    )
    assert verdicts(lake, task) == [("SCOPE", "pass"), ("KEY", "fail")]
    lake.services.deploys.deploy(lake.admin, BRONZE.format(name="other", max_attempts=3).replace("unique_key: [id]", "unique_key: [id]\n    null_keys: distinct"))
    lake.run(dag="other")
    task = lake.take_one()
    assert lake.report(task, lake.measured([lake.stage(task, [(1, "a"), (2, "b")])], null_keys=1)).result == "committing"
    assert verdicts(lake, task) == [("SCOPE", "pass")]
