"""Results: rows as JSON, CSV or an Arrow stream, and a hash of the rows that does not depend on their order (a multiset)."""

import base64
import csv
import hashlib
import io
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tracelake import wire_json
from tracelake_sdk.errors import QueryOverLimit
from tracelake_sdk.queries import QueryColumn, ResultFormat

_FLOATING = ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Collected:
    """The first rows of a result."""

    columns: tuple[QueryColumn, ...]
    table: Any  # pyarrow has no type annotations
    more: bool


def collect(columns: Sequence[QueryColumn], schema: Any, batches: Iterable[Any], *, row_limit: int, max_bytes: int) -> Collected:
    """As many rows as the limits allow; `more` says whether others follow. Raises QueryOverLimit if not even the first row fits."""
    taken: list[Any] = []
    rows = size = 0
    for batch in batches:
        part = _that_fits(batch.slice(0, row_limit - rows), max_bytes - size)
        if batch.num_rows and not part.num_rows and not rows:
            raise QueryOverLimit(f"The first row of the answer is larger than {max_bytes:,} bytes, which is the limit of an answer; select fewer columns.", limit="bytes")
        taken.append(part)
        rows += part.num_rows
        size += part.nbytes
        if part.num_rows < batch.num_rows:
            return Collected(tuple(columns), pa.Table.from_batches(taken, schema), True)
    return Collected(tuple(columns), pa.Table.from_batches(taken, schema), False)


def _that_fits(batch: Any, room: int) -> Any:
    """The first rows of a batch, as many as fit into so many bytes."""
    if batch.nbytes <= room:
        return batch
    fits = bisect_right(range(batch.num_rows + 1), room, key=lambda rows: batch.slice(0, rows).nbytes) - 1
    return batch.slice(0, max(fits, 0))


def rows_of(collected: Collected) -> list[tuple[Any, ...]]:
    """In JSON form: decimals and 64-bit integers are strings, NaN is "NaN"."""
    return list(zip(*(_values(column) for column in collected.table.columns), strict=True)) if collected.table.num_columns else []


def computed_floats(columns: Sequence[QueryColumn], computed: frozenset[int] | None) -> list[int]:
    """The columns whose last digits may differ from run to run."""
    floating = [place for place, column in enumerate(columns) if any(word in column.type for word in _FLOATING)]
    return [place for place in floating if computed is None or place in computed]


def hash_of(collected: Collected, rows: Sequence[tuple[Any, ...]], left_out: Sequence[int]) -> str:
    """The same for the same rows in any order."""
    kept = [place for place in range(len(collected.columns)) if place not in left_out]
    digest = hashlib.sha256(wire_json.encode([(collected.columns[place].name, collected.columns[place].type) for place in kept]))
    spelt = [wire_json.encode(row) for row in rows] if len(kept) == len(collected.columns) else [wire_json.encode([row[place] for place in kept]) for row in rows]
    for row in sorted(spelt):
        digest.update(b"\n")
        digest.update(row)
    return digest.hexdigest()


def body_of(collected: Collected, rows: Sequence[tuple[Any, ...]], format: ResultFormat) -> bytes:
    """A JSON body lacks its last brace: the receipt is written before it."""
    match format:
        case ResultFormat.JSON:
            head = {"columns": [column.model_dump() for column in collected.columns], "rows": rows, "more": collected.more}
            return wire_json.encode(head)[:-1]
        case ResultFormat.CSV:
            return _csv(collected.columns, rows)
        case ResultFormat.ARROW:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, collected.table.schema) as writer:
                writer.write_table(collected.table)
            return sink.getvalue().to_pybytes()


def _csv(columns: Sequence[QueryColumn], rows: Sequence[tuple[Any, ...]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([column.name for column in columns])
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return wire_json.text(value) if isinstance(value, list | dict | tuple) else value


def _values(column: Any) -> list[Any]:
    """A column of a result, in JSON form."""
    type = column.type
    if pa.types.is_date(type):
        return pc.cast(column, pa.string()).to_pylist()
    if pa.types.is_timestamp(type):
        zone = "Z" if type.tz is not None else ""
        local = pc.cast(column, pa.timestamp(type.unit)) if zone else column  # in UTC, whatever the name of the zone
        return [None if text is None else f"{text.replace(' ', 'T')}{zone}" for text in pc.cast(local, pa.string()).to_pylist()]
    found = column.to_pylist()
    spell = _spelling(type)
    return found if spell is None else [None if value is None else spell(value) for value in found]


def _spelling(type: Any) -> Callable[[Any], Any] | None:
    """How a value of this type is written in JSON; None: unchanged."""
    of = pa.types
    if of.is_int64(type) or of.is_uint64(type) or of.is_time(type):
        return str
    if of.is_boolean(type) or of.is_integer(type) or of.is_null(type) or of.is_string(type) or of.is_large_string(type) or of.is_string_view(type):
        return None
    if of.is_decimal(type):
        return lambda value: format(cast("Decimal", value), "f")
    if of.is_floating(type):
        return _float
    if of.is_date(type):
        return lambda value: value.isoformat()
    if of.is_timestamp(type):
        return lambda value: value.isoformat().replace("+00:00", "Z")
    if of.is_interval(type):
        return lambda value: f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:g}S"
    if of.is_dictionary(type):
        return _spelling(type.value_type)
    return _nested(type)


def _nested(type: Any) -> Callable[[Any], Any]:
    of = pa.types
    if of.is_map(type):
        key, item = _any(type.key_type), _any(type.item_type)
        return lambda value: [[key(name), item(held)] for name, held in value]
    if of.is_struct(type):
        fields = {type.field(place).name: _any(type.field(place).type) for place in range(type.num_fields)}
        return lambda value: {name: spell(value[name]) for name, spell in fields.items()}
    if of.is_list(type) or of.is_large_list(type) or of.is_fixed_size_list(type) or of.is_list_view(type):
        element = _any(type.value_type)
        return lambda value: [element(inner) for inner in value]
    return lambda value: base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _any(type: Any) -> Callable[[Any], Any]:
    spell = _spelling(type)
    return (lambda value: value) if spell is None else (lambda value: None if value is None else spell(value))


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
