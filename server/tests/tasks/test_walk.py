"""From a request to a finished task, through the services."""

import pytest
from support.controls import ControlPlane, succeeded

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.tasks import CompletionResult, TaskState
from tracelake_sdk.tasks.events import EventDraft


@pytest.mark.proves("T2.1")
def test_one_event_makes_one_task_for_each_subscribed_job(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    [source] = control_plane.claim()
    [answer] = control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=v)) for v in (1, 2, 3)]))
    assert answer.result is CompletionResult.DONE
    assert len(answer.event_ids) == 3
    tasks = control_plane.claim()
    assert [t.payload.trigger.scope for t in tasks] == [CursorScope(value=v) for v in (1, 2, 3)]
    answers = control_plane.complete(*[succeeded(t) for t in tasks])
    assert {a.task_state for a in answers} == {TaskState.COMPLETED}
    assert control_plane.one("SELECT count(*) FROM run_history") == 4
    assert control_plane.one("SELECT count(*) FROM event_ledger") == 3
    assert control_plane.claim() == []
