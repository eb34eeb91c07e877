"""What a run caused: its task, the tasks of its events, and theirs, wherever the caller may look."""

from uuid import UUID

import pytest
from support.controls import EMIT, EMIT_RANGES, ControlPlane, failed, succeeded
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


def reported(task: ClaimedTask, *cursors: int) -> Completion:
    return succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors])


def caused(control_plane: ControlPlane, task: UUID) -> Cascade:
    return control_plane.services.tasks.views.caused(control_plane.admin, task)


def counts(cascade: Cascade) -> dict[str, dict[str, int]]:
    return {
        job.name: {name: number for name, number in job.tasks.model_dump(exclude={"more", "waiting"}).items() if number} | job.tasks.waiting
        for job in cascade.jobs
    }


def test_a_run_is_over_when_everything_behind_it_is_final(control_plane: ControlPlane):
    control_plane.deploy(EMIT)
    run = control_plane.emit(1, 2)
    other = control_plane.emit(3)
    assert counts(caused(control_plane, run)) == {"sample/start": {"queued": 1}}
    [first] = control_plane.claim(1)
    control_plane.complete(reported(first, 1, 2))
    cascade = caused(control_plane, run)
    assert (counts(cascade), cascade.over, cascade.number) == ({"sample/start": {"completed": 1}, "sample/end": {"queued": 2}}, False, 3)
    assert [job.after for job in cascade.jobs] == [None, "sample/start"]
    ends = [task for task in control_plane.claim() if task.payload.job.name == "end"]
    control_plane.complete(succeeded(ends[0]))
    assert not caused(control_plane, run).over
    control_plane.complete(succeeded(ends[1]))
    cascade = caused(control_plane, run)
    assert (cascade.over, cascade.failed, counts(cascade)["sample/end"]) == (True, [], {"completed": 2})
    assert counts(caused(control_plane, other)) == {"sample/start": {"running": 1}}


def test_what_failed_is_named_with_its_attempts(control_plane: ControlPlane):
    control_plane.deploy(EMIT, max_attempts=1)
    run = control_plane.emit(1)
    control_plane.complete(reported(control_plane.claim()[0], 1))
    control_plane.complete(failed(control_plane.claim()[0]))
    cascade = caused(control_plane, run)
    [task] = cascade.failed
    assert (cascade.over, task.job, task.attempts[-1].error_class, task.blocked) == (True, "end", "broken", False)


def test_a_task_that_is_held_keeps_a_run_open_unless_something_failed(control_plane: ControlPlane):
    control_plane.deploy(EMIT, max_attempts=1)
    run = control_plane.emit(1, 2)
    control_plane.complete(reported(control_plane.claim()[0], 1, 2))
    [one, _] = control_plane.claim()
    control_plane.services.tasks.pauses.pause(control_plane.admin, "sample", "end")
    cascade = caused(control_plane, run)
    assert not cascade.held  # two tasks run
    control_plane.complete(failed(one))
    assert not caused(control_plane, run).over
    again = control_plane.emit(3)
    [start] = control_plane.claim()
    control_plane.complete(reported(start, 3))
    cascade = caused(control_plane, again)
    assert (cascade.held, cascade.over, counts(cascade)["sample/end"]) == (True, False, {"paused": 1})


def test_ranges_are_followed_through_every_level(control_plane: ControlPlane):
    control_plane.deploy(EMIT_RANGES)
    run = control_plane.emit(1)
    control_plane.complete(reported(control_plane.claim()[0], 1))
    assert counts(caused(control_plane, run)) == {"sample/start": {"completed": 1}, "sample/join": {"queued": 1}}


@pytest.mark.proves("T5.3")
def test_tasks_of_another_dag_are_part_of_it_for_those_who_may_see_that_dag(control_plane: ControlPlane):
    control_plane.deploy(PUBLISHED)
    control_plane.deploy(FOLLOWING, name="follower")
    run = control_plane.emit(1)
    control_plane.complete(reported(control_plane.claim()[0], 1))
    assert set(counts(caused(control_plane, run))) == {"sample/start", "sample/end", "follower/heard"}
    ann = user(control_plane, "ann", "makers")
    with pytest.raises(NotFound):
        control_plane.services.tasks.views.caused(ann, run)
    control_plane.services.granting.grant(control_plane.admin, "sample", DagRight.TRIGGER, "makers")
    assert set(counts(control_plane.services.tasks.views.caused(ann, run))) == {"sample/start", "sample/end"}
