"""Builders of records, so that all producers write windows, slice filters, run ids and datasets in the same form."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from tracelake_sdk.records.identity import canonical
from tracelake_sdk.records.record import MetadataContext, MetadataRecord, MetadataTarget, Quality, Window

Scalar = str | int | float | bool | None
Condition = tuple[str, Literal["eq", "ne", "lt", "le", "gt", "ge", "in"], Any]
Value = int | float | str | None


def moment(value: datetime) -> str:
    """A time as payloads contain it: in UTC, ending in Z. A time without a zone raises ValueError."""
    if value.tzinfo is None:
        raise ValueError("a moment has a time zone")
    return value.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def window(start: datetime | None, end: datetime | None) -> dict[str, str | None]:
    """The two payload properties of a half-open window."""
    window = Window(start=start, end=end)
    return {"window_start": window.start and moment(window.start), "window_end": window.end and moment(window.end)}


def slice_filter(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Conditions in canonical order, also the lists of `in`, without duplicates."""
    spelt = [{"column": column, "op": op, "value": _ordered(value) if op == "in" else value} for column, op, value in conditions]
    return _ordered(spelt, lambda one: canonical([one["column"], one["op"], one["value"]]))


def attempt_run_id(run: str, attempt: int) -> str:
    """The id of one attempt of a run: a retry has another."""
    if attempt < 1:
        raise ValueError("attempts are counted from 1")
    return f"{run}:{attempt}"


def in_run(context: MetadataContext, *, job: str | None, run: str, attempt: int) -> MetadataContext:
    """The context of one attempt of a run of a job."""
    return MetadataContext.model_validate(context.model_dump() | {"job_id": job, "run_id": attempt_run_id(run, attempt)})


def dataset_target(dataset: UUID, layer: str, *, name: str | None = None) -> MetadataTarget:
    """The target of a record about a registered dataset."""
    return MetadataTarget(source_id="lake", schema=layer, table=str(dataset), extras={"name": name} if name else {})


def dataset_extras(dataset: UUID, generation: UUID, version: int | None) -> dict[str, Any]:
    """The extras of a record about a registered dataset; a candidate that was not promoted has no version."""
    return {"dataset": {"uuid": str(dataset), "generation": str(generation), "version": version}}


@dataclass(frozen=True)
class Thresholds:
    """The allowed difference between source and target; if both are given, the greater one applies."""

    absolute: float | None = None
    percent: float | None = None
    tolerance: float | None = None  # the effective value


@dataclass(frozen=True)
class Variability:
    """How a band was computed from earlier values."""

    method: Literal["mean", "ewma"] = "mean"
    lookback_runs: int = 7
    min_history: int = 3
    confidence: float = 0.95
    smoothing: float | None = None
    robust: bool = False
    values: int = 0
    middle: float | None = None
    deviation: float | None = None
    fallback: Literal["short_history", "zero_variance"] | None = None


@dataclass(frozen=True)
class DrillDown:
    """The position of one result in a drill-down, and how far it went."""

    level: str | None = None  # None: the whole window
    group: dict[str, Scalar] | None = None
    levels: Sequence[str] = ()
    stopped_at: str | None = None


@dataclass(frozen=True)
class SnapshotColumn:
    """A column as a catalog describes it."""

    name: str
    type: str
    nullable: bool
    position: int | None = None
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    key: bool | None = None


@dataclass(frozen=True)
class CatalogChange:
    """One difference between two snapshots."""

    change: str
    column: str | None
    breaking: bool
    before: str | None = None
    after: str | None = None


def fingerprint(columns: Sequence[SnapshotColumn]) -> str:
    """Equal for equal columns in equal order."""
    return hashlib.sha256(canonical([_without_none(asdict(column)) for column in columns])).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class RecordBuilder:
    """Makes records about one target, by one producer."""

    target: MetadataTarget
    producer_id: str
    extras: dict[str, Any] = field(default_factory=dict)
    quality: Quality | None = Quality.MEASURED
    now: Callable[[], datetime] = _now

    def record(self, kind: str, payload: dict[str, Any], *, extras: dict[str, Any] | None = None, produced_at: datetime | None = None) -> MetadataRecord:
        """A record of any kind."""
        return MetadataRecord(
            target=self.target, kind=kind, payload=payload, producer_id=self.producer_id, quality=self.quality,
            produced_at=produced_at or self.now(), extras=self.extras | (extras or {}),
        )

    def ingestion_volume(
        self, *, rows: int, bytes: int | None, start: datetime | None = None, end: datetime | None = None, conditions: Iterable[Condition] = (),
        watermark_before: Value = None, watermark_after: Value = None, watermark_column: str | None = None,
        mode: Literal["full", "incremental"] | None = None, source_rows: int | None = None, rejected_rows: int | None = None, files: int | None = None,
        extras: dict[str, Any] | None = None,
    ) -> MetadataRecord:
        """Guardrail actions and the number of removed duplicates are in `extras`."""
        optional = _without_none({"watermark_column": watermark_column, "mode": mode, "source_rows": source_rows, "rejected_rows": rejected_rows, "files": files})
        payload = {"rows": rows, "bytes": bytes, "watermark_before": watermark_before, "watermark_after": watermark_after}
        return self.record("ingestion_volume", payload | _part(start, end, conditions) | optional, extras=extras)

    def ingestion_runtime(
        self, *, duration_seconds: float, retries: int, outcome: Literal["success", "failed", "timeout", "canceled"],
        start: datetime | None = None, end: datetime | None = None, conditions: Iterable[Condition] = (),
        started_at: datetime | None = None, ended_at: datetime | None = None, error_class: str | None = None,
        timeout_seconds: float | None = None, sla_seconds: float | None = None, frequency_seconds: float | None = None, extras: dict[str, Any] | None = None,
    ) -> MetadataRecord:
        optional = _without_none({
            "started_at": started_at and moment(started_at), "ended_at": ended_at and moment(ended_at), "error_class": error_class,
            "timeout_seconds": timeout_seconds, "sla_seconds": sla_seconds, "frequency_seconds": frequency_seconds,
        })
        payload = {"duration_seconds": duration_seconds, "retries": retries, "outcome": outcome}
        return self.record("ingestion_runtime", payload | _part(start, end, conditions) | optional, extras=extras)

    def recon_result(
        self, *, check: str, metric: str, outcome: Literal["pass", "warn", "fail", "error", "not_evaluated"], source_value: Value, target_value: Value,
        thresholds: Thresholds, start: datetime | None = None, end: datetime | None = None, conditions: Iterable[Condition] = (),
        variability: Variability | None = None, band: tuple[float, float] | None = None, baseline_run_ids: Sequence[str] = (),
        drill_down: DrillDown | None = None, on_fail: Literal["block", "alert", "record"] | None = None, extras: dict[str, Any] | None = None,
    ) -> MetadataRecord:
        position = drill_down or DrillDown()
        payload = {
            "check": check, "metric": metric, "outcome": outcome, "source_value": source_value, "target_value": target_value,
            "difference": _difference(source_value, target_value),
            "thresholds": asdict(thresholds),
            "variability": variability and asdict(variability),
            "band": band and {"low": band[0], "high": band[1]},
            "baseline_run_ids": list(baseline_run_ids),
            **asdict(position), "levels": list(position.levels),
        }
        return self.record("recon_result", payload | _part(start, end, conditions) | _without_none({"on_fail": on_fail}), extras=extras)

    def schema_snapshot(self, columns: Sequence[SnapshotColumn], *, catalog: str | None = None, extras: dict[str, Any] | None = None) -> MetadataRecord:
        payload = {"columns": [_without_none(asdict(column)) for column in columns], "fingerprint": fingerprint(columns)}
        return self.record("schema_snapshot", payload | _without_none({"catalog": catalog}), extras=extras)

    def statistics_snapshot(
        self, *, rows: int | None, bytes: int | None, exact: bool, columns: Sequence[dict[str, Any]] = (), sampled_fraction: float | None = None,
        extras: dict[str, Any] | None = None,
    ) -> MetadataRecord:
        payload = {"rows": rows, "bytes": bytes, "columns": list(columns), "exact": exact}
        return self.record("statistics_snapshot", payload | _without_none({"sampled_fraction": sampled_fraction}), extras=extras)

    def catalog_diff(
        self, *, from_fingerprint: str | None, to_fingerprint: str | None, changes: Sequence[CatalogChange], extras: dict[str, Any] | None = None
    ) -> MetadataRecord:
        """Breaking if one of the changes is breaking."""
        payload = {
            "from_fingerprint": from_fingerprint, "to_fingerprint": to_fingerprint, "breaking": any(change.breaking for change in changes),
            "changes": [asdict(change) for change in changes],
        }
        return self.record("catalog_diff", payload, extras=extras)


def _part(start: datetime | None, end: datetime | None, conditions: Iterable[Condition]) -> dict[str, Any]:
    return {**window(start, end), "slice_filter": slice_filter(conditions)}


def _difference(source: Value, target: Value) -> float | int | None:
    return target - source if isinstance(source, (int, float)) and isinstance(target, (int, float)) else None


def _without_none(optional: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in optional.items() if value is not None}


def _ordered(items: Iterable[Any], key: Callable[[Any], bytes] = canonical) -> list[Any]:
    """Sorted by their canonical JSON, without duplicates."""
    return [item for _, item in sorted({key(item): item for item in items}.items())]
