# ruff: noqa: S608  # the SQL is made of checks; names and literals in it are quoted by compile_duckdb
"""Uniqueness inside a batch: exact, and without a hash table of all keys.

Different hashes are different keys, so sorted hashes without equal neighbours prove that every key occurs once; only
rows with equal hashes are compared by their keys.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracelake.worker.measuring.compile_duckdb import files, names, present
from tracelake.worker.measuring.contract import Limits
from tracelake.worker.measuring.engine import CountingEngine
from tracelake.worker.measuring.keys import Hashes, repeated, sort_hashes

_DENSE = 8             # numbers that are this close on average are marked in a bitmap instead of hashed
_BYTES = {"MB": 10**6, "GB": 10**9}
_NEEDED = 24           # bytes a row, for hashes while they are sorted
_MANY = 1_000_000      # suspects; beyond this number grouping everything is not slower


def count_repeated(engine: CountingEngine, paths: Sequence[Path], columns: Sequence[str], *, rows: int, whole: bool, limits: Limits) -> int:
    """Rows whose key an earlier row has; `whole`: the columns contain whole numbers of at most 64 bits."""
    if not rows:
        return 0
    if rows * _NEEDED > _memory(limits):
        return _grouped(engine, f"SELECT {names(columns)} FROM {files(paths)} WHERE {present(columns)}", columns)
    if len(columns) == 1 and whole:
        return _numbers(engine, paths, columns[0], limits)
    suspects = repeated(sort_hashes(_hashes(engine, paths, columns), limits.threads))
    if not len(suspects):
        return 0
    return _grouped(engine, _suspicious(engine, paths, columns, suspects), columns)


def sample_repeated(engine: CountingEngine, paths: Sequence[Path], columns: Sequence[str], shown: Sequence[str], most: int) -> Any:
    """Values of `shown` of some rows that share their key with others; an Arrow table."""
    rows = f"SELECT * FROM {files(paths)} WHERE {present(columns)}"
    shared = f"SELECT {names(columns)} FROM ({rows}) GROUP BY ALL HAVING count(*) > 1"
    return engine.read_table(f"SELECT DISTINCT {names(shown)} FROM ({rows}) SEMI JOIN ({shared}) USING ({names(columns)}) ORDER BY ALL LIMIT {most}")


def _memory(limits: Limits) -> int:
    return int(limits.memory[:-2]) * _BYTES[limits.memory[-2:]]


def _grouped(engine: CountingEngine, rows: str, columns: Sequence[str]) -> int:
    found = engine.read_row(f"SELECT coalesce(sum(n - 1), 0)::BIGINT FROM (SELECT count(*) AS n FROM ({rows}) GROUP BY {names(columns)})")
    return int(found[0]) if found else 0


def _hashes(engine: CountingEngine, paths: Sequence[Path], columns: Sequence[str]) -> Hashes:
    """DuckDB's own hashes: they are compared here and never stored."""
    found = engine.connection.execute(f"SELECT hash({names(columns)}) AS h FROM {files(paths)} WHERE {present(columns)}").fetchnumpy()
    return np.asarray(found["h"])


def _suspicious(engine: CountingEngine, paths: Sequence[Path], columns: Sequence[str], suspects: Hashes) -> str:
    every = f"SELECT {names(columns)} FROM {files(paths)} WHERE {present(columns)}"
    if len(suspects) > _MANY:
        return every
    engine.connection.register("suspect", pa.table({"h": suspects}))
    return f"{every} AND hash({names(columns)}) IN (SELECT h FROM suspect)"


def _numbers(engine: CountingEngine, paths: Sequence[Path], column: str, limits: Limits) -> int:
    """Whole numbers need no hash: those that are close together are marked in a bitmap, others are sorted."""
    found = engine.connection.execute(f"SELECT {names([column])}::BIGINT AS v FROM {files(paths)} WHERE {present([column])}").fetchnumpy()
    values = np.asarray(found["v"])
    if not len(values):
        return 0
    low, high = int(values.min()), int(values.max())
    if high - low < _DENSE * len(values):
        seen = np.zeros(high - low + 1, np.bool_)
        seen[values - low] = True
        return len(values) - int(np.count_nonzero(seen))
    ordered = sort_hashes(values.view(np.uint64), limits.threads)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))
