"""Stores records with different contexts in any repository."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tracelake_sdk.records.record import MetadataContext, MetadataRecord, StoreResult
from tracelake_sdk.records.repository.contract import MetadataRepository


@runtime_checkable
class StoresManyContexts(Protocol):
    """A repository that stores records of many contexts in one call."""

    def store_each(self, items: Sequence[tuple[MetadataRecord, MetadataContext]]) -> list[StoreResult]: ...


def store_each(repository: MetadataRepository, items: Sequence[tuple[MetadataRecord, MetadataContext]]) -> list[StoreResult]:
    """One result per record, in order; records of one context are stored together."""
    if isinstance(repository, StoresManyContexts):
        return repository.store_each(items)
    indexes: dict[str, list[int]] = {}
    for index, (_, context) in enumerate(items):
        indexes.setdefault(context.model_dump_json(), []).append(index)
    results: dict[int, StoreResult] = {}
    for together in indexes.values():
        stored = repository.bulk_store([items[index][0] for index in together], items[together[0]][1])
        results.update(zip(together, stored, strict=True))
    return [results[index] for index in range(len(items))]
