"""The accounting of the chaos suite finds each kind of loss and duplicate, and reports nothing on a correct system."""

from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from support.accounting import OUTBOX_QUESTIONS, QUESTIONS, VERSION_QUESTIONS, account_for, discrepancies, rows_of
from support.controls import ControlPlane, failed, running_control, settings_for, succeeded
from support.databases import StateDatabase

from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.tasks.events import EventDraft

METRIC = "the metric of unaccounted events is not 0"

# What each question is there to find, made by a hand that may do everything.
DAMAGE: dict[str, LiteralString] = {
    "a task is not final": "UPDATE task SET state = 'queued', seq = 1, finished_at = NULL WHERE id = (SELECT min(id::text)::uuid FROM task)",
    "a task's attempts are not the rows 1 to task.attempt": "DELETE FROM task_attempt WHERE attempt = 1",
    "an attempt is not terminal": "UPDATE task_attempt SET ended_at = NULL, outcome = NULL WHERE outcome = 'failed'",
    "an attempt has not exactly one run row for each output": "DELETE FROM run_history WHERE seq = 1",
    "a run row is of no attempt": "UPDATE run_history SET attempt = 99 WHERE seq = 1",
    "a run row says something else than its attempt": "UPDATE run_history SET status = 'FAILED' WHERE seq = 1",
    "a task has not the successes of its state": "UPDATE task SET state = 'failed' WHERE trigger_kind = 'request' AND state = 'completed'",
    "an event was emitted twice": """
        INSERT INTO dataset_event SELECT gen_random_uuid(), org_id, dataset_id, dataset_version_id, producer_task_id, kind, scope, revision, event_time, payload, told_at
        FROM dataset_event LIMIT 1
    """,
    "an event is of no completed task": "UPDATE dataset_event SET producer_task_id = gen_random_uuid()",
    "an event has not exactly one ledger line for each subscriber": "DELETE FROM event_ledger WHERE task_id = (SELECT min(task_id::text)::uuid FROM event_ledger)",
    "a ledger line's task is not the task of its event and subscriber": "UPDATE event_ledger SET task_id = gen_random_uuid()",
    "a task of an event has not exactly one ledger line": "DELETE FROM event_ledger",
    "an errand was not performed": "UPDATE outbox SET sent_at = NULL",
    "a final task does not have exactly one notification": "DELETE FROM outbox WHERE body ->> 'state' = 'canceled'",
    METRIC: "DELETE FROM event_ledger",
}


@pytest.fixture
def quiet(database: StateDatabase, tmp_path: Path) -> Iterator[ControlPlane]:
    """A success, a failure that was retried, a cancel, and events; everything at rest."""
    settings = settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 60, "backoff_seconds": 0}, webhook={"url": "http://127.0.0.1:9/"})
    with running_control(settings, database) as control_plane:
        control_plane.deploy()
        control_plane.services.tasks.cancels.cancel(control_plane.admin, control_plane.run_source())
        control_plane.run_source()
        [source] = control_plane.claim()
        control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in (1, 2)]))
        good, bad = control_plane.claim()
        control_plane.complete(succeeded(good), failed(bad))
        control_plane.services.tasks.reaper.run_once()
        [again] = control_plane.claim()
        control_plane.complete(succeeded(again))
        rows_of(database, "UPDATE outbox SET sent_at = now()")
        yield control_plane


def test_each_kind_of_loss_and_doubling_is_found(quiet: ControlPlane):
    # Those about versions have their own test, beside the line.
    assert set(DAMAGE) == {*QUESTIONS, *OUTBOX_QUESTIONS, METRIC} - set(VERSION_QUESTIONS)
    with psycopg.connect(quiet.database.superuser_url) as connection:
        for what, damage in DAMAGE.items():
            assert discrepancies(connection, notified=True) == {}
            for table in ("task", "task_attempt", "run_history", "dataset_event", "event_ledger"):
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            assert connection.execute(damage).rowcount > 0, what
            assert what in discrepancies(connection, notified=True)
            connection.rollback()


def test_an_account_says_what_is_missing(quiet: ControlPlane):
    assert account_for(quiet.database, notified=True).tasks == {("start", "completed"): 1, ("start", "canceled"): 1, ("end", "completed"): 2}
    with psycopg.connect(quiet.database.superuser_url) as connection:
        connection.execute("ALTER TABLE event_ledger DISABLE TRIGGER ALL")
        connection.execute("DELETE FROM event_ledger")
    with pytest.raises(AssertionError, match="an event has not exactly one ledger line for each subscriber: 2"):
        account_for(quiet.database)
