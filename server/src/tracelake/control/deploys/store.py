"""Task changes of deploys, one function per query."""

from collections.abc import Sequence
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake.control.deploys.unfinished_tasks import UnfinishedTask
from tracelake_sdk.tasks import TaskState

sql = load(__name__, "deploys.sql")


def unfinished(tx: Transaction, *, generation: UUID, pool: UUID) -> list[UnfinishedTask]:
    """Unfinished tasks of one job, locked; `pool` is their current pool."""
    going = (TaskState.QUEUED.value, TaskState.RUNNING.value)  # a task that ended while its lock was awaited is finished
    return [task for task in tx.all(UnfinishedTask, sql["unfinished"], generation=generation, pool=pool) if task.state in going]


def follow(tx: Transaction, tasks: Sequence[UnfinishedTask]) -> None:
    tx.run(
        sql["follow"],
        tasks=[task.id for task in tasks],
        pools=[task.pool_id for task in tasks],
        waits=[task.waits for task in tasks],
        ordinals=[task.ordinal for task in tasks],
        stays=[task.seq is not None and not task.placed for task in tasks],
        placed=[task.placed for task in tasks],
    )
