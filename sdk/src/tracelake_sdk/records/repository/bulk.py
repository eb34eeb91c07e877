"""Storing records of many runs, each in a context of its own, through any repository."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tracelake_sdk.records.record import MetadataContext, MetadataRecord, StoreResult
from tracelake_sdk.records.repository.contract import MetadataRepository


@runtime_checkable
class StoresEach(Protocol):
    """A repository that has a shorter way than a call for each context."""

    def store_each(self, items: Sequence[tuple[MetadataRecord, MetadataContext]]) -> list[StoreResult]: ...


def store_each(repository: MetadataRepository, items: Sequence[tuple[MetadataRecord, MetadataContext]]) -> list[StoreResult]:
    """One result a record, in their order; those of one context go together."""
    if isinstance(repository, StoresEach):
        return repository.store_each(items)
    places: dict[str, list[int]] = {}
    for place, (_, context) in enumerate(items):
        places.setdefault(context.model_dump_json(), []).append(place)
    results: dict[int, StoreResult] = {}
    for together in places.values():
        stored = repository.bulk_store([items[place][0] for place in together], items[together[0]][1])
        results.update(zip(together, stored, strict=True))
    return [results[place] for place in range(len(items))]
