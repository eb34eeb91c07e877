"""Rows of the cold table: their columns, and how a record of Postgres becomes one."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tracelake.control.cold.store import LeavingRow
from tracelake_sdk.records import MetadataContext, MetadataRecord
from tracelake_sdk.records.compaction_program import ColumnType
from tracelake_sdk.records.identity import content_hash, identity_of
from tracelake_sdk.records.kinds import Kind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

COLUMNS: dict[str, ColumnType] = {
    "org_id": "string",
    "kind": "string",
    "source_id": "string",
    "schema_name": "string",
    "table_name": "string",
    "produced_at": "timestamp",
    "id": "string",
    "kind_version": "integer",
    "producer_id": "string",
    "quality": "string",
    "job_id": "string",
    "run_id": "string",
    "namespace": "string",
    "cluster": "string",
    "workspace": "string",
    "window_start": "timestamp",
    "window_end": "timestamp",
    "dataset_ids": "strings",
    "record": "string",      # JSON, as it was emitted
    "context": "string",
    "stored_at": "timestamp",
    "xid": "long",           # with seq: its position in the log
    "seq": "long",
    "identity": "string",
    "content": "string",
    "retention_class": "string",
}
SORT = ["kind", "source_id", "schema_name", "table_name", "produced_at", "id"]
_DELTA_TYPES: dict[ColumnType, Any] = {
    "string": "string",
    "strings": {"type": "array", "elementType": "string", "containsNull": True},
    "integer": "integer",
    "long": "long",
    "timestamp": "timestamp",
}
TABLE_SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [{"name": name, "type": _DELTA_TYPES[type], "nullable": True, "metadata": {}} for name, type in COLUMNS.items()],
}


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def values_of(row: LeavingRow, kind: Kind) -> dict[str, Any]:
    """The row of the cold table, with the identity and content hash it was stored with."""
    record, context = MetadataRecord.model_validate_json(row.record), MetadataContext.model_validate_json(row.context)
    found = {name: _value(getattr(row, name)) for name in COLUMNS if name not in ("identity", "content", "xid")}
    found |= {"xid": int(row.xid), "identity": identity_of(record, context, kind), "content": content_hash(record, context)}
    return {name: found[name] for name in COLUMNS}


def _value(value: Any) -> Any:
    match value:
        case datetime():
            return micros(value)
        case list():
            return [str(item) for item in value]
        case int() | None:
            return value
        case _:
            return str(value)
