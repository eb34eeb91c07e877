"""Delta tables as the committer makes them: staged Parquet files, our own log entries, and what each version should hold."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow.parquet as pq

from tracelake.control.commits.checkpoints import CHECKPOINT_EVERY, checkpoint
from tracelake.control.commits.log_entries import AddAction, LogChange, LogPart, LogTable, RemoveAction, entry
from tracelake.storage.contract import PutResult
from tracelake.storage.delta_schemas import carries, delta_schema, not_carried
from tracelake.storage.local import LocalStorage
from tracelake.storage.paths import log_entry_path, staging_folder, table_location
from tracelake.worker.measuring.footers import facts_of, read_footer, statistics_of
from tracelake_sdk.datasets.scopes import FullScope, Scope, folder_of
from tracelake_sdk.rules.trees import columns_of

from .reading import Rows, canonical

START = datetime(2024, 1, 10, 5, 0, 0, tzinfo=UTC)


class WrittenTable:
    """A table, version by version."""

    def __init__(self, root: Path) -> None:
        self.storage = LocalStorage(root, lambda moment: None)
        self.location = table_location(uuid4(), uuid4(), uuid4())
        self.schema: dict[str, Any] | None = None
        self.schemas: list[dict[str, Any]] = []
        self._table = LogTable(UUID(self.location.rpartition("/")[2]), START, "orders", "What people bought: with “quotes” and\nlines")
        self._live: dict[str, tuple[Scope, AddAction, list[dict[str, Any]]]] = {}
        self._versions: list[list[dict[str, Any]]] = []

    @property
    def path(self) -> Path:
        return self.storage.local_path(self.location)

    @property
    def last(self) -> int:
        return len(self._versions) - 1

    def expected(self, version: int | None = None) -> Rows:
        number = self.last if version is None else version
        return canonical(self._versions[number], self.schemas[number])

    def decided_at(self, version: int) -> datetime:
        return START + timedelta(minutes=version, microseconds=123)

    def stage(self, rows: Any, scope: Scope | None = None) -> tuple[Scope, AddAction, list[dict[str, Any]], Any]:
        """Parquet by pyarrow, where an attempt would put it."""
        scope = scope or FullScope()
        path = f"{staging_folder(uuid4(), 1)}/{folder_of(scope)}/part-0.parquet"
        self.folder(path).mkdir(parents=True)
        pq.write_table(rows, self.path / path)
        return self.found(path, scope, rows.to_pylist())

    def folder(self, path: str) -> Path:
        return (self.path / path).parent

    def found(self, path: str, scope: Scope, meant: list[dict[str, Any]]) -> tuple[Scope, AddAction, list[dict[str, Any]], Any]:
        """A staged file, as measuring would report it, with its rows."""
        file = self.path / path
        footer = read_footer(file)
        assert not_carried(footer.schema) == []
        columns = columns_of(delta_schema(footer.schema))
        statistics = statistics_of(columns, facts_of(footer, columns))
        added = AddAction(path, file.stat().st_size, footer.rows, statistics, self.decided_at(len(self._versions)))
        return scope, added, meant, footer.schema

    def commit(self, *staged: tuple[Scope, AddAction, list[dict[str, Any]], Any], replace: list[Scope] | None = None, schema: Any = None) -> int:
        """The next version: these files, and of the replaced scopes nothing else."""
        version = len(self._versions)
        removed = [path for path, (scope, _, _) in self._live.items() if scope in (replace or [])]
        before = self.schema
        for written in [schema, *(arrow for *_, arrow in staged)]:
            if written is not None:
                after = carries(self.schema, delta_schema(written))
                assert after.table_schema is not None, after.refused
                self.schema = after.table_schema
        assert self.schema is not None
        change = LogChange(
            table=self._table, delta_version=version, table_schema=self.schema, schema_changed=before != self.schema,
            adds=tuple(added for _, added, _, _ in staged), removes=tuple(RemoveAction(path, self._live[path][1].size) for path in removed),
            decided_at=self.decided_at(version), parts=(LogPart(version + 1, "run", "decision"),), operation="REPLACE" if replace else "WRITE",
        )
        put = self.storage.put_new(log_entry_path(self.location, version), entry(change), self.decided_at(version))
        assert put is PutResult.CREATED
        for path in removed:
            del self._live[path]
        self._live |= {added.path: (scope, added, rows) for scope, added, rows, _ in staged}
        self._versions.append([row for _, _, rows in self._live.values() for row in rows])
        self.schemas.append(self.schema)
        if version and version % CHECKPOINT_EVERY == 0:
            assert checkpoint(self.storage, self.location, version, lambda moment: None)
        return version
