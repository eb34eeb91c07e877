"""A batch: the files that an attempt staged, sealed and opened, with their schema, their scopes and their keys."""

import re
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tracelake.storage.delta_schemas import delta_schema, not_carried, schema_hash
from tracelake.worker.measuring.contract import OutputToMeasure, Refused
from tracelake.worker.measuring.dedupe import Key, KeyedFile, find_repeats, write_without
from tracelake.worker.measuring.engine import CountingEngine
from tracelake.worker.measuring.footers import ColumnFacts, facts_of, read_footer, statistics_of
from tracelake.worker.measuring.keys import SIDECAR, FileKeys, Mask, read_keys
from tracelake.worker.measuring.rule_measuring import Rows
from tracelake.worker.measuring.scoping import announced, count_outside, first_key, scope_of
from tracelake.worker.measuring.sealing import seal
from tracelake.worker.measuring.workplace import Workplace
from tracelake_sdk.datasets.measurements import StagedFile, TableFile
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.rules.trees import TypedColumn, ValueKind, columns_of

_AGAIN = re.compile(r"-u[0-9a-f]{16}$")  # the end of a file name that was made here


@dataclass(frozen=True)
class BatchFile:
    path: str
    local: Path
    size: int
    seal: str
    rows: int
    columns: Mapping[str, TypedColumn]
    table_schema: dict[str, Any]
    facts: Mapping[str, ColumnFacts]
    keys: FileKeys | None = None
    scope: Scope | None = None


@dataclass(frozen=True)
class StagedBatch:
    """Only files with rows; of an empty file only the schema is used."""

    files: tuple[BatchFile, ...]
    table_schema: dict[str, Any]
    columns: Mapping[str, TypedColumn]
    duplicates: int = 0

    @property
    def rows(self) -> Rows:
        return rows_of(self.files, self.columns)

    def seals(self, work: Workplace) -> dict[str, str]:
        return {work.stored(file.path): file.seal for file in self.files}


def rows_of(files: Sequence[BatchFile], columns: Mapping[str, TypedColumn]) -> Rows:
    held = frozenset(column for file in files for column in file.columns)
    return Rows(tuple(file.local for file in files), tuple((file.rows, file.facts) for file in files), columns, held)


def open_batch(work: Workplace, paths: Sequence[str], table_schema: dict[str, Any] | None, *, sealed: Mapping[str, str] | None = None) -> StagedBatch:
    """Seals and opens these files; `table_schema` is used if there is none."""
    for path in paths:
        work.check(path)
    seals = seal(work.storage, [work.stored(path) for path in paths]) if sealed is None else sealed
    files = [open_file(work, path, seals[work.stored(path)]) for path in sorted(paths)]
    schema = _joined([file.table_schema for file in files], table_schema)
    return StagedBatch(tuple(file for file in files if file.rows), schema, columns_of(schema))


def open_file(work: Workplace, path: str, sealed: str) -> BatchFile:
    local = work.local(path)
    footer = read_footer(local)
    if refused := not_carried(footer.schema):
        raise Refused("schema_not_carried", " ".join(refused))
    schema = delta_schema(footer.schema)
    columns = columns_of(schema)
    return BatchFile(path, local, local.stat().st_size, sealed, footer.rows, columns, schema, facts_of(footer, columns))


def _joined(schemas: Sequence[dict[str, Any]], otherwise: dict[str, Any] | None) -> dict[str, Any]:
    """Every column of any file, in the order in which they are met."""
    if not schemas:
        return otherwise or {"type": "struct", "fields": []}
    fields: dict[str, dict[str, Any]] = {}
    for schema in schemas:
        for field in schema["fields"]:
            known = fields.setdefault(field["name"], field)
            if known["type"] != field["type"]:
                raise Refused("schemas_differ", f"The column {field['name']} has different types in different files of the output; write all files with one schema.")
    if len({name.lower() for name in fields}) < len(fields):
        raise Refused("schemas_differ", "Files of the output spell a column differently; write all files with one schema.")
    return {"type": "struct", "fields": list(fields.values())}


def scoped(engine: CountingEngine, work: Workplace, output: OutputToMeasure, batch: StagedBatch) -> StagedBatch:
    """The batch with the scope of each file, which its folder determines."""
    spec = output.staged.partition_by
    files: list[BatchFile] = []
    for file in batch.files:
        parts = file.path.split("/")
        folder = parts[1] if len(parts) > 2 else ""  # {attempt}/{folder of the scope}/…
        key = first_key(engine, file.local, spec, file.columns) if spec and spec.cursor is None and folder.startswith("p-") else None
        files.append(replace(file, scope=scope_of(output, folder, key)))
    return replace(batch, files=tuple(files))


def outside_scope(engine: CountingEngine, output: OutputToMeasure, batch: StagedBatch) -> int:
    outside = 0
    by_scope: dict[Scope, list[BatchFile]] = {}
    for file in batch.files:
        if file.scope is not None:
            by_scope.setdefault(file.scope, []).append(file)
    for scope, files in by_scope.items():
        if not announced(output, scope):
            outside += sum(file.rows for file in files)
        else:
            members = [(file.local, file.rows, file.facts) for file in files]
            outside += count_outside(engine, output.staged.partition_by, batch.columns, scope, members)
    return outside


def key_of(unique_key: Sequence[str], batch: StagedBatch) -> Key:
    columns: list[tuple[str, TypedColumn]] = []
    for name in unique_key:
        if batch.files and any(name not in file.columns for file in batch.files):
            raise Refused("key_missing", f"The column {name} of the unique key is not in every file of the output.")
        column = batch.columns.get(name, TypedColumn(ValueKind.OTHER))
        if batch.files and column.kind is ValueKind.OTHER:
            raise Refused("key_missing", f"The column {name} is nested or binary and cannot be part of a unique key.")
        columns.append((name, column))
    return Key(tuple(columns), in_sidecars=True)


def keyed(batch: StagedBatch, key: Key, threads: int) -> StagedBatch:
    """The batch with the keys of each file."""

    def with_keys(file: BatchFile) -> BatchFile:
        return replace(file, keys=read_keys(file.local, key.columns))

    with ThreadPoolExecutor(threads) as pool:
        return replace(batch, files=tuple(pool.map(with_keys, batch.files)))


def null_keys(batch: StagedBatch) -> int:
    """Rows without a key: those with a null in a key column."""
    return sum(int(np.count_nonzero(~file.keys.present)) for file in batch.files if file.keys is not None)


def keyed_files(batch: StagedBatch) -> list[KeyedFile]:
    return [KeyedFile(file.path, file.local, file.keys) for file in batch.files if file.keys is not None]


def without_repeats(
    engine: CountingEngine, work: Workplace, batch: StagedBatch, key: Key, current: Sequence[TableFile], *, inside: bool
) -> StagedBatch:
    """A file with rows that repeat a key is written again without them; the first row of a key stays."""
    masks = find_repeats(engine, work, keyed_files(batch), key, current, inside=inside)
    files: list[BatchFile] = []
    for file, repeats in zip(batch.files, masks, strict=True):
        if not repeats.any():
            files.append(file)
        elif not repeats.all():
            files.append(_written_again(work, file, key, repeats))
    return replace(batch, files=tuple(files), duplicates=batch.duplicates + sum(int(repeats.sum()) for repeats in masks))


def _written_again(work: Workplace, file: BatchFile, key: Key, repeats: Mask) -> BatchFile:
    # Never reuse a name: a slow attempt may have reported a file of that name, and it may be part of the table by now.
    path = f"{_AGAIN.sub('', file.path.removesuffix('.parquet'))}-u{secrets.token_hex(8)}.parquet"
    write_without(work, file.local, path, repeats)
    sealed = seal(work.storage, [work.stored(path)])
    again = open_file(work, path, sealed[work.stored(path)])
    return replace(again, keys=read_keys(again.local, key.columns), scope=file.scope)


def staged_file(work: Workplace, file: BatchFile) -> StagedFile:
    """As it is reported; the hashes of its keys are stored beside it."""
    low = high = hashes = None
    if file.keys is not None:
        low, high, hashes = file.keys.low, file.keys.high, file.path + SIDECAR
        with work.new_file(hashes) as draft:
            draft.write_bytes(file.keys.ordered.astype(np.dtype("<u8"), copy=False).tobytes())
        seal(work.storage, [work.stored(hashes)])
    if file.scope is None:
        raise Refused("scope_unknown", "A file of the output has no scope.")
    return StagedFile(
        path=file.path, size=file.size, rows=file.rows, scope=file.scope, key_min=low, key_max=high, hashes=hashes,
        seal=file.seal, statistics=statistics_of(file.columns, file.facts),
    )  # fmt: skip


def hash_of(batch: StagedBatch) -> str:
    return schema_hash(batch.table_schema)
