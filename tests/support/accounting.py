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

# Of tables and their versions, once every line has moved as far as it can. Each question names what it finds, and must find nothing.
VERSION_QUESTIONS: dict[str, LiteralString] = {
    "a line is not recorded as far as it is decided": "SELECT generation_id, decided, frozen, recorded FROM line WHERE NOT (decided = frozen AND frozen = recorded)",
    "the places of a line are not 1 to what is decided": """
        SELECT line.generation_id, line.decided, count(change.place)
        FROM line LEFT JOIN change ON change.generation_id = line.generation_id
        GROUP BY line.generation_id HAVING count(change.place) <> line.decided OR coalesce(max(change.place), 0) <> line.decided
    """,
    "a change is of no completed task": "SELECT change.task_id, task.state FROM change JOIN task ON task.id = change.task_id WHERE task.state <> 'completed'",
    "a change is not part of exactly one version of each of its outputs": """
        SELECT output.generation_id, output.place, output.dataset_version_id, count(member.version)
        FROM change_output AS output LEFT JOIN data_version_member AS member USING (generation_id, place, dataset_version_id)
        GROUP BY output.generation_id, output.place, output.dataset_version_id HAVING count(member.version) <> 1
    """,
    "a scope that a change wrote has not exactly one materialization": """
        SELECT change.task_id, scope.dataset_version_id, scope.scope, count(made.id)
        FROM change_scope AS scope
        JOIN dataset_version AS version ON version.id = scope.dataset_version_id
        JOIN change ON change.generation_id = version.generation_id AND change.place = scope.place
        LEFT JOIN materialization AS made
            ON made.task_id = change.task_id AND made.attempt = change.attempt AND made.dataset_version_id = scope.dataset_version_id AND made.span = scope.span
        GROUP BY change.task_id, scope.dataset_version_id, scope.scope, scope.place HAVING count(made.id) <> 1
    """,
    "a materialization is of no change": """
        SELECT made.id FROM materialization AS made
        LEFT JOIN change ON change.task_id = made.task_id AND change.attempt = made.attempt
        WHERE change.task_id IS NULL
    """,
    "a materialization was not emitted exactly once": """
        SELECT made.task_id, made.scope, count(event.id)
        FROM materialization AS made
        LEFT JOIN dataset_event AS event ON event.producer_task_id = made.task_id AND event.dataset_id = made.dataset_id AND event.scope = made.scope
        GROUP BY made.id HAVING count(event.id) <> 1
    """,
    "an event of a table is of no materialization": """
        SELECT event.id FROM dataset_event AS event
        JOIN dataset ON dataset.id = event.dataset_id AND dataset.has_files
        LEFT JOIN materialization AS made ON made.task_id = event.producer_task_id AND made.dataset_id = event.dataset_id AND made.scope = event.scope
        WHERE made.id IS NULL
    """,
    "an allowed promotion has no change": """
        SELECT decision.run_id FROM promotion_status AS decision
        LEFT JOIN change ON change.task_id = decision.task_id AND change.attempt = decision.attempt
        WHERE decision.allowed AND change.task_id IS NULL
    """,
    "a blocked promotion has a change": """
        SELECT decision.run_id FROM promotion_status AS decision
        JOIN change ON change.task_id = decision.task_id AND change.attempt = decision.attempt
        WHERE NOT decision.allowed
    """,
    "a run of a decision says something else": """
        SELECT run.run_id, run.status, decision.allowed FROM promotion_status AS decision
        LEFT JOIN run_history AS run ON run.run_id = decision.run_id
        WHERE run.status IS DISTINCT FROM (CASE WHEN decision.allowed THEN 'SUCCESS' ELSE 'BLOCKED' END)::run_status
    """,
    "a file has no version": """
        SELECT dataset_version_id, path FROM data_file WHERE added_version IS NULL OR (removed_place IS NULL) <> (removed_version IS NULL)
    """,
    "a current file is not in a current scope": """
        SELECT file.path, file.scope FROM data_file AS file
        WHERE file.removed_place IS NULL
          AND NOT EXISTS (SELECT 1 FROM scope_state AS state WHERE state.dataset_version_id = file.dataset_version_id AND state.span @> file.span)
    """,
    "the versions of a dataset are not 1 to its counter": """
        SELECT version.dataset_id, counter.last, count(*), max(version.version)
        FROM data_version AS version LEFT JOIN version_counter AS counter USING (dataset_id)
        GROUP BY version.dataset_id, counter.last HAVING count(*) <> max(version.version) OR counter.last IS DISTINCT FROM max(version.version)
    """,
    "a Delta version is missing, or of no version": """
        SELECT entry.dataset_version_id, count(*), max(entry.delta_version), count(version.version)
        FROM delta_commit AS entry LEFT JOIN data_version AS version USING (dataset_version_id, delta_version)
        GROUP BY entry.dataset_version_id HAVING count(*) <> max(entry.delta_version) + 1 OR count(*) <> count(version.version)
    """,
    "the versions of a table are not in the order of their places": """
        SELECT * FROM (
            SELECT dataset_version_id, version, min(place) AS first, lag(max(place)) OVER (PARTITION BY dataset_version_id ORDER BY version) AS before
            FROM data_version_member GROUP BY dataset_version_id, version
        ) AS ordered WHERE first <= before
    """,
    "a version has other rows than its files": """
        SELECT version.dataset_id, version.version, version.row_count, sum(file.rows)
        FROM data_version AS version
        LEFT JOIN data_file AS file ON file.dataset_version_id = version.dataset_version_id
            AND file.added_version <= version.version AND (file.removed_version IS NULL OR file.removed_version > version.version)
        GROUP BY version.dataset_id, version.version HAVING version.row_count <> coalesce(sum(file.rows), 0)
    """,
    "the bytes of a recorded log entry are kept": "SELECT dataset_version_id, delta_version FROM delta_commit WHERE body IS NOT NULL OR recorded_at IS NULL",
}
# Of everything.
QUESTIONS: dict[str, LiteralString] = VERSION_QUESTIONS | {
    "a task is not final": "SELECT id, state, waits FROM task WHERE state NOT IN ('completed', 'failed', 'canceled')",
    "a task's attempts are not the rows 1 to task.attempt": """
        SELECT task.id, task.attempt, array_agg(attempt.attempt ORDER BY attempt.attempt) AS rows
        FROM task LEFT JOIN task_attempt AS attempt ON attempt.task_id = task.id
        GROUP BY task.id
        HAVING array_remove(array_agg(attempt.attempt ORDER BY attempt.attempt), NULL) <> ARRAY(SELECT generate_series(1, task.attempt))
    """,
    "an attempt is not terminal": "SELECT task_id, attempt FROM task_attempt WHERE ended_at IS NULL OR outcome IS NULL",
    "an attempt has not exactly one run row for each output": """
        SELECT attempt.task_id, attempt.attempt, runs.number, outputs.number
        FROM task_attempt AS attempt
        JOIN task ON task.id = attempt.task_id
        CROSS JOIN LATERAL (SELECT count(*) AS number FROM run_history AS run WHERE run.task_id = attempt.task_id AND run.attempt = attempt.attempt) AS runs
        CROSS JOIN LATERAL (
            SELECT greatest(count(*), 1) AS number FROM dataset_version AS version WHERE version.generation_id = task.generation_id
        ) AS outputs
        WHERE runs.number <> outputs.number
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
    "an event was emitted twice": """
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
# Of the platform's own records, once everything is emitted.
RECORD_QUESTIONS: dict[str, LiteralString] = {
    "a run has not exactly one record": """
        SELECT run.run_id, count(emitted.id) FROM run_history AS run
        LEFT JOIN metadata_record AS emitted ON emitted.kind = 'task_run' AND emitted.run_id = run.run_id
        GROUP BY run.run_id HAVING count(emitted.id) <> 1
    """,
    "a decision has not exactly one record": """
        SELECT decision.id, count(emitted.id) FROM promotion_status AS decision
        LEFT JOIN metadata_record AS emitted ON emitted.kind = 'promotion_decision' AND emitted.record -> 'payload' ->> 'promotion_id' = decision.id::text
        GROUP BY decision.id HAVING count(emitted.id) <> 1
    """,
    "a result of the gate has not exactly one record": """
        SELECT result.promotion_id, result.gate, result.number, count(emitted.id)
        FROM (
            SELECT promotion_id, 'policy' AS gate, number FROM policy_result UNION ALL SELECT promotion_id, 'quality', number FROM quality_result
        ) AS result
        LEFT JOIN metadata_record AS emitted ON emitted.kind = 'gate_result' AND emitted.record -> 'payload' ->> 'promotion_id' = result.promotion_id::text
            AND emitted.record -> 'payload' ->> 'gate' = result.gate AND emitted.record -> 'payload' ->> 'number' = result.number::text
        GROUP BY result.promotion_id, result.gate, result.number HAVING count(emitted.id) <> 1
    """,
    "a record is of no fact": """
        SELECT emitted.id, emitted.kind FROM metadata_record AS emitted
        WHERE emitted.kind IN ('task_run', 'promotion_decision', 'gate_result') AND NOT EXISTS (SELECT 1 FROM run_history AS run WHERE run.run_id = emitted.run_id)
    """,
    "a record of the platform was refused": "SELECT kind, fact, code FROM emission_refusal",
}
OUTBOX_QUESTIONS: dict[str, LiteralString] = {
    "a final task does not have exactly one notification": """
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


def discrepancies(connection: psycopg.Connection, *, notified: bool = False) -> dict[str, list[Any]]:
    """Violated invariants; `notified`: each final task must also have exactly one notification."""
    questions = QUESTIONS | (OUTBOX_QUESTIONS if notified else {})
    found: dict[str, list[Any]] = {what: connection.execute(question).fetchall() for what, question in questions.items()}
    # The product's own answer, which its metric shows, beside ours.
    unaccounted = events.unaccounted(Transaction(connection), since=UUID(int=0))
    found["the metric of unaccounted events is not 0"] = [unaccounted] if unaccounted else []
    return {what: rows for what, rows in found.items() if rows}


def account_for(database: StateDatabase, *, notified: bool = False) -> Account:
    """Everything is accounted for, or an AssertionError lists what is not."""
    with psycopg.connect(database.superuser_url) as connection:
        found = discrepancies(connection, notified=notified)
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


def record_discrepancies(connection: psycopg.Connection) -> dict[str, list[Any]]:
    return {what: rows for what, question in RECORD_QUESTIONS.items() if (rows := connection.execute(question).fetchall())}


def account_for_records(database: StateDatabase, *, longest: float = LONGEST) -> int:
    """Everything is emitted, each fact once, or an AssertionError says what is not; returns how many records there are."""
    behind = """
        SELECT count(*) FROM emission
        WHERE (emission.stream = 'run_history' AND EXISTS (SELECT 1 FROM run_history AS run WHERE (run.xid, run.seq) > (emission.xid, emission.seq)))
           OR (emission.stream = 'promotion_status' AND EXISTS (SELECT 1 FROM promotion_status AS made WHERE (made.xid, made.seq) > (emission.xid, emission.seq)))
    """
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        wait_until(lambda: connection.execute(behind).fetchone() == (0,), "everything is emitted", pause=0.05, longest=longest)
        found = record_discrepancies(connection)
        assert not found, "\n".join(f"{what}: {len(rows)}, such as {rows[0]}" for what, rows in found.items())
        [number] = connection.execute("SELECT count(*) FROM metadata_record").fetchone() or (0,)
    return number


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
