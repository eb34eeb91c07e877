"""What must be true of lines and of the lake when everything is quiet, whatever was killed on the way there."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pyarrow.parquet as pq
from deltalake import DeltaTable

from support.accounting import Account, account_for, rows_of
from support.databases import StateDatabase
from tracelake.storage.paths import table_location

# Beside those of `accounting`, which are asked of every quiet system. Each names what it finds, and must find nothing.
LINE_QUESTIONS: dict[str, LiteralString] = {
    "a line is stopped": "SELECT generation_id, stopped_reason FROM line WHERE stopped_at IS NOT NULL",
    "a change is of another attempt than the one that succeeded": """
        SELECT change.task_id, change.attempt, attempt.outcome FROM change
        JOIN task_attempt AS attempt ON attempt.task_id = change.task_id AND attempt.attempt = change.attempt
        WHERE attempt.outcome <> 'succeeded'
    """,
    "a file is of a refused attempt": """
        SELECT file.path FROM data_file AS file
        JOIN promotion_status AS decision ON NOT decision.allowed AND file.path LIKE decision.task_id || '-' || decision.attempt || '/%'
    """,
}


@dataclass(frozen=True)
class Table:
    """A table as Delta readers see it, by Delta version."""

    location: Path
    versions: list[list[tuple[Any, ...]]]   # the rows of each, sorted

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return self.versions[-1] if self.versions else []


def account_for_lines(database: StateDatabase, lake: Path, *, last: int | None = None) -> tuple[Account, dict[str, Table]]:
    """Everything is accounted for, in Postgres and in the lake, or an AssertionError lists what is not; also the tables, by the job that writes them.

    `last`: only so many versions of each table are read.
    """
    account = account_in_postgres(database)
    tables = rows_of(
        database,
        """
        SELECT job_key.name, dataset.org_id, dataset.id, version.id FROM dataset_version AS version
        JOIN dataset ON dataset.id = version.dataset_id JOIN job_key ON job_key.id = dataset.job_key_id WHERE dataset.has_files
        """,
    )
    return account, {job: read_table(database, lake / table_location(org, dataset, id), id, last=last) for job, org, dataset, id in tables}


def account_in_postgres(database: StateDatabase) -> Account:
    """The part that asks Postgres alone, wherever the lake is."""
    account = account_for(database)
    with psycopg.connect(database.superuser_url) as connection:
        found = {what: connection.execute(question).fetchall() for what, question in LINE_QUESTIONS.items()}
    assert not any(found.values()), "\n".join(f"{what}: {len(rows)}, such as {rows[0]}" for what, rows in found.items() if rows)
    return account


def read_table(database: StateDatabase, location: Path, id: UUID, *, last: int | None = None) -> Table:
    """Each version is read by deltalake, and has the very bytes and files that Postgres knows."""
    recorded = rows_of(database, "SELECT delta_version, sha256 FROM delta_commit WHERE dataset_version_id = %s ORDER BY delta_version", id)
    entries = log_entries(location)
    assert [int(entry.stem) for entry in entries] == [version for version, _ in recorded]
    assert [hashlib.sha256(entry.read_bytes()).digest() for entry in entries] == [sha256 for _, sha256 in recorded]
    versions: list[list[tuple[Any, ...]]] = []
    for version, _ in recorded[-last:] if last else recorded:
        files = [Path(uri.removeprefix("file://")) for uri in DeltaTable(str(location), version=version).file_uris()]
        assert {str(file.relative_to(location)) for file in files} == _files_of(database, id, version)
        versions.append(sorted((tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()), key=str))
        counted = rows_of(database, "SELECT row_count FROM data_version WHERE dataset_version_id = %s AND delta_version = %s", id, version)
        assert counted == [(len(versions[-1]),)]
    return Table(location, versions)


def log_entries(location: Path) -> list[Path]:
    return sorted((location / "_delta_log").glob("[0-9]*.json"))


def _files_of(database: StateDatabase, id: UUID, delta_version: int) -> set[str]:
    rows = rows_of(
        database,
        """
        SELECT file.path FROM data_file AS file JOIN data_version AS version USING (dataset_version_id)
        WHERE file.dataset_version_id = %s AND version.delta_version = %s
          AND file.added_version <= version.version AND (file.removed_version IS NULL OR file.removed_version > version.version)
        """,
        id,
        delta_version,
    )
    return {path for (path,) in rows}


def staged_files(lake: Path) -> set[Path]:
    """Every Parquet file and sidecar of the lake, named by a table or not; without checkpoints."""
    return {path for path in lake.rglob("*") if path.is_file() and "_delta_log" not in path.parts}


def named_files(database: StateDatabase, lake: Path) -> set[Path]:
    """Those that a table ever named."""
    rows = rows_of(
        database,
        """
        SELECT dataset.org_id, dataset.id, version.id, file.path, file.hashes FROM data_file AS file
        JOIN dataset_version AS version ON version.id = file.dataset_version_id JOIN dataset ON dataset.id = version.dataset_id
        """,
    )
    return {lake / table_location(org, dataset, id) / path for org, dataset, id, *paths in rows for path in paths if path is not None}
