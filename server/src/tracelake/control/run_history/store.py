"""The run table, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tracelake.control.dags.store import Output
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction
from tracelake_sdk.tasks.runs import RunStatus

sql = load(__name__, "run_history.sql")


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    """An attempt that has just become final."""

    org_id: UUID
    task_id: UUID
    attempt: int
    generation_id: UUID
    status: RunStatus
    start_time: datetime
    error_message: str | None
    triggered_by: str


@dataclass(frozen=True)
class RunRow:
    run_id: str
    task_id: UUID
    attempt: int
    dag: str
    job: str
    dataset_id: UUID | None
    layer: str | None
    status: str
    start_time: datetime
    end_time: datetime
    error_message: str | None
    triggered_by: str
    dag_version: int | None
    seq: int


def append(tx: Transaction, finished: list[FinishedAttempt], outputs: dict[UUID, list[Output]], *, now: datetime | None) -> None:
    """One row per attempt and output of its job; a job without outputs has one row with an empty dataset."""
    rows = [
        (run_id, attempt, output)
        for attempt in finished
        for run_id, output in _run_ids(attempt, outputs[attempt.generation_id])
    ]
    if rows:
        tx.run(
            sql["append"],
            now=now,
            run_ids=[run_id for run_id, _, _ in rows],
            orgs=[attempt.org_id for _, attempt, _ in rows],
            tasks=[attempt.task_id for _, attempt, _ in rows],
            attempts=[attempt.attempt for _, attempt, _ in rows],
            generations=[attempt.generation_id for _, attempt, _ in rows],
            datasets=[output.dataset_id if output else None for _, _, output in rows],
            layers=[output.layer if output else None for _, _, output in rows],
            statuses=[attempt.status.value for _, attempt, _ in rows],
            starts=[attempt.start_time for _, attempt, _ in rows],
            errors=[attempt.error_message for _, attempt, _ in rows],
            triggers=[attempt.triggered_by for _, attempt, _ in rows],
        )


def _run_ids(attempt: FinishedAttempt, outputs: list[Output]) -> list[tuple[str, Output | None]]:
    run_id = f"{attempt.task_id}:{attempt.attempt}"
    if not outputs:
        return [(run_id, None)]
    if len(outputs) == 1:
        return [(run_id, outputs[0])]
    return [(f"{run_id}:{output.output_index}", output) for output in outputs]


def page(
    tx: Transaction,
    *,
    org: UUID,
    before: int | None,
    dag: str | None,
    job: str | None,
    status: RunStatus | None,
    limit: int,
    datasets: list[UUID] | None = None,
    dags: list[UUID] | None = None,
) -> list[RunRow]:
    """`datasets`: only at these, and those without a dataset of these `dags`; None: all."""
    status_value = status.value if status else None
    return tx.all(RunRow, sql["page"], org=org, before=before, dag=dag, job=job, status=status_value, limit=limit, datasets=datasets, dags=dags)
