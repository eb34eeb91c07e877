"""The files of a table as local paths for an engine: local files as they are, files of an object store as copies for one query."""

import secrets
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracelake.query.engine.contract import TableToRead
from tracelake.storage.contract import Storage
from tracelake_sdk.errors import Purged, QueryOverLimit
from tracelake_sdk.queries import PinnedTable


class Copies:
    def __init__(self, storage: Storage, folder: Path, *, most_bytes: int) -> None:
        self._storage: Storage = storage
        self._folder: Path = folder
        self._most_bytes: int = most_bytes

    @contextmanager
    def local(self, tables: Sequence[PinnedTable]) -> Generator[list[TableToRead]]:
        """The tables with local paths; copies are deleted at the end of this block."""
        copied = self._folder / f"copies-{secrets.token_hex(8)}"
        try:
            yield [_to_read(pinned, self._paths(pinned, copied)) for pinned in tables]
        finally:
            if copied.exists():
                shutil.rmtree(copied, ignore_errors=True)

    def _paths(self, pinned: PinnedTable, copied: Path) -> dict[str, list[str]]:
        """By the hash of their schema, in the order of the table's files."""
        found: dict[str, list[str]] = {}
        root = self._storage.local_path(pinned.table.location)
        for path, hashed in pinned.table.files:
            # Paths of tables are plain; the database checks that.
            local = f"{root}/{path}" if root is not None else self._copy(f"{pinned.table.location}/{path}", copied)
            found.setdefault(hashed, []).append(local)
        return found

    def _copy(self, path: str, copied: Path) -> str:
        copied.mkdir(parents=True, exist_ok=True)
        size = self._storage.size(path)
        taken = sum(file.stat().st_size for file in copied.iterdir())
        if size is not None and taken + size > self._most_bytes:
            raise QueryOverLimit(f"The query reads more than {self._most_bytes // 2**20} MiB of files that are not on this machine; select less.", limit="copies")
        body = self._storage.read(path)
        if body is None:
            raise Purged
        copy = copied / f"{secrets.token_hex(16)}.parquet"
        copy.write_bytes(body)
        return str(copy)


def _to_read(pinned: PinnedTable, files: dict[str, list[str]]) -> TableToRead:
    table = pinned.table
    return TableToRead(name=pinned.pin.name, table_schema=table.table_schema, schema_hash=table.schema_hash, unique_key=table.unique_key, files=files)
