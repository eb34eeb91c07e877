"""Filters, windows, order and aggregates in Python, for repositories that read records one by one."""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from uuid import UUID

from tracelake_sdk.records.identity import NOWHERE, at_path, canonical
from tracelake_sdk.records.record import Aggregate, Aggregation, Comparison, Metric, PathFilter, RecordFilters, StoredRecord, Window


def newest_first(stored: StoredRecord) -> tuple[datetime, UUID]:
    """The sort key of records; the greatest is the latest."""
    return stored.record.produced_at, stored.id


def matches(stored: StoredRecord, filters: RecordFilters) -> bool:
    record, context = stored.record, stored.context
    wanted = (
        (filters.source_id, record.target.source_id),
        (filters.schema_name, record.target.schema_name),
        (filters.table, record.target.table),
        (filters.producer_id, record.producer_id),
        (filters.job_id, context.job_id),
        (filters.run_id, context.run_id),
        (filters.namespace, context.namespace),
        (filters.workspace, context.workspace),
        (filters.cluster, context.cluster),
        (filters.quality, record.quality),
    )
    return (
        (not filters.kinds or record.kind in filters.kinds)
        and all(expected is None or expected == found for expected, found in wanted)
        and (filters.produced is None or _inside(record.produced_at, filters.produced))
        and (filters.window is None or in_window(stored, filters.window))
        and (not filters.where or _meets(stored, filters.where))
    )


def in_window(stored: StoredRecord, window: Window) -> bool:
    """Overlap with the record's own half-open window; a record without one must have `produced_at` inside."""
    start, end = own_window(stored.record.payload)
    if start is None and end is None:
        return _inside(stored.record.produced_at, window)
    starts_in_time = window.end is None or start is None or start < window.end
    ends_late_enough = window.start is None or end is None or end > window.start
    return starts_in_time and ends_late_enough


def own_window(payload: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
    return _moment(payload.get("window_start")), _moment(payload.get("window_end"))


def document_of(stored: StoredRecord) -> dict[str, Any]:
    """The record as the object that paths address."""
    return {
        "payload": stored.record.payload,
        "extras": stored.record.extras,
        "context": stored.context.model_dump(mode="json", exclude_none=True),
        "target": stored.record.target.model_dump(mode="json"),
    }


def aggregate(records: Iterable[StoredRecord], aggregation: Aggregation) -> list[Aggregate]:
    """One value per group, in the order of the groups."""
    groups: dict[bytes, tuple[dict[str, Any], list[Any], int]] = {}
    for stored in records:
        document = document_of(stored)
        group = {name: _group_value(stored, document, name) for name in aggregation.group_by}
        first, values, count = groups.get(canonical(group), (group, [], 0))
        if aggregation.path is not None and _is_number(found := at_path(document, aggregation.path.split("."))):
            values.append(found)
        groups[canonical(group)] = (first, values, count + 1)
    if not groups and not aggregation.group_by:
        return [Aggregate(group={}, value=0 if aggregation.metric is Metric.COUNT else None, records=0)]
    return [Aggregate(group=group, value=_value(aggregation.metric, values, count), records=count) for _, (group, values, count) in sorted(groups.items())]


def _meets(stored: StoredRecord, conditions: list[PathFilter]) -> bool:
    document = document_of(stored)
    return all(_compare(condition, at_path(document, condition.steps)) for condition in conditions)


def _compare(condition: PathFilter, found: Any) -> bool:
    value = condition.value
    match condition.op:
        case Comparison.EXISTS:
            return (found is not NOWHERE) == value
        case Comparison.EQ:
            return _equal(found, value)
        case Comparison.NE:
            return not _equal(found, value)
        case Comparison.IN:
            return any(_equal(found, item) for item in value)
        case _ if not (_is_number(found) and _is_number(value)) and not (isinstance(found, str) and isinstance(value, str)):
            return False  # numbers compare with numbers, texts with texts, by code points
        case Comparison.LT:
            return found < value
        case Comparison.LE:
            return found <= value
        case Comparison.GT:
            return found > value
        case Comparison.GE:
            return found >= value


def _equal(found: Any, value: Any) -> bool:
    """1 equals 1.0, and does not equal true."""
    return found is not NOWHERE and isinstance(found, bool) == isinstance(value, bool) and found == value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _inside(moment: datetime, window: Window) -> bool:
    return (window.start is None or window.start <= moment) and (window.end is None or moment < window.end)


def _moment(value: Any) -> datetime | None:
    """In UTC. Text that is not a valid time, or is outside the years 1 to 9999, makes that side open; the kind's schema refuses it."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _group_value(stored: StoredRecord, document: dict[str, Any], name: str) -> Any:
    match name:
        case "kind":
            return stored.record.kind
        case "target":
            return list(stored.record.target.key)
        case "producer_id":
            return stored.record.producer_id
        case "day":
            return stored.record.produced_at.date().isoformat()
        case _:
            found = at_path(document, name.split("."))
            return None if found is NOWHERE else found


def _value(metric: Metric, values: list[Any], count: int) -> float | int | None:
    try:
        found = _computed(metric, values, count)
        return found if found is not None and isfinite(found) else None
    except OverflowError:  # JSON integers may be too large for a float
        return None


def _computed(metric: Metric, values: list[Any], count: int) -> float | int | None:
    match metric:
        case Metric.COUNT:
            return count
        case _ if not values:
            return None
        case Metric.SUM:
            return sum(values)
        case Metric.AVG:
            return sum(values) / len(values)
        case Metric.MIN:
            return min(values)
        case Metric.MAX:
            return max(values)
