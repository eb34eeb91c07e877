"""The states of a task and the moves between them. Pure: one table, no classes."""

from enum import StrEnum

from tracelake_sdk.errors import IllegalTransition
from tracelake_sdk.tasks import TaskState


class Move(StrEnum):
    CLAIM = "claim"      # a worker takes it
    ALLOW = "allow"      # the gate allows its outputs
    FINISH = "finish"    # it is done and has nothing to commit
    BLOCK = "block"      # the gate refuses its outputs
    RETRY = "retry"      # reported failure, superseded or given back, attempts left
    FAIL = "fail"        # no attempt left
    EXPIRE = "expire"    # its lease expired, attempts left
    CANCEL = "cancel"    # a person cancels it while it is not running
    STOPPED = "stopped"  # a person canceled it, and its attempt has ended
    RECORD = "record"    # its commit is recorded


QUEUED, RUNNING, COMMITTING = TaskState.QUEUED, TaskState.RUNNING, TaskState.COMMITTING
COMPLETED, FAILED, CANCELED = TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED

TRANSITIONS: dict[tuple[TaskState, Move], TaskState] = {
    (QUEUED, Move.CLAIM): RUNNING,
    (QUEUED, Move.CANCEL): CANCELED,
    # The lease expired but no other attempt has started: a late report is accepted.
    (QUEUED, Move.ALLOW): COMMITTING,
    (QUEUED, Move.FINISH): COMPLETED,
    (QUEUED, Move.BLOCK): FAILED,
    (QUEUED, Move.FAIL): FAILED,
    (QUEUED, Move.RETRY): QUEUED,
    (RUNNING, Move.ALLOW): COMMITTING,    # decided; nothing can stop it now
    (RUNNING, Move.FINISH): COMPLETED,    # nothing to commit
    (RUNNING, Move.BLOCK): FAILED,        # final, never retried
    (RUNNING, Move.RETRY): QUEUED,        # reported failure, superseded or given back, attempts left
    (RUNNING, Move.FAIL): FAILED,         # final
    (RUNNING, Move.EXPIRE): QUEUED,       # attempts left; on the last one the reaper waits one more lease, then FAIL
    # After a cancel request, every outcome, also a failure or the end of the lease, is STOPPED.
    (RUNNING, Move.STOPPED): CANCELED,
    (QUEUED, Move.STOPPED): CANCELED,
    (CANCELED, Move.STOPPED): CANCELED,   # the report that a canceled attempt has ended; may be repeated
    (COMMITTING, Move.RECORD): COMPLETED,
}

FINAL: frozenset[TaskState] = frozenset({COMPLETED, FAILED, CANCELED})


def after(state: TaskState, move: Move) -> TaskState:
    """The state after a move; raises IllegalTransition if the table has none. Call it before any write."""
    try:
        return TRANSITIONS[state, move]
    except KeyError:
        raise IllegalTransition(f"A {state} task cannot {move}.") from None
