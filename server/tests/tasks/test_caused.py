"""What a run caused: its task, the tasks of its events, and theirs, wherever the caller may look."""

from uuid import UUID

import pytest
from support.controls import EMIT, EMIT_RANGES, Desk, failed, succeeded
from support.people import user

from tracelake_sdk.access import DagRight
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import NotFound
from tracelake_sdk.tasks import ClaimedTask, Completion
from tracelake_sdk.tasks.cascades import Cascade
from tracelake_sdk.tasks.events import EventDraft

FOLLOWING = """
name: {name}
defaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}
jobs:
  - name: heard
    activation: reactive
    inputs: [{{from: {{dataset: numbers}}}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: noop
"""
PUBLISHED = EMIT + "publish:\n  numbers: {{job: start, output_index: 0}}\n"


def told(task: ClaimedTask, *cursors: int) -> Completion:
    return succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors])


def caused(desk: Desk, task: UUID) -> Cascade:
    return desk.services.tasks.views.caused(desk.admin, task)


def counts(cascade: Cascade) -> dict[str, dict[str, int]]:
    return {
        job.name: {name: number for name, number in job.tasks.model_dump(exclude={"more", "waiting"}).items() if number} | job.tasks.waiting
        for job in cascade.jobs
    }


def test_a_run_is_over_when_everything_behind_it_is_final(desk: Desk):
    desk.deploy(EMIT)
    run = desk.emit(1, 2)
    other = desk.emit(3)
    assert counts(caused(desk, run)) == {"sample/start": {"queued": 1}}
    [first] = desk.claim(1)
    desk.complete(told(first, 1, 2))
    cascade = caused(desk, run)
    assert (counts(cascade), cascade.over, cascade.number) == ({"sample/start": {"completed": 1}, "sample/end": {"queued": 2}}, False, 3)
    assert [job.after for job in cascade.jobs] == [None, "sample/start"]
    ends = [task for task in desk.claim() if task.payload.job.name == "end"]
    desk.complete(succeeded(ends[0]))
    assert not caused(desk, run).over
    desk.complete(succeeded(ends[1]))
    cascade = caused(desk, run)
    assert (cascade.over, cascade.failed, counts(cascade)["sample/end"]) == (True, [], {"completed": 2})
    assert counts(caused(desk, other)) == {"sample/start": {"running": 1}}


def test_what_failed_is_named_with_its_attempts(desk: Desk):
    desk.deploy(EMIT, max_attempts=1)
    run = desk.emit(1)
    desk.complete(told(desk.claim()[0], 1))
    desk.complete(failed(desk.claim()[0]))
    cascade = caused(desk, run)
    [task] = cascade.failed
    assert (cascade.over, task.job, task.attempts[-1].error_class, task.blocked) == (True, "end", "broken", False)


def test_a_task_that_is_held_keeps_a_run_open_unless_something_failed(desk: Desk):
    desk.deploy(EMIT, max_attempts=1)
    run = desk.emit(1, 2)
    desk.complete(told(desk.claim()[0], 1, 2))
    [one, _] = desk.claim()
    desk.services.tasks.pauses.pause(desk.admin, "sample", "end")
    cascade = caused(desk, run)
    assert not cascade.held  # two tasks run
    desk.complete(failed(one))
    assert not caused(desk, run).over
    again = desk.emit(3)
    [start] = desk.claim()
    desk.complete(told(start, 3))
    cascade = caused(desk, again)
    assert (cascade.held, cascade.over, counts(cascade)["sample/end"]) == (True, False, {"paused": 1})


def test_ranges_are_followed_through_every_level(desk: Desk):
    desk.deploy(EMIT_RANGES)
    run = desk.emit(1)
    desk.complete(told(desk.claim()[0], 1))
    assert counts(caused(desk, run)) == {"sample/start": {"completed": 1}, "sample/join": {"queued": 1}}


@pytest.mark.proves("T5.3")
def test_tasks_of_another_dag_are_part_of_it_for_those_who_may_see_that_dag(desk: Desk):
    desk.deploy(PUBLISHED)
    desk.deploy(FOLLOWING, name="follower")
    run = desk.emit(1)
    desk.complete(told(desk.claim()[0], 1))
    assert set(counts(caused(desk, run))) == {"sample/start", "sample/end", "follower/heard"}
    ann = user(desk, "ann", "makers")
    with pytest.raises(NotFound):
        desk.services.tasks.views.caused(ann, run)
    desk.services.granting.grant(desk.admin, "sample", DagRight.TRIGGER, "makers")
    assert set(counts(desk.services.tasks.views.caused(ann, run))) == {"sample/start", "sample/end"}
