"""Freshness is judged scope by scope: a table is not fresh because its newest scope is."""

import pytest
from support.lakes import Lake
from support.lines import PARTITIONED, RANGED, REPLACING, load, load_parts, part, rewrite, tasks_of, wanted_scopes

from tracelake_sdk.datasets import Reason
from tracelake_sdk.datasets.scopes import RangeScope

PUBLISHED = "publish:\n  clean_rows: {{job: clean, output_index: 0}}\n"
QUIET = PARTITIONED.replace("{{from: {{job: rates, output: 0}}}}", "{{from: {{job: rates, output: 0}}, trigger: false}}")


def published(definition: str) -> str:
    return definition.replace("publish:\n", PUBLISHED)


def reasons(lake: Lake) -> dict[str, list[Reason]]:
    found: dict[str, list[Reason]] = {}
    for reason in lake.services.explaining.explain(lake.admin, "clean_rows").reasons:
        found.setdefault(reason.code, []).append(reason)
    return found


def make(lake: Lake, *, room: int = 100) -> None:
    """Does what is asked of `clean`."""
    for task in tasks_of(lake, "clean", room):
        assert rewrite(lake, task, {scope: [(1, scope.key)] for scope in wanted_scopes(task)}).result in ("committing", "superseded")
    lake.move()


@pytest.mark.proves("T8.7")
def test_scopes_that_were_made_before_an_untriggered_input_moved_are_behind_also_when_the_newest_is_not(lake: Lake):
    lake.deploy(published(QUIET))
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")], part("b"): [(2, "b")]})
    make(lake)
    assert set(reasons(lake)) == {"fresh"}
    load(lake, 2, job="rates")
    load_parts(lake, {part("c"): [(3, "c")]})
    make(lake)
    found = reasons(lake)
    assert set(found) == {"behind", "serving"}
    [behind] = found["behind"]
    rates = lake.one("SELECT dataset.id FROM dataset JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'rates'")
    assert behind.sentence == f"2 of its 3 scopes were made before version 2 of {rates}: partition a (from version 1), partition b (from version 1)."
    assert behind.remedy == f"A new version of {rates} does not start the job (`trigger: false`). `tracelake run sample/clean --rewrite` rebuilds the table from it."
    lake.run("clean", rewrite=True)
    make(lake)
    assert set(reasons(lake)) == {"fresh"}


@pytest.mark.proves("T8.7")
def test_a_scope_whose_own_part_of_an_input_has_not_moved_is_fresh(lake: Lake):
    lake.deploy(published(QUIET))
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")], part("b"): [(2, "b")]})
    make(lake)
    load_parts(lake, {part("b"): [(3, "b")]})
    [task] = tasks_of(lake, "clean")
    [behind] = reasons(lake)["behind"]
    assert behind.sentence == "1 of its 2 scopes was made before version 2 of sample_raw: partition b (from version 1)."
    assert behind.remedy is None  # its task runs
    assert rewrite(lake, task, {part("b"): [(3, "b")]}).result == "committing"
    lake.move()
    assert set(reasons(lake)) == {"fresh"}


@pytest.mark.proves("T8.7")
def test_an_older_scope_whose_task_failed_is_behind_while_the_newest_run_succeeded(lake: Lake):
    lake.deploy(published(RANGED), max_attempts=1)
    load_parts(lake, {RangeScope(start=0, end=10): [(1, "x")], RangeScope(start=10, end=20): [(11, "x")]})
    for task in tasks_of(lake, "clean"):
        [scope] = wanted_scopes(task)
        rewrite(lake, task, {scope: [(scope.start, "x")]})
    lake.move()
    load_parts(lake, {RangeScope(start=3, end=5): [(3, "x")]})
    load_parts(lake, {RangeScope(start=12, end=13): [(12, "x")]})
    older, newer = tasks_of(lake, "clean")
    lake.services.tasks.cancels.cancel(lake.admin, older.fence.task_id)
    rewrite(lake, newer, {RangeScope(start=10, end=20): [(12, "x")]})
    lake.move()
    [behind] = reasons(lake)["behind"]
    assert behind.sentence.startswith("1 of its 2 scopes was made before version 3 of sample_raw: [0, 10) (from version 1)")


def test_a_table_of_one_scope_says_which_version_it_was_made_from(lake: Lake):
    lake.deploy(published(REPLACING))
    load(lake, 1)
    lake.write(lake.take_one(), [(1, "a")])
    lake.move()
    load(lake, 2)
    [behind] = reasons(lake)["behind"]
    assert behind.sentence == "It was made from version 1 of sample_raw, which is at version 2 now."


def test_many_scopes_that_are_behind_are_counted_and_some_are_named(lake: Lake):
    lake.deploy(published(QUIET))
    load(lake, 1, job="rates")
    load_parts(lake, {part(f"p{number}"): [(number, f"p{number}")] for number in range(8)})
    make(lake)
    load(lake, 2, job="rates")
    [behind] = reasons(lake)["behind"]
    assert behind.sentence.startswith("8 of its 8 scopes were made before version 2 of ")
    assert behind.sentence.count("(from version 1)") == 5
    assert behind.sentence.endswith(", ….")


GOLD = """  - name: top
    activation: reactive
    inputs: [{{from: {{job: clean, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM input_0}}
    outputs: [{{layer: gold, description: The best rows}}]
    update_strategy: replace
publish:
  top_rows: {{job: top, output_index: 0}}
"""


def test_a_table_whose_input_is_behind_is_fresh_with_its_inputs_only(lake: Lake):
    lake.deploy(published(QUIET).replace("publish:\n", GOLD))
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")]})
    make(lake)
    for task in tasks_of(lake, "top"):
        assert lake.write(task, [(1, "a")]).result == "committing"
    lake.move()
    assert [reason.code for reason in lake.services.explaining.explain(lake.admin, "top_rows").reasons] == ["fresh"]
    load(lake, 2, job="rates")
    rates = lake.one("SELECT dataset.id FROM dataset JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'rates'")
    behind, serving = lake.services.explaining.explain(lake.admin, "top_rows").reasons
    assert (behind.code, behind.sentence) == ("behind", f"It is fresh with its inputs, but its input clean_rows is behind {rates}.")
    assert (behind.remedy, serving.code) == ("`tracelake explain clean_rows`", "serving")


def test_a_run_without_rows_is_why_there_is_no_version(lake: Lake):
    lake.deploy(published(REPLACING))
    explain = lake.services.explaining.explain
    [before] = explain(lake.admin, "sample_raw").reasons
    assert before.sentence == "It has no version yet: no run of its job has completed."
    lake.run("load")
    task = lake.take_one()
    lake.write(task, [])
    lake.move()
    [empty] = explain(lake.admin, "sample_raw").reasons
    assert empty.sentence == f"The newest run, {task.fence.task_id}:1, completed without rows, so there is no version yet."
    assert empty.remedy == "Add rows to what the job reads, then `tracelake run sample/load`."


def test_a_paused_job_has_one_remedy(lake: Lake):
    lake.deploy(published(QUIET))
    load(lake, 1, job="rates")
    load_parts(lake, {part("a"): [(1, "a")]})
    make(lake)
    load(lake, 2, job="rates")
    lake.services.tasks.pauses.pause(lake.admin, "sample", "clean")
    found = lake.services.explaining.explain(lake.admin, "clean_rows").reasons
    assert [reason.code for reason in found] == ["paused", "behind", "serving"]
    assert [reason.remedy for reason in found if reason.remedy] == ["Fix the cause, then `tracelake resume sample/clean`."]
