"""The exact bytes of one Delta log entry: the same change always gives the same bytes, in any process at any time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from tracelake_sdk.datasets.measurements import FileStatistics

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Plain reader and writer versions: nothing here may need a newer one.
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
# Every version stays readable until Tracelake purges it: no other program may clean up the log or the files.
_CONFIGURATION = {
    "delta.columnMapping.mode": "none",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.enableDeletionVectors": "false",
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
}
_WITHOUT_BOUNDS = ("binary", "boolean")  # Delta defines no order of these types


@dataclass(frozen=True)
class LogTable:
    """The description of a table, without its content."""

    id: UUID  # of the dataset version
    created_at: datetime
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True)
class AddAction:
    path: str  # relative to the table's location
    size: int
    rows: int
    statistics: FileStatistics
    modified_at: datetime


@dataclass(frozen=True)
class RemoveAction:
    path: str
    size: int


@dataclass(frozen=True)
class LogPart:
    """One of the changes that this version carries."""

    place: int
    run_id: str
    decision_id: str


@dataclass(frozen=True)
class LogChange:
    """Everything that a log entry depends on; times are those of the decision."""

    table: LogTable
    delta_version: int
    table_schema: dict[str, Any]  # of the table after this change, in Delta's form
    schema_changed: bool          # compared with the previous version; the first version always has its schema
    adds: tuple[AddAction, ...]
    removes: tuple[RemoveAction, ...]
    decided_at: datetime
    parts: tuple[LogPart, ...]
    operation: Literal["WRITE", "REPLACE"] = "WRITE"
    data_change: bool = True      # False: the same rows in other files


def entry(change: LogChange) -> bytes:
    """The body of `_delta_log/{delta_version:020}.json`."""
    _refuse_contradictions(change)
    return "".join(canonical(action) + "\n" for action in _actions(change)).encode()


def canonical(value: Any) -> str:
    """Canonical JSON; NaN and infinities, which JSON lacks, raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _refuse_contradictions(change: LogChange) -> None:
    """Readers disagree on a path that one entry names twice."""
    paths = [file.path for file in (*change.adds, *change.removes)]
    if len(set(paths)) != len(paths):
        raise ValueError("one log entry names each file once")


def _actions(change: LogChange) -> Iterator[dict[str, Any]]:
    yield {"commitInfo": _commit_info(change)}
    if change.delta_version == 0:
        yield {"protocol": _PROTOCOL}
    if change.delta_version == 0 or change.schema_changed:
        yield {"metaData": _metadata(change.table, change.table_schema)}
    for removed in sorted(change.removes, key=lambda file: file.path):
        yield {"remove": _remove(removed, change)}
    for added in sorted(change.adds, key=lambda file: file.path):
        yield {"add": _add(added, change)}


def _commit_info(change: LogChange) -> dict[str, Any]:
    parts = sorted(change.parts, key=lambda part: part.place)
    return {
        "engineInfo": "tracelake",
        "isBlindAppend": False,
        "operation": change.operation,
        "operationParameters": {"mode": "Overwrite" if change.operation == "REPLACE" else "Append"},
        "timestamp": _milliseconds(change.decided_at),
        "userMetadata": canonical({"parts": [{"decision": part.decision_id, "place": part.place, "run": part.run_id} for part in parts]}),
    }


def _metadata(table: LogTable, table_schema: dict[str, Any]) -> dict[str, Any]:
    optional = {"name": table.name, "description": table.description}
    return {
        "configuration": _CONFIGURATION,
        "createdTime": _milliseconds(table.created_at),
        "format": {"options": {}, "provider": "parquet"},
        "id": str(table.id),
        "partitionColumns": [],  # scopes are not part of Delta
        "schemaString": canonical(table_schema),
    } | {key: value for key, value in optional.items() if value is not None}


def _add(file: AddAction, change: LogChange) -> dict[str, Any]:
    return {
        "dataChange": change.data_change,
        "modificationTime": _milliseconds(file.modified_at),
        "partitionValues": {},
        "path": file.path,
        "size": file.size,
        "stats": canonical(_statistics(file, change.table_schema)),
    }


def _statistics(file: AddAction, table_schema: dict[str, Any]) -> dict[str, Any]:
    """Readers expect a struct's statistics inside a struct, and refuse the whole table otherwise; a struct itself has none."""
    types: dict[str, Any] = {field["name"]: field["type"] for field in table_schema["fields"]}
    ordered = {name for name, type in types.items() if isinstance(type, str) and type not in _WITHOUT_BOUNDS}
    counted = {name for name, type in types.items() if isinstance(type, str) or type["type"] != "struct"}
    parts = {
        "maxValues": {name: value for name, value in file.statistics.max.items() if name in ordered},
        "minValues": {name: value for name, value in file.statistics.min.items() if name in ordered},
        "nullCount": {name: count for name, count in file.statistics.nulls.items() if name in counted},
    }
    return {"numRecords": file.rows} | {key: part for key, part in parts.items() if part}


def _remove(file: RemoveAction, change: LogChange) -> dict[str, Any]:
    return {
        "dataChange": change.data_change,
        "deletionTimestamp": _milliseconds(change.decided_at),
        "extendedFileMetadata": True,
        "partitionValues": {},
        "path": file.path,
        "size": file.size,
    }


def _milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)
