"""Reports without a file: they add nothing, and what they say of columns is what the table was when they began."""

import pyarrow as pa
import pytest
from support.lakes import Lake
from support.lines import APPENDING, load, tasks_of, versions_of

from tracelake_sdk.tasks import CompletionResult, TaskState


@pytest.mark.proves("T2.2")
def test_a_run_that_began_before_the_table_had_columns_may_add_nothing(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    load(lake, 2)
    one, two = tasks_of(lake, "clean")
    assert lake.write(one, [(1, "a")]).result == "committing"
    answer = lake.report(two, lake.measured([], schema=pa.schema([])))
    assert (answer.result, answer.task_state) == (CompletionResult.UNCHANGED, TaskState.COMPLETED)
    lake.move()
    assert versions_of(lake, "clean") == [1]
    assert lake.query("SELECT count(*) FROM promotion_status WHERE NOT allowed") == [(0,)]
