"""One record for each run, decision and result of the gate, wherever control or worker dies while they are emitted."""

from typing import LiteralString

import psycopg
import pytest
from support.accounting import RECORD_QUESTIONS, account_for, account_for_records, ask, record_discrepancies, wait_until_quiet
from support.controls import running_control, settings_for
from support.databases import StateDatabase
from support.lakes import Lake
from support.processes import AT_ONCE, Processes, assert_killed, wait_until
from support.registries import deploy_sample, fill
from support.sizes import full, seeded, size
from support.workloads import ManySources

from tracelake.control.emission.checking import check

# Before and after the offset is taken, the records are handed over, they are durable, the offset is moved.
MOMENTS = [
    "emission_take:before_commit", "emission_take:after_commit", "emission_store:before", "store_records:before_commit", "store_records:after_commit",
    "emission_store:after", "emission_move_on:before_commit", "emission_move_on:after_commit",
]  # fmt: skip
EVERY_DAY = ["emission_store:before", "store_records:after_commit", "emission_move_on:before_commit", "emission_move_on:after_commit"]
TIMES = [1, 2] if full() else [2]  # decisions come first, then runs
FACTS = """
    SELECT (SELECT count(*) FROM run_history) + (SELECT count(*) FROM promotion_status) + (SELECT count(*) FROM quality_result) + (SELECT count(*) FROM policy_result)
"""


def decide_something(processes: Processes) -> None:
    """Three versions of two datasets, made and not yet emitted: the loops of this control look once a minute."""
    settings = settings_for(processes.database, processes.home, tasks={"housekeeping_seconds": 60})
    with running_control(settings, processes.database) as control_plane:
        control_plane.control.movers.stop()
        lake = Lake(control_plane.control, processes.database)
        deploy_sample(lake)
        for key in range(3):
            fill(lake, key)


@pytest.mark.proves("M3.8")
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("moment", MOMENTS if full() else EVERY_DAY)
def test_a_control_that_dies_while_it_emits_leaves_one_record_for_each_fact(processes: Processes, moment: str, time: int):
    decide_something(processes)
    assert_killed(processes.control(kill_at=f"{moment}*{time}", ready=False))
    left_behind = ask(processes.database, "SELECT count(*) FROM metadata_record")
    processes.control()
    everything = account_for_records(processes.database)
    assert everything == ask(processes.database, FACTS) > 0
    assert left_behind == everything if moment.startswith(("emission_store:after", "emission_move_on")) and time == 2 else left_behind <= everything


@pytest.mark.proves("M3.8")
def test_random_kills_of_control_and_worker_leave_one_record_for_each_fact(processes: Processes):
    decide_something(processes)
    random = seeded()
    work = ManySources(sources=4, cursors=size(20, 100))
    control, worker = processes.control(), processes.worker()
    with processes.client() as client:
        work.deploy(client)
        work.request_all(client)
    for _ in range(size(3, 40)):
        seen = ask(processes.database, "SELECT count(*) FROM metadata_record")
        more = random.randrange(1, 30)
        wait_until(lambda at=seen + more: is_done(processes.database) or ask(processes.database, "SELECT count(*) FROM metadata_record") >= at, "more is emitted")
        if random.random() < 0.7:
            control.stop(AT_ONCE)
            control = processes.control()
        else:
            worker.stop(AT_ONCE)
            worker = processes.worker()
    wait_until_quiet(processes.database)
    account_for(processes.database)
    assert account_for_records(processes.database) == ask(processes.database, FACTS)
    settings = settings_for(processes.database, processes.home, tasks={"housekeeping_seconds": 60})
    with running_control(settings, processes.database) as control_plane:  # and the product's own checker agrees
        checked = check(control_plane.control.database, control_plane.control.record_repositories.repository_of, control_plane.control.record_loops.installation)
        assert checked.whole and checked.facts == ask(processes.database, "SELECT count(*) FROM metadata_record")


def is_done(database: StateDatabase) -> bool:
    return ask(database, "SELECT count(*) FROM task WHERE state NOT IN ('completed', 'failed', 'canceled')") == 0


DAMAGES: dict[str, LiteralString] = {
    "a run has not exactly one record": "DELETE FROM metadata_record WHERE id IN (SELECT id FROM metadata_record WHERE kind = 'task_run' LIMIT 1)",
    "a decision has not exactly one record": "DELETE FROM metadata_record WHERE id IN (SELECT id FROM metadata_record WHERE kind = 'promotion_decision' LIMIT 1)",
    "a result of the gate has not exactly one record": "DELETE FROM metadata_record WHERE id IN (SELECT id FROM metadata_record WHERE kind = 'gate_result' LIMIT 1)",
    "a record is of no fact": "UPDATE metadata_record SET run_id = 'nobody:1' WHERE id IN (SELECT id FROM metadata_record WHERE kind = 'gate_result' LIMIT 1)",
    "a record of the platform was refused": "INSERT INTO emission_refusal (kind, fact, code) VALUES ('task_run', 'x:1', 'record_refused')",
}


def test_each_question_about_records_finds_its_damage(processes: Processes):
    decide_something(processes)
    processes.control()
    account_for_records(processes.database)
    assert set(DAMAGES) == set(RECORD_QUESTIONS)
    with psycopg.connect(processes.database.superuser_url) as connection:
        for what, damage in DAMAGES.items():
            for (part,) in connection.execute("SELECT relid::text FROM pg_partition_tree('metadata_record')").fetchall():
                connection.execute(f"ALTER TABLE {part} DISABLE TRIGGER ALL")  # pyright: ignore[reportArgumentType]
            connection.execute(damage)
            assert what in record_discrepancies(connection)
            connection.rollback()
        assert record_discrepancies(connection) == {}
