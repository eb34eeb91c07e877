# ruff: noqa: S608  # the SQL is made of checks; names and literals in it are quoted by compile_duckdb
"""Dedupe: which rows of an append repeat a key, of the batch itself or of the table.

The cost depends on the append: files of the table are skipped if the bounds of their keys, or the sorted hashes beside them, show that they
share no key; where hashes are equal, the keys themselves are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracelake.worker.measuring.compile_duckdb import files as rows_of
from tracelake.worker.measuring.compile_duckdb import name, names
from tracelake.worker.measuring.engine import CountingEngine
from tracelake.worker.measuring.keys import (
    FileKeys,
    Hashes,
    Mask,
    among,
    key_columns,
    may_share,
    read_keys,
    read_sidecar,
    repeated,
    shared,
)
from tracelake.worker.measuring.workplace import Workplace
from tracelake_sdk.datasets.measurements import TableFile
from tracelake_sdk.rules.trees import TypedColumn

_ROW, _FILE = "tracelake row", "tracelake file"  # names that no column of a table can have


@dataclass(frozen=True)
class KeyedFile:
    """A file of the append with its keys."""

    path: str
    local: Path
    keys: FileKeys


@dataclass(frozen=True)
class Key:
    columns: tuple[tuple[str, TypedColumn], ...]
    in_sidecars: bool  # whether bounds and hashes of the table's files are of this key

    @property
    def names(self) -> list[str]:
        return [column for column, _ in self.columns]


def find_repeats(
    engine: CountingEngine, work: Workplace, append: Sequence[KeyedFile], key: Key, current: Sequence[TableFile], *, inside: bool
) -> list[Mask]:
    """For each file of the append which rows repeat a key: of `current`, or (`inside`) of an earlier row by path and number."""
    # A stable sort merges runs that are already in order.
    ordered = np.sort(np.concatenate([file.keys.ordered for file in append] or [np.empty(0, np.uint64)]), kind="stable")
    suspects = [repeated(ordered)] if inside else []
    met: list[Path] = []
    for file in current:
        if found := _meeting(work, ordered, append, key, file):
            suspects.append(found[1])
            met.append(found[0])
    suspicious = np.unique(np.concatenate(suspects)) if suspects else np.empty(0, np.uint64)
    masks = [np.zeros(len(file.keys.hashes), np.bool_) for file in append]
    if not len(suspicious):
        return masks
    rows = _rows_with(append, key, suspicious)
    for file, row in _verified(engine, rows, key, met, inside=inside):
        masks[file][row] = True
    return masks


def _meeting(work: Workplace, ordered: Hashes, append: Sequence[KeyedFile], key: Key, file: TableFile) -> tuple[Path, Hashes] | None:
    """A file of the table and the hashes that it shares with the append; None if it shares none."""
    if not file.rows or not len(ordered) or (key.in_sidecars and not any(may_share(new.keys.low, new.keys.high, file) for new in append)):
        return None
    if key.in_sidecars and file.hashes is not None:
        there = read_sidecar(work.local(file.hashes))
    elif not set(key.names) <= set(pq.read_schema(work.local(file.path)).names):
        return None  # written before the table had these columns: no row of it has a key
    else:
        there = read_keys(work.local(file.path), key.columns).ordered
    both = shared(ordered, there)
    return (work.local(file.path), np.unique(both)) if len(both) else None


def _rows_with(append: Sequence[KeyedFile], key: Key, suspicious: Hashes) -> Any:
    """The keys of all rows whose hashes are suspicious, with their file and row number."""
    parts: list[Any] = []
    for number, file in enumerate(append):
        wanted = file.keys.present & among(file.keys.hashes, suspicious)
        if not wanted.any():
            continue
        start = 0
        for table in key_columns(file.local, key.names):
            rows = np.flatnonzero(wanted[start : start + table.num_rows])
            if len(rows):
                part = table.take(pa.array(rows)).append_column(_FILE, pa.array(np.full(len(rows), number, np.int64)))
                parts.append(part.append_column(_ROW, pa.array(rows + start)).replace_schema_metadata(None))
            start += table.num_rows
    return pa.concat_tables(parts)


def _verified(engine: CountingEngine, rows: Any, key: Key, met: Sequence[Path], *, inside: bool) -> list[tuple[int, int]]:
    """File and row number of the rows whose real key is repeated."""
    engine.connection.register("suspect", rows)
    place = f"{name(_FILE)}, {name(_ROW)}"
    conditions = [f"row_number() OVER (PARTITION BY {names(key.names)} ORDER BY {place}) > 1"] if inside else []
    if met:
        known = f"SELECT DISTINCT {names(key.names)} FROM {rows_of(met)} SEMI JOIN suspect USING ({names(key.names)})"
        engine.connection.execute(f"CREATE OR REPLACE TEMP TABLE known AS {known}")
        conditions.append(f"({names(key.names)}) IN (SELECT ({names(key.names)}) FROM known)")
    found = engine.connection.execute(f"SELECT {place} FROM (SELECT {place}, ({' OR '.join(conditions)}) AS repeats FROM suspect) WHERE repeats").fetchall()
    engine.connection.unregister("suspect")
    return found


def write_without(work: Workplace, source: Path, path: str, dropped: Mask) -> None:
    """The rows that stay, in their order and with their types, as a new file of the table."""
    with work.new_file(path) as draft, pq.ParquetFile(source) as parquet:
        compression = parquet.metadata.row_group(0).column(0).compression if parquet.metadata.num_row_groups else "SNAPPY"
        with pq.ParquetWriter(draft, parquet.schema_arrow, compression=compression, store_decimal_as_integer=True) as writer:
            start = 0
            for group in range(parquet.metadata.num_row_groups):
                table = parquet.read_row_group(group)
                kept = table.filter(pa.array(~dropped[start : start + table.num_rows]))
                if kept.num_rows:
                    writer.write_table(kept)
                start += table.num_rows
