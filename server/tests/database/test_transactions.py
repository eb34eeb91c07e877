"""A transaction is all or nothing, however few of its statements anybody waits for."""

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase

from tracelake.control.database.transactions import Database, DatabaseRole
from tracelake_sdk.errors import Unavailable

ADD = "INSERT INTO org (id, name) VALUES (%(id)s::uuid, %(name)s)"
ONE, TWO = "00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002"


@pytest.fixture
def state(database: StateDatabase, tmp_path: Path) -> Generator[Database]:
    with running_control(settings_for(database, tmp_path / "home"), database) as control_plane:
        yield control_plane.control.database


def names(state: Database) -> list[str]:
    with state.transaction("look") as tx:
        return tx.values("SELECT name FROM org WHERE name LIKE 'try%%' ORDER BY name")


def test_statements_without_a_wait_are_committed(state: Database):
    with state.transaction("add", role=DatabaseRole.DEFINE) as tx:
        tx.run(ADD, id=ONE, name="try_one")
        tx.run(ADD, id=TWO, name="try_two")
    assert names(state) == ["try_one", "try_two"]


def test_an_error_without_a_wait_is_raised_and_rolls_everything_back(state: Database):
    with pytest.raises(psycopg.errors.UniqueViolation), state.transaction("add", role=DatabaseRole.DEFINE) as tx:
        tx.run(ADD, id=ONE, name="try_one")
        tx.run(ADD, id=ONE, name="try_two")
        tx.run(ADD, id=TWO, name="try_three")
    assert names(state) == []


def test_values_of_a_failed_statement_reach_no_log(state: Database, caplog: pytest.LogCaptureFixture):
    with pytest.raises(KeyError), state.transaction("add", role=DatabaseRole.DEFINE) as tx:
        tx.run(ADD, id=ONE, name="try_private")
        tx.run(ADD, id=TWO, name="try_private")
        raise KeyError  # before anybody has heard of the error
    assert "try_private" not in caplog.text


def test_an_exception_rolls_everything_back(state: Database):
    with pytest.raises(KeyError), state.transaction("add", role=DatabaseRole.DEFINE) as tx:
        tx.run(ADD, id=ONE, name="try_one")
        raise KeyError
    assert names(state) == []


def test_a_swallowed_error_does_not_commit(state: Database):
    with pytest.raises(Unavailable), state.transaction("add", role=DatabaseRole.DEFINE) as tx:
        tx.run(ADD, id=ONE, name="try_one")
        with pytest.raises(psycopg.errors.UndefinedTable):
            tx.values("SELECT 1 FROM nothing_of_this_name")
        tx.run(ADD, id=TWO, name="try_two")
    assert names(state) == []


def test_pipelined_queries_have_their_own_results_in_order(state: Database):
    with state.transaction("ask", role=DatabaseRole.DEFINE) as tx:
        before = tx.send_tuples("SELECT count(*) FROM org WHERE name LIKE 'try%%'")
        tx.run(ADD, id=ONE, name="try_one")
        after = tx.send_tuples("SELECT count(*) FROM org WHERE name LIKE 'try%%'").then(lambda rows: rows[0][0])
        assert after.result() == 1
        assert before.result() == [(0,)]
        assert after.result() == 1


def test_a_connection_serves_the_next_one_after_each_kind_of_end(state: Database):
    for _ in range(12):  # more often than there are connections
        with pytest.raises(psycopg.errors.UndefinedTable), state.transaction("wrong") as tx:
            tx.run("DELETE FROM nothing_of_this_name")
        with pytest.raises(KeyError), state.transaction("left"):
            raise KeyError
    assert names(state) == []


def test_a_look_leaves_its_connection_as_it_was(state: Database):
    for _ in range(12):
        with state.looking() as look:
            assert look.value("SELECT 1") == 1
            assert look.connection.autocommit
        with state.transaction("after") as tx:
            notices: list[str] = []
            tx.connection.add_notice_handler(lambda notice, said=notices: said.append(str(notice.message_primary)))
            assert tx.connection.autocommit
            assert tx.value("SELECT 1") == 1
            assert notices == []
