"""Filters as query parameters: they select every record that may match, never fewer; `record_matching` makes the final choice. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tracelake.control.records.copy_lines import target_key
from tracelake_sdk.errors.records import OffsetUnknown
from tracelake_sdk.records import Comparison, PathFilter, RecordFilters, StoredRecord, Window
from tracelake_sdk.records.kinds import Kind

START: tuple[str, UUID] = ("infinity", UUID(int=2**128 - 1))  # newer than every record
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_TOKEN = 100


@dataclass(frozen=True)
class Visibility:
    """Which records of a tenant a caller may see: all, or those about these datasets and DAGs and those about none."""

    datasets: list[UUID] | None = None

    @property
    def all(self) -> bool:
        return self.datasets is None


@dataclass(frozen=True)
class Search:
    """The parameters of the query `candidates`."""

    values: dict[str, Any]

    @staticmethod
    def of(filters: RecordFilters, kinds: Mapping[str, Sequence[Kind]]) -> "Search":
        wanted = {name: kinds[name] for name in filters.kinds if name in kinds} if filters.kinds else kinds
        target = (filters.source_id, filters.schema_name, filters.table)
        tests = [test for condition in filters.where if (test := _test(condition)) is not None]
        produced_from, produced_to = _sides(filters.produced)
        window_from, window_to = _sides(filters.window)
        return Search({
            "kinds": list(wanted),
            # Records of older versions are matched after they were converted to this version.
            "versions": [filters.kind_version or versions[-1].version for versions in wanted.values()],
            "produced_from": produced_from, "produced_to": produced_to, "window_from": window_from, "window_to": window_to,
            "source_id": filters.source_id, "schema": filters.schema_name, "table": filters.table,
            "target_key": None if None in target else target_key((filters.source_id or "", filters.schema_name or "", filters.table or "")),
            "producer_id": filters.producer_id, "job_id": filters.job_id, "namespace": filters.namespace,
            "workspace": filters.workspace, "cluster": filters.cluster, "quality": filters.quality.value if filters.quality else None,
            "paths": [path for path, _, _, _ in tests], "tests": [test for _, test, _, _ in tests],
            "texts": [text for _, _, text, _ in tests], "numbers": [number for _, _, _, number in tests],
        })  # fmt: skip


def page_after(stored: StoredRecord) -> str:
    """The page token for the records after this one."""
    return f"{(stored.record.produced_at - _EPOCH) // timedelta(microseconds=1)}.{stored.id}"


def place_of(page: str | None) -> tuple[datetime | str, UUID]:
    """Raises OffsetUnknown."""
    if page is None:
        return START
    micros, _, id = page.partition(".")
    try:
        return _EPOCH + timedelta(microseconds=int(micros[:_LONGEST_TOKEN])), UUID(id)
    except (ValueError, OverflowError):
        raise OffsetUnknown from None


def _sides(window: Window | None) -> tuple[datetime | str, datetime | str]:
    return (window and window.start) or "-infinity", (window and window.end) or "infinity"


def _test(condition: PathFilter) -> tuple[str, str, str | None, float | None] | None:
    """Path, test and value; None if only `record_matching` can decide."""
    path, value = condition.path, condition.value
    match condition.op, value:
        case Comparison.EXISTS, True:
            return path, "exists", None, None
        case Comparison.EQ, bool():
            return path, "text_eq", "true" if value else "false", None
        case Comparison.IN, list() if all(isinstance(item, str) for item in value):
            return path, "text_in", json.dumps(value), None
        case Comparison.EQ | Comparison.LT | Comparison.LE | Comparison.GT | Comparison.GE, str():
            return path, f"text_{_side(condition.op)}", value, None
        case Comparison.EQ | Comparison.LT | Comparison.LE | Comparison.GT | Comparison.GE, int() | float():
            # As floating-point numbers, which may treat two different numbers as equal, but never equal ones as different.
            return (path, f"number_{_side(condition.op)}", None, float(value)) if abs(value) < 10**300 else None
        case _:
            return None


def _side(op: Comparison) -> str:
    return "eq" if op is Comparison.EQ else "le" if op in (Comparison.LT, Comparison.LE) else "ge"
