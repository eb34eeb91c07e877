"""Cascades: a run and everything that it caused."""

from tracelake_sdk.dags.status import TaskCounts
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.tasks.task import Task, Waits

_HELD = (Waits.PAUSED.value, Waits.INPUT.value)


class CausedJob(Deferred):
    """The tasks of one job among those that a run caused."""

    dag: str
    job: str
    after: str | None  # DAG/JOB whose events or batches made them; None for the run's own job
    tasks: TaskCounts

    @property
    def name(self) -> str:
        return f"{self.dag}/{self.job}"


class Cascade(Deferred):
    """A run's task, the tasks of its batches and its events, and theirs, in all DAGs that the caller may see."""

    task: Task
    jobs: list[CausedJob]  # the run's own first
    failed: list[Task]     # the first of those that failed or were canceled, with their attempts

    @property
    def number(self) -> int:
        """The number of tasks."""
        return sum(job.tasks.open + job.tasks.completed + job.tasks.failed + job.tasks.canceled for job in self.jobs)

    @property
    def open(self) -> int:
        """The number of tasks that are not final."""
        return sum(job.tasks.open for job in self.jobs)

    @property
    def held(self) -> bool:
        """Whether every open task waits for a person to resume a job, or for the first version of an input."""
        return self.open > 0 and self.open == sum(job.tasks.waiting.get(why, 0) for job in self.jobs for why in _HELD)

    @property
    def over(self) -> bool:
        """Whether nothing more can change without an action: every task is final, or waits for a failed one."""
        return self.open == 0 or (bool(self.failed) and self.held)
