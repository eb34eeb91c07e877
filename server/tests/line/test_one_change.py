"""One change on its way: staged, measured, decided, frozen, put, recorded; and refused."""

import pyarrow as pa
import pytest
from support.lakes import BRONZE, Lake

from tracelake.control.tasks import store as tasks
from tracelake_sdk.tasks import CompletionResult, TaskState


@pytest.mark.proves("G3.1")
def test_what_is_allowed_becomes_a_version_and_only_then(lake: Lake):
    lake.deploy(BRONZE)
    task_id = lake.run()
    task = lake.take_one()
    assert task.payload.base == 0
    answer = lake.write(task, [(1, "a"), (2, "b")])
    assert (answer.result, answer.task_state) == (CompletionResult.COMMITTING, TaskState.COMMITTING)
    assert lake.rows(lake.location()) == []  # decided, and still invisible
    assert lake.query("SELECT count(*) FROM data_version, run_history") == [(0,)]

    assert lake.move() == 1
    assert lake.rows(lake.location()) == [(1, "a"), (2, "b")]
    assert lake.query("SELECT version, row_count, promoted_by FROM data_version") == [(1, 2, f"{task_id}:1")]
    assert lake.query("SELECT run_id, status::text FROM run_history") == [(f"{task_id}:1", "SUCCESS")]
    assert lake.query("SELECT kind::text, scope->>'kind' FROM dataset_event") == [("materialized", "full")]
    assert lake.states() == [("load", "completed")]
    assert lake.query("SELECT body IS NULL, length(sha256) FROM delta_commit") == [(True, 32)]
    assert lake.move() == 0


@pytest.mark.proves("G2.5")
def test_what_is_refused_leaves_the_table_as_it_was(lake: Lake):
    lake.deploy(BRONZE)
    lake.run()
    lake.write(lake.take_one(), [(1, "a")])
    lake.move()
    before = {path.name: path.read_bytes() for path in (lake.location() / "_delta_log").iterdir()}

    lake.run()
    task = lake.take_one()
    answer = lake.report(task, lake.measured([lake.stage(task, [(2, "b")])], outside_scope=1))
    assert (answer.result, answer.task_state) == (CompletionResult.BLOCKED, TaskState.FAILED)
    assert answer.detail is not None and answer.detail.startswith("Blocked")
    assert lake.move() == 0
    assert {path.name: path.read_bytes() for path in (lake.location() / "_delta_log").iterdir()} == before
    assert lake.rows(lake.location()) == [(1, "a")]
    assert lake.query("SELECT allowed, stage::text FROM promotion_status ORDER BY seq") == [(True, "decision"), (False, "execution")]
    assert lake.query("SELECT status::text FROM run_history ORDER BY seq") == [("SUCCESS",), ("BLOCKED",)]


def test_a_replace_of_which_not_even_the_columns_are_known_makes_no_version(lake: Lake):
    lake.deploy(BRONZE.replace("update_strategy: append\n    unique_key: [id]", "update_strategy: replace"))
    lake.run()
    task = lake.take_one()
    answer = lake.report(task, lake.measured([], schema=pa.schema([])))
    assert (answer.result, answer.task_state) == (CompletionResult.UNCHANGED, TaskState.COMPLETED)
    assert lake.move() == 0
    assert lake.query("SELECT count(*) FROM data_version") == [(0,)]


@pytest.mark.proves("T1.5")
def test_metrics_count_what_is_being_committed(lake: Lake):
    lake.deploy(BRONZE)
    lake.run()
    assert lake.write(lake.take_one(), [(1, "a")]).result == "committing"
    with lake.control.database.transaction("test") as tx:
        assert [(count.job, count.name, count.number) for count in tasks.unfinished(tx)] == [("load", "committing", 1)]
    lake.move()
    with lake.control.database.transaction("test") as tx:
        assert tasks.unfinished(tx) == []
