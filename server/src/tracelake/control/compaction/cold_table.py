"""The cold table: one Delta table outside the layers, with one log entry per partition of records."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tracelake.control.cold.rows import TABLE_SCHEMA, moment_of
from tracelake.control.cold.store import ColdTable
from tracelake.control.commits.log_entries import AddAction, LogChange, LogPart, LogTable, entry
from tracelake_sdk.datasets.measurements import FileStatistics

LOCATION = "records/cold"  # below the root of the storage


@dataclass(frozen=True)
class PutFile:
    """A file of the cold table at its final path."""

    path: str  # below the root of the storage
    size: int
    org_id: str
    rows: int
    kinds: list[str]
    produced_from: str
    produced_to: str
    first_xid: str
    first_seq: int
    last_xid: str
    last_seq: int

    @staticmethod
    def of(path: str, size: int, found: dict[str, Any]) -> "PutFile":
        return PutFile(
            path, size, found["org_id"], found["rows"], found["kinds"], moment_of(found["produced_from"]).isoformat(),
            moment_of(found["produced_to"]).isoformat(), str(found["first"][0]), found["first"][1], str(found["last"][0]), found["last"][1],
        )  # fmt: skip


def file_path(partition: str, org: str, sha256: str) -> str:
    """Named by its content: the same file is stored once, however often it is put."""
    return f"{LOCATION}/{partition}/{org}-{sha256[:32]}.parquet"


def spell_files(files: list[PutFile]) -> str:
    return json.dumps([asdict(file) for file in files])


def log_entry(table: ColdTable, delta_version: int, partition: str, files: list[PutFile], at: datetime) -> bytes:
    adds = tuple(
        AddAction(
            file.path.removeprefix(f"{LOCATION}/"), file.size, file.rows,
            FileStatistics(min={"kind": file.kinds[0], "org_id": file.org_id}, max={"kind": file.kinds[-1], "org_id": file.org_id}, nulls={}), at,
        )
        for file in files
    )  # fmt: skip
    change = LogChange(
        table=LogTable(table.table_id, table.made_at, "metadata_records", "Metadata records that have left Postgres."),
        delta_version=delta_version,
        table_schema=TABLE_SCHEMA,
        schema_changed=False,
        adds=adds,
        removes=(),
        decided_at=at,
        parts=(LogPart(delta_version, partition, "retention"),),
    )
    return entry(change)


def added_paths(body: bytes) -> list[str]:
    """The paths that a log entry adds, below the root of the storage."""
    actions = [json.loads(line) for line in body.splitlines()]
    return [f"{LOCATION}/{action['add']['path']}" for action in actions if "add" in action]
