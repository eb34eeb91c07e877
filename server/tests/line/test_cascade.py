"""The cascade: a rewrite tells every consumer once, level by level, and ends where nothing changes any more."""

import pytest
from support.controls import EMIT, fresh_claim_id
from support.lakes import BRONZE, Lake
from support.lines import (
    APPENDING,
    PARTITIONED,
    RANGED,
    REPLACING,
    generation_of,
    load,
    load_parts,
    move_line,
    part,
    rewrite,
    tasks_of,
    versions_of,
    waiting,
    wanted_scopes,
)
from support.sizes import size

from tracelake_sdk.datasets.scopes import CursorScope, RangeScope
from tracelake_sdk.tasks import ClaimedTask
from tracelake_sdk.tasks.events import EventKind

REPLACED_SOURCE = BRONZE.replace("update_strategy: append\n    unique_key: [id]", "update_strategy: replace")
SQL = """  - name: {name}
    activation: reactive
    inputs: [{inputs}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{{{query: SELECT 1}}}}
    outputs: [{{{{layer: silver, description: Rows}}}}]
    update_strategy: replace
"""


def sql_job(name: str, *reads: str) -> str:
    return SQL.format(name=name, inputs=", ".join(f"{{{{from: {{{{job: {job}, output: 0}}}}}}}}" for job in reads))


def diamonds(number: int) -> str:
    """load → (left, right) → join → (left, right) → join …"""
    jobs, top = "", "load"
    for at in range(number):
        jobs += sql_job(f"left_{at}", top) + sql_job(f"right_{at}", top) + sql_job(f"join_{at}", f"left_{at}", f"right_{at}")
        top = f"join_{at}"
    return REPLACED_SOURCE.replace("publish:", jobs + "publish:")


def work(lake: Lake, rows: list[tuple[int, str]], *, room: int = 1) -> int:
    """A worker that takes what there is until there is nothing; how often it wrote."""
    written = 0
    while claimed := lake.take(room):
        for task in claimed:
            assert lake.write(task, rows).result in ("committing", "superseded")
            written += 1
        lake.move()
    return written


@pytest.mark.proves("T8.1")
@pytest.mark.parametrize("room", [1, 4])
def test_a_chain_of_diamonds_makes_four_tasks_a_diamond_and_not_four_times_as_many_a_level(lake: Lake, room: int):
    number = size(4, 14)
    lake.deploy(diamonds(number))
    load(lake, 1)
    work(lake, [(1, "a")], room=room)
    tasks = lake.one("SELECT count(*) FROM task WHERE trigger_kind = 'event'")
    assert tasks == 4 * number  # instead of 2 + 2·2 + … : 65,532 for 14
    assert versions_of(lake, f"join_{number - 1}") == [1]
    # And once more, now that everything is there: each level is rewritten once.
    load(lake, 2)
    work(lake, [(2, "a")], room=room)
    assert lake.one("SELECT count(*) FROM task WHERE trigger_kind = 'event'") == 8 * number
    assert versions_of(lake, f"join_{number - 1}") == [1, 2]
    assert lake.query("SELECT DISTINCT state::text FROM task") == [("completed",)]
    assert lake.query("SELECT kind::text, count(*) FROM dataset_event GROUP BY 1 ORDER BY 1") == [("materialized", 3 * number + 1), ("rewritten", 3 * number + 1)]


@pytest.mark.proves("T8.1")
def test_an_existing_result_ends_unchanged_without_decision_version_or_event(lake: Lake):
    lake.deploy(REPLACING)
    load(lake, 1)
    load(lake, 2)
    one = lake.take(1)[0]
    assert lake.write(one, [(1, "a")]).result == "committing"
    lake.move()
    assert lake.take(1) == []  # the second one was claimed and has ended
    [(second,)] = lake.query("SELECT id FROM task WHERE generation_id = %s AND id <> %s", generation_of(lake, "clean"), one.fence.task_id)
    assert lake.query("SELECT state::text, attempt FROM task WHERE id = %s", second) == [("completed", 1)]
    assert lake.query("SELECT status::text, error_message LIKE 'Unchanged%%' FROM run_history WHERE task_id = %s", second) == [("SUCCESS", True)]
    assert lake.query("SELECT outcome::text, ended_at IS NOT NULL FROM task_attempt WHERE task_id = %s", second) == [("succeeded", True)]
    for table, column in (("promotion_status", "task_id"), ("change", "task_id"), ("materialization", "task_id"), ("dataset_event", "producer_task_id")):
        assert lake.query(f"SELECT count(*) FROM {table} WHERE {column} = %s", second) == [(0,)], table
    assert versions_of(lake, "clean") == [1]


def test_unchanged_tasks_do_not_use_up_a_claim(lake: Lake):
    lake.deploy(REPLACING)
    for number in range(4):
        load(lake, number)
    one = lake.take(1)[0]
    lake.write(one, [(1, "a")])
    lake.deploy(REPLACING, name="other")
    lake.run("load", dag="other")
    # Three tasks are unchanged; the one behind them is handed out by the same claim.
    [task] = lake.take(1)
    assert task.payload.dag.name == "other"
    assert lake.query("SELECT count(*) FROM task WHERE generation_id = %s AND state = 'completed'", generation_of(lake, "clean")) == [(3,)]


def test_a_source_and_a_request_always_run(lake: Lake):
    lake.deploy(REPLACED_SOURCE)
    for version in (1, 2):
        load(lake, 1)
        assert versions_of(lake, "load") == list(range(1, version + 1))


@pytest.mark.proves("T8.1")
def test_a_rewrite_is_one_event_and_one_task_for_each_subscriber(lake: Lake):
    jobs = sql_job("one", "load") + sql_job("two", "load")
    lake.deploy(REPLACED_SOURCE.replace("publish:", jobs + "publish:"))
    load(lake, 1)
    load(lake, 2)
    events = lake.query("SELECT id, kind::text, revision FROM dataset_event ORDER BY id")
    assert [kind for _, kind, _ in events] == ["materialized", "rewritten"]
    assert events[0][2] == ""
    # Named after what was behind it, so that a retry repeats it.
    assert events[1][2] == str(lake.one("SELECT trigger_id FROM task WHERE trigger_kind = 'request' ORDER BY id DESC LIMIT 1"))
    for event, _, _ in events:
        assert lake.query("SELECT count(*), count(DISTINCT generation_id) FROM task WHERE trigger_id = %s", event) == [(2, 2)]
        assert lake.query("SELECT outcome::text, count(*) FROM event_ledger WHERE event_id = %s GROUP BY 1", event) == [("task", 2)]
    kinds = [task.payload.trigger.event_kind for task in lake.take() if task.payload.job.name == "one"]
    assert kinds == [EventKind.MATERIALIZED, EventKind.REWRITTEN]


def test_an_append_emits_what_it_added_and_rewrites_nothing(lake: Lake):
    lake.deploy(BRONZE)
    load(lake, 1)
    load(lake, 2)
    assert lake.query("SELECT kind::text, scope->>'kind', payload FROM dataset_event ORDER BY id") == [
        ("materialized", "full", {"version": 1}), ("materialized", "full", {"version": 2})
    ]


@pytest.mark.proves("T8.2")
def test_an_append_that_adds_no_row_ends_unchanged_and_still_moves_its_state(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    lake.run()
    [task] = tasks_of(lake, "load")
    answer = lake.report(task, lake.measured([]), state={"looked": True})
    assert (answer.result, answer.task_state) == ("unchanged", "completed")
    assert lake.query("SELECT revision, value FROM operator_state") == [(2, {"looked": True})]
    assert move_line(lake, "load") == 0
    assert versions_of(lake, "load") == [1]
    assert lake.query("SELECT count(*) FROM promotion_status WHERE task_id = %s", task.fence.task_id) == [(0,)]
    assert lake.query("SELECT status::text FROM run_history WHERE task_id = %s", task.fence.task_id) == [("SUCCESS",)]
    assert lake.query("SELECT count(*) FROM dataset_event") == [(1,)]


def test_a_state_that_moved_meanwhile_supersedes(lake: Lake):
    lake.deploy(BRONZE)
    load(lake, 1)
    lake.run()
    [task] = lake.take()
    lake.query("UPDATE operator_state SET revision = revision + 1, value = '{\"moved\": true}'")
    answer = lake.write(task, [(2, "a")], state={"mine": True})
    assert (answer.result, answer.task_state) == ("superseded", "queued")
    assert lake.query("SELECT value FROM operator_state") == [({"moved": True},)]
    assert move_line(lake, "load") == 0
    [again] = lake.take()
    assert again.payload.state is not None and again.payload.state.value == {"moved": True}
    assert lake.write(again, [(2, "a")], state={"mine": True}).result == "committing"


# Which scopes

def scopes_told(lake: Lake, job: str) -> list[dict[str, object]]:
    return [
        scope
        for (scope,) in lake.query(
            "SELECT event.scope FROM dataset_event AS event JOIN dataset ON dataset.id = dataset_id JOIN job_key ON job_key.id = job_key_id"
            " WHERE job_key.name = %s ORDER BY event.id",
            job,
        )
    ]


def test_per_update_writes_and_emits_the_scope_of_the_event(lake: Lake):
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")], part("b"): [(2, "b")]})
    for task in tasks_of(lake, "clean"):
        if not task.payload.outputs[0].staged.everything:
            [scope] = wanted_scopes(task)
            assert scope == task.payload.trigger.scope
            assert task.payload.inputs[0].pinned.scopes == [scope]
            assert [file.scope for file in task.payload.inputs[0].pinned.files] == [scope]
            assert task.payload.inputs[1].pinned.scopes is None
            rewrite(lake, task, {scope: [(1, scope.key)]})
    lake.move()
    assert sorted(str(scope["key"]) for scope in scopes_told(lake, "clean")) == ["a", "b"]


def test_per_partition_writes_the_spans_that_the_event_touches(lake: Lake):
    lake.deploy(RANGED)
    load_parts(lake, {RangeScope(start=8, end=31): [(8, "x")]})
    [task] = tasks_of(lake, "clean")
    spans = [RangeScope(start=start, end=start + 10) for start in (0, 10, 20, 30)]
    assert wanted_scopes(task) == spans
    assert rewrite(lake, task, {spans[0]: [(8, "x")], spans[1]: [], spans[2]: [], spans[3]: []}).result == "committing"
    lake.move()
    assert [scope["start"] for scope in scopes_told(lake, "clean")] == [0, 10, 20, 30]
    assert lake.query("SELECT kind::text FROM change_scope JOIN dataset_version AS v ON v.id = dataset_version_id WHERE v.generation_id = %s",
                      generation_of(lake, "clean")) == [("materialized",)] * 4
    load_parts(lake, {CursorScope(value=25): [(25, "x")]})
    [task] = tasks_of(lake, "clean")
    assert wanted_scopes(task) == [spans[2]]
    rewrite(lake, task, {spans[2]: [(25, "x")]})
    lake.move()
    assert scopes_told(lake, "clean")[-1] == {"kind": "range", "start": 20, "end": 30}
    assert lake.query("SELECT kind::text FROM dataset_event ORDER BY id DESC LIMIT 1") == [("rewritten",)]


def test_a_lookup_table_asks_for_every_current_scope_as_it_is(lake: Lake):
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")], part("b"): [(2, "b")]})
    for task in tasks_of(lake, "clean"):
        if not task.payload.outputs[0].staged.everything:
            [scope] = wanted_scopes(task)
            rewrite(lake, task, {scope: [(1, scope.key)]})
    lake.move()
    load(lake, 2, job="rates")
    task = next(task for task in tasks_of(lake, "clean") if task.payload.outputs[0].staged.everything)
    assert wanted_scopes(task) == [part("a"), part("b")] or wanted_scopes(task) == [part("b"), part("a")]
    # A scope that gets no row is empty and stays a scope; a new one is welcome.
    assert rewrite(lake, task, {part("a"): [(5, "a")], part("c"): [(6, "c")]}).result == "committing"
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(5, "a"), (6, "c")]
    assert lake.query("SELECT scope->>'key' FROM scope_state JOIN dataset_version AS v ON v.id = dataset_version_id WHERE v.generation_id = %s ORDER BY 1",
                      generation_of(lake, "clean")) == [("a",), ("b",), ("c",)]
    emitted = lake.query("SELECT scope->>'key', kind::text FROM dataset_event WHERE producer_task_id = %s ORDER BY 1", task.fence.task_id)
    assert emitted == [("a", "rewritten"), ("b", "rewritten"), ("c", "materialized")]


def test_everything_of_a_table_that_is_cut_and_has_no_row_is_a_version_without_scopes(lake: Lake):
    """No event is emitted, and readers find the table, empty and with its columns."""
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")]})
    task = next(task for task in tasks_of(lake, "clean") if task.payload.outputs[0].staged.everything)
    assert lake.report(task, lake.measured([], scopes=[])).result == "committing"
    assert lake.move() == 1
    assert versions_of(lake, "clean") == [1]
    assert lake.rows(lake.location_of("clean")) == []
    assert scopes_told(lake, "clean") == []
    assert lake.query("SELECT state::text FROM task WHERE id = %s", task.fence.task_id) == [("completed",)]


def test_appends_of_overlapping_spans_become_one_scope(lake: Lake):
    lake.deploy(RANGED)
    load_parts(lake, {RangeScope(start=0, end=10): [(1, "x")], RangeScope(start=5, end=15): [(7, "x")], RangeScope(start=20, end=30): [(20, "x")]})
    assert len(scopes_told(lake, "load")) == 3
    load_parts(lake, {RangeScope(start=12, end=21): [(13, "x")], CursorScope(value=40): [(40, "x")]})
    assert lake.query("SELECT scope FROM scope_state JOIN dataset_version AS v ON v.id = dataset_version_id WHERE v.generation_id = %s ORDER BY span",
                      generation_of(lake, "load")) == [({"kind": "range", "start": 0, "end": 30},), ({"kind": "cursor", "value": 40},)]
    assert [row[0] for row in lake.rows(lake.location())] == [1, 7, 13, 20, 40]


# Inputs that do not trigger, or are not there yet

QUIET_INPUT = PARTITIONED.replace("{{from: {{job: rates, output: 0}}}}", "{{from: {{job: rates, output: 0}}, trigger: false}}")


def test_an_input_that_does_not_trigger_is_pinned_and_makes_no_task(lake: Lake):
    lake.deploy(QUIET_INPUT)
    load(lake, 1, job="rates")
    load(lake, 2, job="rates")
    assert lake.take() == []
    load_parts(lake, {part("a"): [(1, "a")]})
    [task] = tasks_of(lake, "clean")
    assert [(given.trigger, given.pinned.version) for given in task.payload.inputs] == [(True, 1), (False, 2)]
    assert rewrite(lake, task, {part("a"): [(1, "a")]}).result == "committing"
    lake.move()
    assert lake.query("SELECT index, version FROM materialization_input ORDER BY index") == [(0, 1), (1, 2)]


def test_a_task_waits_for_the_first_version_of_every_input(lake: Lake):
    lake.deploy(QUIET_INPUT)
    load_parts(lake, {part("a"): [(1, "a")]})
    assert lake.take() == []
    assert waiting(lake, "clean") == ["input"]
    [status] = lake.services.tasks.views.status(lake.admin, "sample")
    assert next(job.tasks.waiting for job in status.jobs if job.name == "clean") == {"input": 1}
    lake.services.tasks.reaper.run_once()
    assert waiting(lake, "clean") == ["input"]
    load(lake, 1, job="rates")  # recording it gives the task its place
    assert waiting(lake, "clean") == [None]
    [task] = tasks_of(lake, "clean")
    assert [given.pinned.version for given in task.payload.inputs] == [1, 1]


def test_a_dataset_without_files_is_nothing_to_wait_for(lake: Lake):
    """A job that hears of ranges only has no table to pin there."""
    lake.deploy(EMIT, name="emitting")
    lake.deploy(QUIET_INPUT)
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")]})
    assert len(tasks_of(lake, "clean")) == 1


def test_a_claim_that_is_repeated_gets_the_same_base_and_pins(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    claim = fresh_claim_id()
    [first] = lake.take(claim_id=claim)
    load(lake, 2)
    other = next(task for task in lake.take() if task.fence.task_id != first.fence.task_id)
    lake.write(other, [(5, "a")])
    lake.move()
    [again] = lake.take(claim_id=claim)
    assert again.fence == first.fence
    assert (again.payload.base, again.payload.inputs) == (first.payload.base, first.payload.inputs)
    assert staged_of(again) == staged_of(first)


def staged_of(task: ClaimedTask) -> object:
    staged = task.payload.outputs[0].staged
    assert staged is not None
    return staged.model_copy(update={"table_schema": None})
