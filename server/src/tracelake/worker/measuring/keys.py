"""Keys: their bounds, and their 64-bit hashes, which are the same in every version and on every machine.

The hash of a key: for each column in order, its value as 64-bit words (integers, days, microseconds, truth values: one; decimals: the two
halves of their units; floating numbers: their bits as doubles, with one zero and one NaN; texts: their length in bytes, then their bytes in
words of eight, little-endian and filled with zeros, or one word of BLAKE2b for long texts), each added as `state = mix(state ^ word)`.
"""

import hashlib
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracelake_sdk.datasets.measurements import TableFile
from tracelake_sdk.rules.trees import TypedColumn, ValueKind

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Bound = int | str | None

SIDECAR = ".keys"
_SEED = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND, _SHIFT = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)
_LONG_TEXT = 256        # bytes
_LONGEST_BOUND = 256    # characters
_SORTED_TOGETHER = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FileKeys:
    """The keys of one file: a hash for each row, which rows have a key at all, and the sorted hashes of those."""

    hashes: Hashes
    present: Mask
    ordered: Hashes
    low: Bound
    high: Bound


def read_keys(file: Path, columns: Sequence[tuple[str, TypedColumn]]) -> FileKeys:
    hashes: list[Hashes] = []
    present: list[Mask] = []
    lows: list[Any] = []
    highs: list[Any] = []
    for table in key_columns(file, [column for column, _ in columns]):
        part, mask = hash_keys(table, columns)
        hashes.append(part)
        present.append(mask)
        first = pc.call_function("min_max", [_plain(table.column(0))])
        if first["min"].is_valid:
            lows.append(first["min"])
            highs.append(first["max"])
    low, high = _bounds(columns[0][1], lows, highs)
    rows = np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
    keyed = np.concatenate(present) if present else np.empty(0, np.bool_)
    return FileKeys(rows, keyed, np.sort(rows[keyed]), low, high)


def key_columns(file: Path, columns: Sequence[str]) -> Generator[Any]:
    """Just these columns, one row group at a time, in order."""
    with pq.ParquetFile(file) as parquet:
        for group in range(parquet.metadata.num_row_groups):
            yield parquet.read_row_group(group, columns=list(columns)).select(list(columns))


def hash_keys(table: Any, columns: Sequence[tuple[str, TypedColumn]]) -> tuple[Hashes, Mask]:
    state = np.full(table.num_rows, _SEED, np.uint64)
    present = np.ones(table.num_rows, np.bool_)
    for column, of in columns:
        values = _plain(table.column(column))
        if values.null_count:
            present &= values.is_valid().to_numpy(zero_copy_only=False)
        if of.kind is ValueKind.TEXT:
            _take_texts(state, values)
        else:
            for word in _words(values, of):
                _take(state, word)
    return state, present


def _plain(column: Any) -> Any:
    """One array without dictionaries and views."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    return values


def _take(state: Hashes, words: Hashes) -> None:
    state ^= words
    _mix(state)


def _mix(state: Hashes) -> None:
    state ^= state >> _SHIFT
    state *= _FIRST
    state ^= state >> _SHIFT
    state *= _SECOND
    state ^= state >> _SHIFT


def _words(values: Any, of: TypedColumn) -> list[Hashes]:
    match of.kind:
        case ValueKind.DECIMAL:
            wide = values.cast(pa.decimal128(38, of.scale))
            halves = np.frombuffer(wide.buffers()[1], np.uint64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
            return [_without_nulls(halves[0::2], wide), _without_nulls(halves[1::2], wide)]
        case ValueKind.FLOAT:
            numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
            return [np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)]
        case ValueKind.BOOLEAN:
            return [values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64)]
        case ValueKind.DATE:
            values = values.cast(pa.date32()).cast(pa.int32())
        case ValueKind.TIMESTAMP:
            values = values.cast(pa.int64())
        case _:
            pass
    return [values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)]


def _without_nulls(words: Hashes, values: Any) -> Hashes:
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), words, np.uint64(0)) if values.null_count else words


def _take_texts(state: Hashes, values: Any) -> None:
    if not len(values):
        return
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer((values.buffers()[2] or b""), np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    _take(state, lengths.view(np.uint64))
    # Eight bytes from every position; padding gives the last position eight too.
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    eight = np.ndarray(len(data) + 1, np.dtype("<u8"), padded.data, 0, (1,))
    long = np.flatnonzero(lengths > _LONG_TEXT)
    rows = np.arange(len(lengths))[lengths <= _LONG_TEXT] if len(long) else np.arange(len(lengths))
    at = 0
    while len(rows := rows[lengths[rows] > at]):
        words = eight[starts[rows] + at]
        left = lengths[rows] - at
        cut = left < 8
        words[cut] &= (np.uint64(1) << (left[cut].astype(np.uint64) * np.uint64(8))) - np.uint64(1)
        mixed = state[rows] ^ words
        _mix(mixed)
        state[rows] = mixed
        at += 8
    for row in long:
        digest = hashlib.blake2b(data[starts[row] : starts[row] + lengths[row]].tobytes(), digest_size=8).digest()
        mixed = state[row : row + 1] ^ np.uint64(int.from_bytes(digest, "little"))
        _mix(mixed)
        state[row] = mixed[0]


def sort_hashes(hashes: Hashes, threads: int = 1) -> Hashes:
    """Sorted; two halves in parallel if that is faster."""
    if threads < 2 or len(hashes) < _SORTED_TOGETHER:
        return np.sort(hashes)
    upper = hashes >= np.uint64(1 << 63)
    with ThreadPoolExecutor(2) as pool:
        return np.concatenate(list(pool.map(np.sort, (hashes[~upper], hashes[upper]))))


def repeated(ordered: Hashes) -> Hashes:
    """The values that occur more than once in a sorted list, each once."""
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def among(hashes: Hashes, ordered: Hashes) -> Mask:
    """Which of these are in the sorted list; by binary search, so that a long list costs little."""
    if not len(ordered) or not len(hashes):
        return np.zeros(len(hashes), np.bool_)
    places = np.searchsorted(ordered, hashes)
    places[places == len(ordered)] = 0
    return np.asarray(ordered[places] == hashes)


def shared(one: Hashes, other: Hashes) -> Hashes:
    """The common values of two sorted lists, at the cost of the shorter one."""
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    return np.asarray(short[among(short, long)])


def read_sidecar(file: Path) -> Hashes:
    """The sorted hashes of a file's keys, memory-mapped."""
    if file.stat().st_size == 0:
        return np.empty(0, np.uint64)
    return np.memmap(file, np.dtype("<u8"), mode="r")


def may_share(low: Bound, high: Bound, other: TableFile) -> bool:
    """Whether two files may have a key in common, by the bounds of its first column; without comparable bounds, they may."""
    bounds = (low, high, other.key_min, other.key_max)
    if all(isinstance(bound, int) for bound in bounds) or all(isinstance(bound, str) for bound in bounds):
        return low <= other.key_max and other.key_min <= high  # pyright: ignore[reportOperatorIssue] all of one kind
    return True


def _bounds(column: TypedColumn, lows: list[Any], highs: list[Any]) -> tuple[Bound, Bound]:
    """Written so that they compare as their values do: integers as numbers, the rest as strings of one width."""
    spelled = [(_spell(column, low), _spell(column, high)) for low, high in zip(lows, highs, strict=True)]
    if not spelled or any(low is None or high is None for low, high in spelled):
        return None, None
    return min(low for low, _ in spelled if low is not None), max(high for _, high in spelled if high is not None)  # pyright: ignore[reportArgumentType]


def _spell(column: TypedColumn, value: Any) -> Bound:
    match column.kind:
        case ValueKind.INTEGER:
            return int(value.as_py())
        case ValueKind.DECIMAL if column.scale == 0:
            return int(value.as_py())
        case ValueKind.TEXT:
            found = value.as_py()
            return found if len(found) <= _LONGEST_BOUND and "\0" not in found else None  # Postgres cannot store NUL
        case ValueKind.DATE:
            ordinal = value.cast(pa.date32()).value + _EPOCH.toordinal()
            return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= date.max.toordinal() else None
        case ValueKind.TIMESTAMP:
            try:
                return (_EPOCH + timedelta(microseconds=value.value)).isoformat(timespec="microseconds").replace("+00:00", "Z")
            except OverflowError:
                return None
        case _:
            return None
