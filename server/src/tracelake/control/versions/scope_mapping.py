"""Which scopes of an output a task must write: from the scope of its event and the current scopes.

The current scopes of a table never overlap, so a replace covers whole scopes, and an append goes into the scope that contains it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from tracelake_sdk.dags import ExecutionStrategy, PartitionSpec
from tracelake_sdk.datasets.cursors import find_cursor, number_of, number_of_size
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope, Span, span_of

MAX_SPANS = 1000  # scopes that one event may name; one that touches more means everything


@dataclass(frozen=True)
class Wanted:
    """What an event requires of an output: these scopes, or all current and new ones."""

    everything: bool
    scopes: tuple[Scope, ...] = ()


EVERYTHING = Wanted(everything=True)


def wanted(strategy: ExecutionStrategy | None, partition_by: PartitionSpec | None, event_scope: Scope | None) -> Wanted:
    """A trigger that does not map to scopes of the output means everything: a request, a full scope, another kind of scope, an output without partitions."""
    if strategy is None or partition_by is None or event_scope is None or not _of_its_kind(partition_by, event_scope):
        return EVERYTHING
    if isinstance(event_scope, (CursorScope, RangeScope)) and strategy is ExecutionStrategy.PER_PARTITION:
        return _aligned(partition_by, span_of(event_scope))
    return Wanted(everything=False, scopes=(event_scope,))


def cut_alike(reads: PartitionSpec | None, writes: PartitionSpec | None, *, trigger: bool) -> bool:
    """Whether a scope of an output is made from the same scope of this input alone: both are partitioned the same way, and the input is the trigger or uses the same column."""
    return reads is not None and writes is not None and reads.cursor is writes.cursor and (trigger or reads.column == writes.column)


def widened(wanted_scopes: Iterable[Scope], current_scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """The wanted scopes, joined with each other and with every current one that they touch, until nothing overlaps; in order."""
    required, current = tuple(wanted_scopes), tuple(current_scopes)
    if any(isinstance(scope, FullScope) for scope in required) or (required and any(isinstance(scope, FullScope) for scope in current)):
        return (FullScope(),)
    keys = sorted({scope.key for scope in required if isinstance(scope, PartitionScope)})
    spans = [scope for scope in required if isinstance(scope, (CursorScope, RangeScope))]
    beside = [scope for scope in current if isinstance(scope, (CursorScope, RangeScope))]
    return (*(PartitionScope(key=key) for key in keys), *_joined_spans(spans, beside))


def _of_its_kind(partition_by: PartitionSpec, scope: Scope) -> bool:
    match scope:
        case FullScope():
            return False
        case PartitionScope():
            return partition_by.cursor is None
        case _:
            return partition_by.cursor is span_of(scope).kind


def _aligned(partition_by: PartitionSpec, span: Span) -> Wanted:
    """The spans of the output's own grid that are touched."""
    if partition_by.range_size is None or partition_by.origin is None:
        return EVERYTHING
    size, origin = number_of_size(partition_by.range_size), number_of(partition_by.origin)
    first, last = (span.start - origin) // size, (span.end - 1 - origin) // size
    if last - first >= MAX_SPANS:
        return EVERYTHING
    bounds = [find_cursor(origin + index * size, span.kind) for index in range(first, last + 2)]
    inside = [bound for bound in bounds if bound is not None]
    if len(inside) < len(bounds):  # at the ends of what a cursor can be, the grid has spans that cannot be named
        return EVERYTHING
    return Wanted(everything=False, scopes=tuple(RangeScope(start=start, end=end) for start, end in pairwise(inside)))


def _joined_spans(required: list[CursorScope | RangeScope], current: list[CursorScope | RangeScope]) -> list[Scope]:
    """One pass from left to right: overlapping spans are joined, and current spans that touch no wanted scope are omitted."""
    found: list[Scope] = []
    group: list[CursorScope | RangeScope] = []
    last: Span | None = None
    named = frozenset(required)
    for span, scope in sorted(((span_of(scope), scope) for scope in (*required, *current)), key=lambda step: step[0]):
        if last is not None and last.kind is span.kind and span.start < last.end:
            last = last._replace(end=max(last.end, span.end))
        else:
            found.extend(_hull(group, named))
            group, last = [], span
        group.append(scope)
    found.extend(_hull(group, named))
    return found


def _hull(group: list[CursorScope | RangeScope], named: frozenset[CursorScope | RangeScope]) -> list[Scope]:
    if named.isdisjoint(group):
        return []
    ranges = [scope for scope in group if isinstance(scope, RangeScope)]
    if not ranges:  # one cursor, perhaps named twice
        return [group[0]]
    start, end = min((scope.start for scope in ranges), key=number_of), max((scope.end for scope in ranges), key=number_of)
    return [RangeScope(start=start, end=end)]
