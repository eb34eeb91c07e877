"""Runs, decisions and results of the gate as records. Pure: the same fact always gives the same record.

A fact that is emitted again must give an identical record, so it contains nothing that can change:
no names, no version that a decision does not have yet. Row values, sentences of results and SQL are not included.
Models are constructed without validation: all values come from typed columns, and the schema of the kind is checked
when the record is stored.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, Quality

TASK_RUN = "task_run"
GATE_RESULT = "gate_result"
PROMOTION_DECISION = "promotion_decision"

_DISPATCHER = "tracelake.dispatcher.v1"
_GATE = "tracelake.gate.v1"
_LAKE = "lake"  # source of every dataset's target
_JOBS = "jobs"  # source of a job without outputs
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class RunFact:
    run_id: str
    task_id: UUID
    attempt: int
    tenant: str
    dag: str
    dag_id: UUID
    job: str
    generation_id: UUID
    dataset_id: UUID | None
    layer: str | None
    status: str
    start_time: datetime
    end_time: datetime
    triggered_by: str
    dag_version: int | None
    error_code: str | None
    version: int | None  # of the dataset that its output became part of
    xid: str
    seq: int


@dataclass(frozen=True, slots=True)
class DecisionFact:
    id: UUID
    run_id: str
    task_id: UUID
    attempt: int
    tenant: str
    dag: str
    job: str
    generation_id: UUID
    dataset_id: UUID
    dataset_version_id: UUID
    from_layer: str
    to_layer: str
    allowed: bool
    stage: str
    reason: str
    evaluated_at: datetime
    xid: str
    seq: int


@dataclass(frozen=True, slots=True)
class ResultFact:
    promotion_id: UUID
    gate: str  # policy or quality
    number: int
    rule_id: UUID | None
    revision: int | None
    rule_type: str
    verdict: str
    violations: int | None
    examined: int | None
    method: str | None
    milliseconds: float | None


@dataclass(frozen=True)
class Installation:
    """This installation as the context of a record names it."""

    cluster: str
    workspace: str


@dataclass(frozen=True, slots=True)
class Emitted:
    """A record to store, and the fact that it describes."""

    fact: str
    record: MetadataRecord
    context: MetadataContext


def of_run(run: RunFact, installation: Installation) -> Emitted:
    payload = {
        "run_id": run.run_id,
        "task_id": str(run.task_id),
        "attempt": run.attempt,
        "dag": run.dag,
        "dag_version": run.dag_version,
        "job": run.job,
        "generation_id": str(run.generation_id),
        "dataset_id": str(run.dataset_id) if run.dataset_id else None,
        "layer": run.layer,
        "status": run.status,
        "start_time": _spelt(run.start_time),
        "end_time": _spelt(run.end_time),
        "triggered_by": run.triggered_by[:_LONGEST],
        "error_code": run.error_code[:_LONGEST] if run.error_code else None,
    }
    if run.dataset_id is None or run.layer is None:
        # Without a dataset, it is visible to callers who may see the DAG.
        target, extras = _target(_JOBS, run.dag, run.job), {"dag": {"uuid": str(run.dag_id)}}
    else:
        target, extras = _target(_LAKE, run.layer, str(run.dataset_id)), _extras(run.dataset_id, run.generation_id, run.version)
    return Emitted(run.run_id, _record(target, TASK_RUN, payload, run.end_time, _DISPATCHER, extras), _context(run, installation))


def of_decision(decision: DecisionFact, installation: Installation) -> Emitted:
    payload = {
        "promotion_id": str(decision.id),
        "run_id": decision.run_id,
        "task_id": str(decision.task_id),
        "attempt": decision.attempt,
        "dataset_id": str(decision.dataset_id),
        "dataset_version_id": str(decision.dataset_version_id),
        "from_layer": decision.from_layer,
        "to_layer": decision.to_layer,
        "allowed": decision.allowed,
        "stage": decision.stage,
        "reason": decision.reason,
        "evaluated_at": _spelt(decision.evaluated_at),
    }
    return Emitted(str(decision.id), _of_gate(decision, PROMOTION_DECISION, payload), _context(decision, installation))


def of_result(result: ResultFact, decision: DecisionFact, installation: Installation) -> Emitted:
    payload = {
        "promotion_id": str(decision.id),
        "run_id": decision.run_id,
        "gate": result.gate,
        "number": result.number,
        "rule_id": str(result.rule_id) if result.rule_id else None,
        "revision": result.revision,
        "rule_type": result.rule_type,
        "verdict": result.verdict,
        "violations": result.violations,
        "examined": result.examined,
        "method": result.method,
        "milliseconds": result.milliseconds,
    }
    return Emitted(f"{decision.id} {result.gate} {result.number}", _of_gate(decision, GATE_RESULT, payload), _context(decision, installation))


def _of_gate(decision: DecisionFact, kind: str, payload: dict[str, Any]) -> MetadataRecord:
    extras = _extras(decision.dataset_id, decision.generation_id, None)
    return _record(_target(_LAKE, decision.to_layer, str(decision.dataset_id)), kind, payload, decision.evaluated_at, _GATE, extras)


def _record(target: MetadataTarget, kind: str, payload: dict[str, Any], at: datetime, producer: str, extras: dict[str, Any]) -> MetadataRecord:
    return MetadataRecord.model_construct(
        target=target,
        kind=kind,
        payload=payload,
        produced_at=at.astimezone(UTC),
        producer_id=producer,
        version=None,
        quality=Quality.MEASURED,
        extras=extras,
    )


@lru_cache(maxsize=10_000)
def _target(source: str, schema: str, table: str) -> MetadataTarget:
    return MetadataTarget.model_construct(source_id=source, schema_name=schema, table=table, extras={})


def _extras(dataset: UUID, generation: UUID, version: int | None) -> dict[str, Any]:
    return {"dataset": {"uuid": str(dataset), "generation": str(generation)} | ({"version": version} if version is not None else {})}


def _context(fact: RunFact | DecisionFact, installation: Installation) -> MetadataContext:
    return MetadataContext.model_construct(
        job_id=f"{fact.dag}/{fact.job}",
        run_id=fact.run_id,
        namespace=None,
        cluster=installation.cluster,
        workspace=installation.workspace,
        tenant=fact.tenant,
        extras={},
    )


def _spelt(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
