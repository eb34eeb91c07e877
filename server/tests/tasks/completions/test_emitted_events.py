"""Events become tasks: exactly one per subscriber, and the ledger says so."""

import uuid

import pytest
from support.controls import EMIT, NOOP, Desk, succeeded

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


def unaccounted(desk: Desk) -> int:
    with desk.control.database.transaction("test") as tx:
        return events.unaccounted(tx, since=uuid.UUID(int=0))


def tell(desk: Desk, *cursors: int):
    desk.ask()
    [source] = [task for task in desk.claim() if task.payload.job.name == "start"]
    return desk.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors]))


@pytest.mark.proves("T2.8")
def test_what_an_edge_filters_is_in_the_ledger_and_makes_no_task(desk: Desk):
    desk.deploy(FILTERED)
    tell(desk, 1, 2, 3, 4)
    rows = desk.query("SELECT (scope->>'value')::int, outcome, task_id IS NULL FROM event_ledger JOIN dataset_event ON id = event_id ORDER BY 1")
    assert rows == [(1, "filtered", True), (2, "task", False), (3, "task", False), (4, "filtered", True)]
    assert [task.payload.trigger.scope.value for task in desk.claim()] == [2, 3]
    assert unaccounted(desk) == 0


@pytest.mark.proves("T2.8")
def test_a_missing_ledger_line_is_counted(desk: Desk):
    desk.deploy()
    tell(desk, 1, 2)
    assert unaccounted(desk) == 0
    desk.query("ALTER TABLE event_ledger DISABLE TRIGGER ALL")
    desk.query("DELETE FROM event_ledger WHERE ctid = (SELECT min(ctid) FROM event_ledger)")
    assert unaccounted(desk) == 1


@pytest.mark.proves("T2.8")
def test_a_consumer_in_another_dag_receives_what_is_emitted_after_its_deploy(desk: Desk):
    desk.deploy(NOOP + "publish: {{cursors: {{job: start, output_index: 0}}}}\n")
    tell(desk, 1)
    desk.deploy(ACROSS, name="across")
    tell(desk, 2)
    heard = desk.query("SELECT (scope->>'value')::int FROM task JOIN dag ON dag.id = task.dag_id WHERE dag.name = 'across'")
    assert heard == [(2,)]
    assert unaccounted(desk) == 0


@pytest.mark.proves("T2.4")
def test_the_same_request_key_returns_the_first_task_and_other_content_is_a_conflict(desk: Desk):
    desk.deploy(EMIT)
    first = desk.ask(key="monday", cursors=[1, 2])
    assert desk.ask(key="monday", cursors=[1, 2]) == first
    assert desk.one("SELECT count(*) FROM task") == 1
    with pytest.raises(IdempotencyConflict):
        desk.ask(key="monday", cursors=[3])
    assert desk.ask(cursors=[1, 2]) != first


def test_a_request_is_checked_before_it_becomes_a_task(desk: Desk):
    desk.deploy(EMIT)
    run = desk.services.tasks.requests.run
    with pytest.raises(JobNotRunnable):
        run(desk.admin, "sample", "end", {}, idempotency_key=None)
    with pytest.raises(NotFound):
        run(desk.admin, "sample", "nothing", {}, idempotency_key=None)
    for wrong in ({}, {"cursors": []}, {"cursors": ["x"]}, {"cursors": [1.5]}, {"cursors": [1], "extra": 1}, {"cursors": ["2024-01-01T00:00:00Z"]}):
        with pytest.raises(Invalid):
            run(desk.admin, "sample", "start", wrong, idempotency_key=None)
    assert desk.one("SELECT count(*) FROM task") == 0


def test_a_failure_in_the_middle_of_accepting_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    desk.deploy()
    desk.ask()
    [source] = desk.claim()

    def broken(tx: Transaction, entries: object) -> None:
        raise RuntimeError("the process trips here")

    monkeypatch.setattr(events, "account", broken)
    with pytest.raises(RuntimeError):
        desk.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=1))]))
    assert desk.query("SELECT state FROM task") == [("running",)]
    assert desk.one("SELECT count(*) FROM dataset_event") == 0
    assert desk.one("SELECT count(*) FROM idempotency") == 0
