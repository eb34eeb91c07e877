"""The queries of explain, one function per query."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "explain.sql")


@dataclass(frozen=True)
class ListedDataset:
    id: UUID
    name: str | None
    layer: str
    domain: str
    owner: str
    description: str
    active: bool
    dag_id: UUID
    dag: str
    job: str
    output_index: int
    has_files: bool
    dataset_version_id: UUID | None
    version: int | None
    row_count: int | None
    promoted_at: datetime | None
    table_schema: dict[str, Any] | None


@dataclass(frozen=True)
class ListedVersion:
    version: int
    dataset_version_id: UUID
    delta_version: int
    snapshot_ref: str
    schema_hash: str
    row_count: int
    promoted_at: datetime
    promoted_by: str


@dataclass(frozen=True)
class PartRow:
    version: int
    place: int
    run_id: str
    promotion_id: UUID
    reason: str
    task_id: UUID
    attempt: int
    custom: dict[str, Any]
    dag: str
    job: str
    dag_version: int | None
    scopes: list[dict[str, Any]]


@dataclass(frozen=True)
class InputRow:
    task_id: UUID
    attempt: int
    index: int
    dataset_id: UUID
    name: str | None
    dataset_version_id: UUID
    version: int


@dataclass(frozen=True)
class LineRow:
    decided: int
    recorded: int
    stopped_reason: str | None
    reserved_task_id: UUID | None
    paused_at: datetime | None
    pause_reason: str | None
    dag_paused_at: datetime | None
    activation: str | None


@dataclass(frozen=True)
class WorkRow:
    state: str
    waits: str | None
    number: int


@dataclass(frozen=True)
class CandidateRow:
    run_id: str
    allowed: bool
    stage: str
    reason: str
    evaluated_at: datetime


@dataclass(frozen=True)
class NewestRunRow:
    run_id: str
    status: str
    error_message: str | None
    end_time: datetime
    attempt: int
    task_id: UUID
    task_state: str


@dataclass(frozen=True)
class WholeRun:
    run_id: str
    task_id: UUID
    attempt: int
    dag_id: UUID
    dag: str
    job: str
    dataset_id: UUID | None
    dataset_name: str | None
    layer: str | None
    status: str
    start_time: datetime
    end_time: datetime
    error_message: str | None
    triggered_by: str
    dag_version: int | None
    generation_id: UUID
    version: int | None
    custom: dict[str, Any]
    scopes: list[dict[str, Any]]


@dataclass(frozen=True)
class InputNow:
    index: int
    dataset_id: UUID
    name: str | None
    has_files: bool
    trigger: bool
    dataset_version_id: UUID | None
    version: int | None
    partition_by: dict[str, Any] | None
    output_partition_by: dict[str, Any] | None
    update_strategy: str | None


@dataclass(frozen=True)
class BehindRow:
    """One current scope that is behind an input, with how many there are."""

    scope: dict[str, Any]
    version: int  # of the input that it was made from
    number: int   # of scopes that are behind
    more: bool    # there may be more: the check has a limit
    total: int    # of current scopes


@dataclass(frozen=True)
class StalledUpstream:
    dataset_id: UUID
    name: str | None
    dag: str
    job: str
    paused: bool  # False: its newest candidate was blocked


@dataclass(frozen=True)
class Searched:
    """Search conditions of datasets; None is ignored."""

    words: list[str] | None = None  # each word occurs in its name, description, columns, …
    layer: str | None = None
    domain: str | None = None
    owner: str | None = None
    dag: str | None = None


def datasets(
    tx: Transaction, *, org: UUID, ids: list[UUID] | None, limit: int, after: UUID | None = None, searched: Searched | None = None
) -> list[ListedDataset]:
    """`ids`: only these; None: all of the org."""
    by = searched or Searched()
    return tx.all(
        ListedDataset,
        sql["datasets"],
        org=org,
        ids=ids,
        after=after,
        limit=limit,
        words=by.words,
        layer=by.layer,
        domain=by.domain,
        owner=by.owner,
        dag=by.dag,
    )


def versions(tx: Transaction, *, org: UUID, dataset: UUID, before: int | None, version: int | None, limit: int) -> list[ListedVersion]:
    return tx.all(ListedVersion, sql["versions"], org=org, dataset=dataset, before=before, version=version, limit=limit)


def parts(tx: Transaction, *, dataset: UUID, versions: list[int]) -> list[PartRow]:
    return tx.all(PartRow, sql["parts"], dataset=dataset, versions=versions)


def inputs_of_parts(tx: Transaction, parts: list[PartRow]) -> list[InputRow]:
    return tx.all(InputRow, sql["inputs_of_parts"], tasks=[part.task_id for part in parts], attempts=[part.attempt for part in parts])


def line(tx: Transaction, dataset_version: UUID) -> LineRow | None:
    return tx.find(LineRow, sql["line"], dataset_version=dataset_version)


def work(tx: Transaction, dataset_version: UUID) -> list[WorkRow]:
    return tx.all(WorkRow, sql["work"], dataset_version=dataset_version)


def newest_candidate(tx: Transaction, dataset: UUID) -> CandidateRow | None:
    return tx.find(CandidateRow, sql["newest_candidate"], dataset=dataset)


def newest_run(tx: Transaction, dataset: UUID) -> NewestRunRow | None:
    return tx.find(NewestRunRow, sql["newest_run"], dataset=dataset)


def inputs_now(tx: Transaction, dataset_version: UUID) -> list[InputNow]:
    return tx.all(InputNow, sql["inputs_now"], dataset_version=dataset_version)


def scopes_behind(
    tx: Transaction, *, dataset_version: UUID, input: InputNow, cut_alike: bool, examined: int, listed: int
) -> list[BehindRow]:
    return tx.all(
        BehindRow,
        sql["scopes_behind"],
        dataset_version=dataset_version,
        input=input.dataset_id,
        input_version=input.dataset_version_id,
        current=input.version,
        cut_alike=cut_alike,
        examined=examined,
        listed=listed,
    )


def standing_still(tx: Transaction, dataset_version: UUID) -> list[StalledUpstream]:
    return tx.all(StalledUpstream, sql["standing_still"], dataset_version=dataset_version)


def find_run(tx: Transaction, *, org: UUID, run: str) -> WholeRun | None:
    return tx.find(WholeRun, sql["run"], org=org, run=run)


def inputs_of_run(tx: Transaction, *, task: UUID, attempt: int) -> list[InputRow]:
    return tx.all(InputRow, sql["inputs_of_run"], task=task, attempt=attempt)
