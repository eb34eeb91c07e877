"""Spans: the position of a scope among all scopes of a table, as a range of text in byte order. Pure.

Everything is one range, a partition key or a cursor value one point of it, so that one database operator tests
whether any two scopes overlap, of any kind.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter

from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCOPE: TypeAdapter[Scope] = TypeAdapter(Scope)


def span_of(scope: Scope) -> str:
    """The literal of a `scope_span`; made only of letters, digits and `-`, so that it needs no quoting."""
    match scope:
        case FullScope():
            return "(,)"
        case PartitionScope(key=key):
            point = f"p-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
            return f"[{point},{point}]"
        case CursorScope(value=value):
            return f"[{_point(value)},{_point(value)}]"
        case RangeScope(start=start, end=end):
            return f"[{_point(start)},{_point(end)})"


def scope_of(stored: dict[str, Any]) -> Scope:
    """A scope as stored in the database."""
    return _SCOPE.validate_python(stored)


def stored(scope: Scope) -> dict[str, Any]:
    return scope.model_dump(mode="json")


def _point(value: int | datetime) -> str:
    """Numbers and timestamps as text with the same order."""
    if isinstance(value, int):
        return f"i{value + 2**63:016x}"
    return f"t{(value - _EPOCH) // timedelta(microseconds=1) + 2**63:016x}"
