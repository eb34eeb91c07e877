"""Events become tasks: exactly one per subscriber, and the ledger says so."""

import uuid

import pytest
from support.controls import EMIT, NOOP, ControlPlane, succeeded

from tracelake.control.database.transactions import Transaction
from tracelake.control.events import store as events
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import IdempotencyConflict, Invalid, JobNotRunnable, NotFound
from tracelake_sdk.tasks.events import EventDraft

FILTERED = NOOP.replace("inputs: [{{from: {{job: start, output: 0}}}}]", "inputs: [{{from: {{job: start, output: 0}}, where: {{cursor: {{min: 2, below: 4}}}}}}]")
ACROSS = """
name: {name}
defaults: {{domain: test, owner: test}}
jobs:
  - name: listen
    activation: reactive
    inputs: [{{from: {{dataset: cursors}}}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: noop
"""


def unaccounted(control_plane: ControlPlane) -> int:
    with control_plane.control.database.transaction("test") as tx:
        return events.unaccounted(tx, since=uuid.UUID(int=0))


def tell(control_plane: ControlPlane, *cursors: int):
    control_plane.run_source()
    [source] = [task for task in control_plane.claim() if task.payload.job.name == "start"]
    return control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors]))


@pytest.mark.proves("T2.8")
def test_what_an_edge_filters_is_in_the_ledger_and_makes_no_task(control_plane: ControlPlane):
    control_plane.deploy(FILTERED)
    tell(control_plane, 1, 2, 3, 4)
    rows = control_plane.query("SELECT (scope->>'value')::int, outcome, task_id IS NULL FROM event_ledger JOIN dataset_event ON id = event_id ORDER BY 1")
    assert rows == [(1, "filtered", True), (2, "task", False), (3, "task", False), (4, "filtered", True)]
    assert [task.payload.trigger.scope.value for task in control_plane.claim()] == [2, 3]
    assert unaccounted(control_plane) == 0


@pytest.mark.proves("T2.8")
def test_a_missing_ledger_line_is_counted(control_plane: ControlPlane):
    control_plane.deploy()
    tell(control_plane, 1, 2)
    assert unaccounted(control_plane) == 0
    control_plane.query("ALTER TABLE event_ledger DISABLE TRIGGER ALL")
    control_plane.query("DELETE FROM event_ledger WHERE ctid = (SELECT min(ctid) FROM event_ledger)")
    assert unaccounted(control_plane) == 1


@pytest.mark.proves("T2.8")
def test_a_consumer_in_another_dag_receives_what_is_emitted_after_its_deploy(control_plane: ControlPlane):
    control_plane.deploy(NOOP + "publish: {{cursors: {{job: start, output_index: 0}}}}\n")
    tell(control_plane, 1)
    control_plane.deploy(ACROSS, name="across")
    tell(control_plane, 2)
    heard = control_plane.query("SELECT (scope->>'value')::int FROM task JOIN dag ON dag.id = task.dag_id WHERE dag.name = 'across'")
    assert heard == [(2,)]
    assert unaccounted(control_plane) == 0


@pytest.mark.proves("T2.4")
def test_the_same_request_key_returns_the_first_task_and_other_content_is_a_conflict(control_plane: ControlPlane):
    control_plane.deploy(EMIT)
    first = control_plane.run_source(key="monday", cursors=[1, 2])
    assert control_plane.run_source(key="monday", cursors=[1, 2]) == first
    assert control_plane.one("SELECT count(*) FROM task") == 1
    with pytest.raises(IdempotencyConflict):
        control_plane.run_source(key="monday", cursors=[3])
    assert control_plane.run_source(cursors=[1, 2]) != first


def test_a_request_is_checked_before_it_becomes_a_task(control_plane: ControlPlane):
    control_plane.deploy(EMIT)
    run = control_plane.services.tasks.requests.run
    with pytest.raises(JobNotRunnable):
        run(control_plane.admin, "sample", "end", {}, idempotency_key=None)
    with pytest.raises(NotFound):
        run(control_plane.admin, "sample", "nothing", {}, idempotency_key=None)
    for wrong in ({}, {"cursors": []}, {"cursors": ["x"]}, {"cursors": [1.5]}, {"cursors": [1], "extra": 1}, {"cursors": ["2024-01-01T00:00:00Z"]}):
        with pytest.raises(Invalid):
            run(control_plane.admin, "sample", "start", wrong, idempotency_key=None)
    assert control_plane.one("SELECT count(*) FROM task") == 0


def test_a_failure_in_the_middle_of_accepting_leaves_nothing(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch):
    control_plane.deploy()
    control_plane.run_source()
    [source] = control_plane.claim()

    def broken(tx: Transaction, entries: object) -> None:
        raise RuntimeError("the process trips here")

    monkeypatch.setattr(events, "account", broken)
    with pytest.raises(RuntimeError):
        control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=1))]))
    assert control_plane.query("SELECT state FROM task") == [("running",)]
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 0
    assert control_plane.one("SELECT count(*) FROM idempotency") == 0
