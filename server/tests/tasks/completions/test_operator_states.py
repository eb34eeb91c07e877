"""The states of operators while reports of one transaction are answered."""

from uuid import uuid4

import pytest
from support.controls import RANGES, ControlPlane

from tracelake.control.database.transactions import DatabaseRole
from tracelake.control.tasks.completions.operator_states import OperatorStates
from tracelake_sdk.errors import Invalid

GENERATION = uuid4()


def test_a_report_moves_the_state_that_it_built_on():
    assert OperatorStates({GENERATION: 3}).swap(GENERATION, 3, {"at": 4})
    assert not OperatorStates({GENERATION: 4}).swap(GENERATION, 3, {"at": 4})


def test_the_first_state_builds_on_none():
    assert OperatorStates({}).swap(GENERATION, 0, {"at": 1})
    assert not OperatorStates({GENERATION: 1}).swap(GENERATION, 0, {"at": 1})


def test_a_second_report_on_the_same_state_finds_it_moved_by_the_first():
    states = OperatorStates({GENERATION: 3})
    assert states.swap(GENERATION, 3, {"at": 4})
    assert not states.swap(GENERATION, 3, {"at": 5})


def test_a_report_without_a_state_moves_none():
    states = OperatorStates({GENERATION: 3})
    assert states.swap(GENERATION, None, None) and states.swap(GENERATION, 1, None) and states.swap(GENERATION, 3, {"at": 4})


def test_a_state_of_an_operator_that_keeps_none_is_refused():
    with pytest.raises(Invalid, match="keeps no state"):
        OperatorStates({}).swap(GENERATION, None, {"at": 1})


def test_nothing_is_stored_before_it_is_written(control_plane: ControlPlane):
    control_plane.deploy(RANGES)
    generation = control_plane.one("SELECT id FROM generation LIMIT 1")
    with control_plane.control.database.transaction("complete", role=DatabaseRole.DECIDE) as tx:
        states = OperatorStates.load(tx, {generation}).result()
        assert states.swap(generation, 0, {"at": 1}) and states.swap(generation, 1, {"at": 2})
        assert OperatorStates.load(tx, {generation}).result().swap(generation, 0, {"at": 1})
        states.write(tx)
    assert control_plane.query("SELECT revision, value FROM operator_state") == [(2, {"at": 2})]
