"""The state table: its full cross product."""

import itertools

import pytest

from tracelake.control.tasks.task_state import FINAL, TRANSITIONS, Move, after
from tracelake_sdk.errors import IllegalTransition
from tracelake_sdk.tasks import TaskState

ALLOWED = {
    ("queued", "claim"): "running",
    ("queued", "cancel"): "canceled",
    ("queued", "allow"): "committing",
    ("queued", "finish"): "completed",
    ("queued", "block"): "failed",
    ("queued", "fail"): "failed",
    ("queued", "retry"): "queued",
    ("queued", "stopped"): "canceled",
    ("running", "allow"): "committing",
    ("running", "finish"): "completed",
    ("running", "block"): "failed",
    ("running", "retry"): "queued",
    ("running", "fail"): "failed",
    ("running", "expire"): "queued",
    ("running", "stopped"): "canceled",
    ("canceled", "stopped"): "canceled",
    ("committing", "record"): "completed",
}


@pytest.mark.proves("T1.3")
@pytest.mark.parametrize(("state", "move"), list(itertools.product(TaskState, Move)))
def test_every_move_of_every_state_is_allowed_or_refused_as_written(state: TaskState, move: Move):
    if (wanted := ALLOWED.get((state.value, move.value))) is not None:
        assert after(state, move).value == wanted
    else:
        with pytest.raises(IllegalTransition) as refused:
            after(state, move)
        assert refused.value.code == "illegal_transition"


def test_a_completed_or_failed_task_never_moves_again():
    assert not [pair for pair in TRANSITIONS if pair[0] in FINAL - {TaskState.CANCELED}]


def test_every_state_is_reached_and_every_move_is_used():
    assert set(TRANSITIONS.values()) | {TaskState.QUEUED} == set(TaskState)
    assert {move for _, move in TRANSITIONS} == set(Move)
