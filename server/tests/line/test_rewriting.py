"""Rewrites that somebody asks for: they make rows again, whatever the versions of the inputs say."""

import pytest
from support.controls import succeeded
from support.lakes import BRONZE, Lake
from support.lines import PARTITIONED, REPLACING, load, load_parts, part, rewrite, tasks_of, versions_of, wanted_scopes

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import JobNotRunnable
from tracelake_sdk.tasks.events import EventDraft, EventKind

NUMBERS = """  - name: numbers
    activation: source
    source: {{kind: manual}}
    runtime: dispatcher
    operator: emit
    config: {{cursor: integer}}
    outputs: [{{layer: bronze, description: Numbers}}]
  - name: made
    activation: reactive
    inputs: [{{from: {{job: numbers, output: 0}}}}, {{from: {{job: load, output: 0}}, trigger: false}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM input_1}}
    outputs: [{{layer: silver, description: Rows of each number, partition_by: {{column: id, cursor: integer}}}}]
    update_strategy: replace
publish:"""


def tell(lake: Lake, *, rewrite: bool) -> None:
    request = lake.run("numbers", cursors=[5], rewrite=rewrite)
    [task] = lake.claim()
    assert task.fence.task_id == request
    kind, revision = (EventKind.REWRITTEN, str(task.payload.trigger.id)) if rewrite else (EventKind.MATERIALIZED, "")
    lake.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=5), kind=kind, revision=revision)]))


@pytest.mark.proves("T8.1")
def test_a_rewrite_of_a_dataset_without_rows_makes_the_rows_of_its_consumers_again(lake: Lake):
    lake.deploy(BRONZE.replace("publish:", NUMBERS))
    load(lake, 1)
    for version in (1, 2):
        tell(lake, rewrite=version == 2)
        [task] = tasks_of(lake, "made")
        assert rewrite(lake, task, {CursorScope(value=5): [(5, "a")]}).result == "committing"
        lake.move()
        assert versions_of(lake, "made") == list(range(1, version + 1))
    # The same number again, not rewritten: what it would make is there already.
    tell(lake, rewrite=False)
    assert tasks_of(lake, "made") == []
    assert versions_of(lake, "made") == [1, 2]


def test_a_replacing_job_rebuilds_its_whole_table_on_request(lake: Lake):
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")], part("b"): [(2, "b")]})
    for task in tasks_of(lake, "clean"):
        if not task.payload.outputs[0].staged.everything:
            [scope] = wanted_scopes(task)
            rewrite(lake, task, {scope: [(1, scope.key)]})
        else:
            lake.services.tasks.cancels.cancel(lake.admin, task.fence.task_id)
    lake.move()
    lake.run("clean", rewrite=True)
    [task] = tasks_of(lake, "clean")
    assert task.payload.outputs[0].staged.everything
    assert sorted(scope.key for scope in wanted_scopes(task)) == ["a", "b"]
    assert [given.pinned.version for given in task.payload.inputs] == [1, 1]
    assert rewrite(lake, task, {part("a"): [(7, "a")], part("b"): [(8, "b")]}).result == "committing"
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(7, "a"), (8, "b")]
    assert lake.query("SELECT kind::text FROM dataset_event WHERE producer_task_id = %s", task.fence.task_id) == [("rewritten",)] * 2


def test_what_cannot_be_rewritten_is_refused_with_what_to_do(lake: Lake):
    lake.deploy(REPLACING)
    with pytest.raises(JobNotRunnable, match=r"sample/load does not replace its table .* run it without --rewrite"):
        lake.run("load", rewrite=True)
    with pytest.raises(JobNotRunnable, match=r"sample/clean is started by the events of its inputs; .* add --rewrite"):
        lake.run("clean")
