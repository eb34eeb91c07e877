"""What must be true of the database when everything is quiet, whatever was killed on the way there."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from support.databases import StateDatabase
from support.processes import LONGEST, wait_until
from tracelake.control.database.transactions import Transaction
from tracelake.control.events import store as events

# Each question names what it finds, and must find nothing.
QUESTIONS: dict[str, LiteralString] = {
    "a task is not final": "SELECT id, state, waits FROM task WHERE state NOT IN ('completed', 'failed', 'canceled')",
    "a task's attempts are not the rows 1 to task.attempt": """
        SELECT task.id, task.attempt, array_agg(attempt.attempt ORDER BY attempt.attempt) AS rows
        FROM task LEFT JOIN task_attempt AS attempt ON attempt.task_id = task.id
        GROUP BY task.id
        HAVING array_remove(array_agg(attempt.attempt ORDER BY attempt.attempt), NULL) <> ARRAY(SELECT generate_series(1, task.attempt))
    """,
    "an attempt is not terminal": "SELECT task_id, attempt FROM task_attempt WHERE ended_at IS NULL OR outcome IS NULL",
    "an attempt has not exactly one run row": """
        SELECT attempt.task_id, attempt.attempt, count(run.run_id)
        FROM task_attempt AS attempt LEFT JOIN run_history AS run USING (task_id, attempt)
        GROUP BY attempt.task_id, attempt.attempt HAVING count(run.run_id) <> 1
    """,
    "a run row is of no attempt": "SELECT run_id FROM run_history LEFT JOIN task_attempt AS attempt USING (task_id, attempt) WHERE attempt.task_id IS NULL",
    "a run row says something else than its attempt": """
        SELECT run_id, status, outcome FROM run_history JOIN task_attempt USING (task_id, attempt) WHERE (status = 'SUCCESS') <> (outcome = 'succeeded')
    """,
    "a task has not the successes of its state": """
        SELECT task.id, task.state, count(attempt.task_id)
        FROM task LEFT JOIN task_attempt AS attempt ON attempt.task_id = task.id AND attempt.outcome = 'succeeded'
        GROUP BY task.id HAVING count(attempt.task_id) <> CASE WHEN task.state = 'completed' THEN 1 ELSE 0 END
    """,
    "an event was told twice": """
        SELECT producer_task_id, dataset_id, scope, revision, count(*)
        FROM dataset_event GROUP BY producer_task_id, dataset_id, scope, revision HAVING count(*) <> 1
    """,
    "an event is of no completed task": """
        SELECT event.id, task.state FROM dataset_event AS event LEFT JOIN task ON task.id = event.producer_task_id WHERE task.state IS DISTINCT FROM 'completed'
    """,
    "an event has not exactly one ledger line for each subscriber": """
        SELECT event.id, job.generation_id, count(ledger.event_id)
        FROM dataset_event AS event
        JOIN job_input ON job_input.dataset_id = event.dataset_id AND job_input.trigger
        JOIN job ON job.id = job_input.job_id
        LEFT JOIN event_ledger AS ledger ON ledger.event_id = event.id AND ledger.generation_id = job.generation_id
        GROUP BY event.id, job.generation_id HAVING count(ledger.event_id) <> 1
    """,
    "a ledger line's task is not the task of its event and subscriber": """
        SELECT ledger.event_id, ledger.generation_id
        FROM event_ledger AS ledger
        LEFT JOIN task ON task.id = ledger.task_id AND task.trigger_id = ledger.event_id AND task.generation_id = ledger.generation_id
        WHERE ledger.outcome = 'task' AND task.id IS NULL
    """,
    "a task of an event has not exactly one ledger line": """
        SELECT task.id, count(ledger.event_id) FROM task LEFT JOIN event_ledger AS ledger ON ledger.task_id = task.id
        WHERE task.trigger_kind = 'event' GROUP BY task.id HAVING count(ledger.event_id) <> 1
    """,
    "an errand was not performed": "SELECT id, tries, last_error FROM outbox WHERE sent_at IS NULL",
}
TOLD_QUESTIONS: dict[str, LiteralString] = {
    "a final task has not exactly one errand": """
        SELECT task.id, count(outbox.id)
        FROM task LEFT JOIN outbox ON outbox.body ->> 'task_id' = task.id::text AND outbox.body ->> 'state' = task.state::text
        WHERE task.state IN ('completed', 'failed', 'canceled') GROUP BY task.id HAVING count(outbox.id) <> 1
    """,
}


@dataclass(frozen=True)
class Account:
    """How many tasks of each job ended in each state, and how many attempts that took."""

    tasks: Counter[tuple[str, str]]
    events: int
    attempts: int


def discrepancies(connection: psycopg.Connection, *, told: bool = False) -> dict[str, list[Any]]:
    """What is not as it must be; `told`: each final task must also have its one errand."""
    questions = QUESTIONS | (TOLD_QUESTIONS if told else {})
    found: dict[str, list[Any]] = {what: connection.execute(question).fetchall() for what, question in questions.items()}
    # The product's own answer, which its metric shows, beside ours.
    unaccounted = events.unaccounted(Transaction(connection), since=UUID(int=0))
    found["the metric of unaccounted events is not 0"] = [unaccounted] if unaccounted else []
    return {what: rows for what, rows in found.items() if rows}


def account_for(database: StateDatabase, *, told: bool = False) -> Account:
    """Everything is accounted for, or an AssertionError lists what is not."""
    with psycopg.connect(database.superuser_url) as connection:
        found = discrepancies(connection, told=told)
        assert not found, "\n".join(f"{what}: {len(rows)}, such as {rows[0]}" for what, rows in found.items())
    tasks = rows_of(
        database,
        """
        SELECT job_key.name, task.state::text, count(*)
        FROM task JOIN generation ON generation.id = task.generation_id JOIN job_key ON job_key.id = generation.job_key_id
        GROUP BY 1, 2
        """,
    )
    return Account(
        Counter({(job, state): number for job, state, number in tasks}),
        ask(database, "SELECT count(*) FROM dataset_event"),
        ask(database, "SELECT count(*) FROM task_attempt"),
    )


def rows_of(database: StateDatabase, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
    """As the superuser: what is really there."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        cursor = connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def ask(database: StateDatabase, query: LiteralString, *values: object) -> Any:
    """The only column of the only row."""
    return rows_of(database, query, *values)[0][0]


def wait_until_quiet(database: StateDatabase, *, longest: float = LONGEST) -> None:
    """Until no task can move by itself any more and no errand is left; what a paused job holds back stays."""
    unfinished = """
        SELECT (
            SELECT count(*) FROM task JOIN generation ON generation.id = task.generation_id JOIN job_key ON job_key.id = generation.job_key_id
            WHERE task.state NOT IN ('completed', 'failed', 'canceled') AND NOT (coalesce(task.waits IN ('paused', 'turn'), false) AND job_key.paused_at IS NOT NULL)
        ) + (SELECT count(*) FROM outbox WHERE sent_at IS NULL AND given_up_at IS NULL)
    """
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        wait_until(lambda: connection.execute(unfinished).fetchone() == (0,), "everything is quiet", pause=0.05, longest=longest)
