"""What deploys change of tasks, one function a query."""

from collections.abc import Sequence
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake.control.deploys.following import Unfinished
from tracelake_sdk.tasks import TaskState

sql = load(__name__, "deploys.sql")


def unfinished(tx: Transaction, *, generation: UUID, pool: UUID) -> list[Unfinished]:
    """Of one job, locked; `pool` is the one that they wait in."""
    going = (TaskState.QUEUED.value, TaskState.RUNNING.value)  # what ended while its lock was waited for is done
    return [task for task in tx.all(Unfinished, sql["unfinished"], generation=generation, pool=pool) if task.state in going]


def follow(tx: Transaction, tasks: Sequence[Unfinished]) -> None:
    tx.run(
        sql["follow"],
        tasks=[task.id for task in tasks],
        pools=[task.pool_id for task in tasks],
        waits=[task.waits for task in tasks],
        ordinals=[task.ordinal for task in tasks],
        stays=[task.seq is not None and not task.placed for task in tasks],
        placed=[task.placed for task in tasks],
    )
