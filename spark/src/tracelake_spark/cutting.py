"""Cutting: the folder of each row of an output, as a Spark expression, and the scope of each folder."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope
from tracelake_sdk.tasks.operator_files import OrderOutput
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.scoping import (
    column,
    cursor_number,
    cursor_of,
    cursor_sql,
    cursor_type,
    key_text,
    keys_of,
    number_of,
    size_number,
    span_of,
    spans_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

NO_LABEL = "none"  # of rows whose partition column is null
_BEGIN = "__begin"
_LEAST, _MOST = -(2**63), 2**63 - 1


class _Scopes(Protocol):
    def __call__(self, labels: Iterable[str], observed: dict[str, Any]) -> dict[str, Scope]: ...


@dataclass(frozen=True)
class Cut:
    """How rows are divided into scopes; without a label all rows go to one."""

    announced: Sequence[Scope]
    scopes: _Scopes                     # the scope of each label, with what was observed while writing
    column: str | None = None
    label: "Column | None" = None
    label_name: str = ""
    metrics: "list[Column]" = field(default_factory=list)


def cut_of(output: OrderOutput, schema: StructType) -> Cut:
    """How this output is divided into scopes; rows outside the declared scopes, if these are not allowed, go to the first scope, so that they are counted."""
    rows = F.count(F.lit(1)).alias("rows")
    spec = output.partition_by
    if spec is None:
        return Cut([FullScope()], partial(_one, FullScope()), metrics=[rows])
    if spec.column not in schema.fieldNames():
        raise OperatorFailed("partition_column_missing", f"The output has no column {spec.column!r}, by which it is partitioned into scopes.")
    announced = [scope for scope in output.scopes if not isinstance(scope, FullScope)]
    everything = output.everything or len(announced) < len(output.scopes)
    value = column(spec.column)
    if not everything and len(announced) < 2:  # no choice of folders, and no shuffle
        nulls = F.count_if(value.isNull()).alias("nulls")
        return Cut(announced, partial(_one, announced[0] if announced else FullScope()), spec.column, metrics=[rows, nulls])
    name = _unused("scope", schema)
    if spec.cursor is None:
        return _by_key(spec, keys_of(announced), name, everything=everything)
    if cursor_type(spec.column, schema) is not spec.cursor:
        raise OperatorFailed("partition_column_type", f"The column {spec.column!r} is not of the cursor's type, {spec.cursor}.")
    return _by_cursor(spec, spec.cursor, spans_of(announced), name, everything=everything)


def _one(scope: Scope, labels: Iterable[str], observed: dict[str, Any]) -> dict[str, Scope]:
    return dict.fromkeys(labels, scope)


def _unused(name: str, schema: StructType) -> str:
    taken = {known.lower() for known in schema.fieldNames()}
    while name in taken:
        name += "_"
    return name


def _by_key(spec: PartitionSpec, keys: list[str], name: str, *, everything: bool) -> Cut:
    key = F.nullif(key_text(spec.column), F.lit(""))
    known = key.isin(keys)
    hashed = F.substring(F.sha2(key.cast("binary"), 256), 1, 32)
    label = F.coalesce(hashed if everything else F.when(known, hashed).when(key.isNotNull(), _hash(keys[0])), F.lit(NO_LABEL))
    metrics = [F.collect_set(F.when(~known, key)).alias("keys")] if everything else []
    announced: list[Scope] = [PartitionScope(key=each) for each in keys]

    def scopes(labels: Iterable[str], observed: dict[str, Any]) -> dict[str, Scope]:
        by_label = {_hash(each): each for each in [*keys, *observed.get("keys", [])]}
        if any(len(each) > 1024 for each in by_label.values()):
            raise OperatorFailed("partition_key_long", f"A value of the column {spec.column!r} is longer than the 1024 characters that a partition key may have.")
        if any("\0" in each for each in by_label.values()):
            raise OperatorFailed("partition_key_nul", f"A value of the column {spec.column!r} contains a NUL character, which partition keys do not support.")
        return {each: PartitionScope(key=by_label[each]) for each in labels}

    return Cut(announced, scopes, spec.column, label, name, metrics)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _by_cursor(spec: PartitionSpec, kind: CursorType, announced: list[CursorScope | RangeScope], name: str, *, everything: bool) -> Cut:
    """The label of a row is the number that its span starts at."""
    at, at_sql = cursor_number(spec.column, kind), cursor_sql(spec.column, kind)
    spans = {span_of(scope)[0]: scope for scope in announced}
    size = size_number(spec.range_size) if spec.range_size is not None else None
    origin = number_of(spec.origin) if spec.origin is not None else 0
    gaps = _gaps([span_of(scope) for scope in announced])
    outside = f"{span_of(announced[0])[0]}L" if not everything else _aligned(at_sql, size, origin) if size is not None else None
    label = F.coalesce(F.expr(_start_sql(at_sql, sorted(spans), [gap[0] for gap in gaps], outside)).cast("string"), F.lit(NO_LABEL))
    bounds = [F.min(at).alias("least"), F.max(at).alias("most")] if everything and size is None else []

    def scopes(labels: Iterable[str], observed: dict[str, Any]) -> dict[str, Scope]:
        found: dict[str, Scope] = {}
        for each in labels:
            start = int(each)
            if start in spans:
                found[each] = spans[start]
                continue
            low, high = next(gap for gap in gaps if gap[0] <= start < gap[1])
            if size is None:
                low, high = max(low, observed["least"]), min(high, observed["most"] + 1)
            else:
                aligned = origin + (start - origin) // size * size
                low, high = max(low, aligned), min(high, aligned + size)
            found[each] = RangeScope(start=cursor_of(low, kind), end=cursor_of(high, kind))
        return found

    return Cut(announced, scopes, spec.column, label, name, bounds)


def _gaps(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The gaps before, between and after sorted spans."""
    edges = [_LEAST, *(edge for span in spans for edge in span), _MOST]
    return [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]




def _aligned(at: str, size: int, origin: int) -> str:
    """Where the span of a row in a gap starts: aligned to the origin, and never overlapping a declared span."""
    return f"greatest({at} - pmod({at} - {origin}L, {size}L), {_BEGIN})"


def _start_sql(at: str, spans: list[int], gaps: list[int], outside: str | None) -> str:
    """SQL for the start of the span or gap that contains a row; in a gap, `outside` if it is given. The SQL contains only numbers.

    A binary search: with ten thousand spans a row is compared fourteen times, and the plan stays small.
    """
    begins = sorted([*spans, *gaps])
    steps = [1 << bit for bit in reversed(range(max(1, (len(begins) - 1).bit_length())))]
    numbers = "array(" + ", ".join(f"{begin}L" for begin in begins) + ")"
    between = set(gaps)
    is_gap = "array(" + ", ".join(str(begin in between) for begin in begins) + ")"
    begin = f"get({numbers}, __place)"
    found = begin if outside is None else f"if(get({is_gap}, __place), {outside.replace(_BEGIN, begin)}, {begin})"
    step = f"if(coalesce(get({numbers}, __low + __step) <= {at}, false), __low + __step, __low)"
    return f"if({at} IS NULL, NULL, aggregate(array({', '.join(map(str, steps))}), 0, (__low, __step) -> {step}, __place -> {found}))"
