"""The questions that every test of the line is asked at its end find what they are there to find."""

import psycopg
from support.accounting import VERSION_QUESTIONS
from support.lakes import Lake
from support.lines import APPENDING, load, tasks_of

# By question: how to break what it watches, in a lake with two versions of `load`, one of `clean` and one refused run.
DAMAGE = {
    "a line is not recorded as far as it is decided": "UPDATE line SET recorded = recorded - 1 WHERE recorded > 0",
    "the places of a line are not 1 to what is decided": "DELETE FROM change WHERE place = 1",
    "a change is of no completed task": "UPDATE task SET state = 'failed' WHERE id IN (SELECT task_id FROM change)",
    "a change is not part of exactly one version of each of its outputs": "DELETE FROM data_version_member WHERE version = 1",
    "a scope that a change wrote has not exactly one materialization": "DELETE FROM materialization WHERE version = 1",
    "a materialization is of no change": "UPDATE materialization SET attempt = 99 WHERE version = 1",
    "a materialization was not emitted exactly once": "DELETE FROM dataset_event",
    "an event of a table is of no materialization": "DELETE FROM materialization",
    "an allowed promotion has no change": "DELETE FROM change WHERE place = 1",
    "a blocked promotion has a change": "UPDATE change SET (task_id, attempt) = (SELECT task_id, attempt FROM promotion_status WHERE NOT allowed) WHERE place = 2",
    "a run of a decision says something else": "UPDATE run_history SET status = 'FAILED' WHERE status = 'SUCCESS'",
    "a file has no version": "UPDATE data_file SET added_version = NULL",
    "a current file is not in a current scope": "DELETE FROM scope_state",
    "the versions of a dataset are not 1 to its counter": "UPDATE version_counter SET last = last + 1",
    "a Delta version is missing, or of no version": "DELETE FROM data_version WHERE version = 1",
    "the versions of a table are not in the order of their places": "UPDATE data_version_member SET version = 3 - version",
    "a version has other rows than its files": "UPDATE data_version SET row_count = row_count + 1",
    "the bytes of a recorded log entry are kept": "UPDATE delta_commit SET body = 'kept', recorded_at = NULL",
}


def found(connection: psycopg.Connection) -> set[str]:
    return {what for what, question in VERSION_QUESTIONS.items() if connection.execute(question).fetchall()}


def test_each_question_about_versions_finds_its_damage(lake: Lake):
    lake.deploy(APPENDING)
    load(lake, 1)
    load(lake, 2)
    [task, *_] = tasks_of(lake, "clean")
    lake.write(task, [(1, "a")])
    lake.move()
    lake.run()
    [refused] = tasks_of(lake, "load")
    assert lake.report(refused, lake.measured([lake.stage(refused, [(9, "x")])], outside_scope=1)).result == "blocked"
    assert set(DAMAGE) == set(VERSION_QUESTIONS)
    with psycopg.connect(lake.database.superuser_url) as connection:
        tables = connection.execute("SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace").fetchall()
        connection.rollback()
        for what, damage in DAMAGE.items():
            assert found(connection) == set()
            for (table,) in tables:
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")  # pyright: ignore[reportArgumentType]
            assert connection.execute(damage).rowcount > 0, what
            assert what in found(connection), what
            connection.rollback()
