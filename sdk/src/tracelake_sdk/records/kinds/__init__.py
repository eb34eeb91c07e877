"""Kinds: the registered, versioned schemas of record payloads."""

from tracelake_sdk.records.kinds.kind import (
    Compatibility,
    Kind,
    Retention,
)

__all__ = [
    "Compatibility",
    "Kind",
    "Retention",
]
