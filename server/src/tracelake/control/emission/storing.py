"""Where the platform's own records are stored: in the repository of their tenant, or on the bus."""

from collections.abc import Callable, Sequence
from typing import Literal

from tracelake.control.emission.facts import Emitted
from tracelake_sdk.records import StoreResult
from tracelake_sdk.records.bus import EVENTS, Bus
from tracelake_sdk.records.repository.bulk import store_each
from tracelake_sdk.records.repository.contract import MetadataRepository
from tracelake_sdk.records.subscribers import to_message

RepositoryOf = Callable[[str], MetadataRepository]               # by tenant
Storing = Callable[[Sequence[Emitted]], list[StoreResult]]       # one result per record, in order
_TOLD: Literal["stored"] = "stored"


def into_repositories(repository_of: RepositoryOf) -> Storing:
    def store(records: Sequence[Emitted]) -> list[StoreResult]:
        places: dict[str, list[int]] = {}
        for place, emitted in enumerate(records):
            places.setdefault(emitted.context.tenant, []).append(place)
        results: dict[int, StoreResult] = {}
        for tenant, mine in places.items():
            answers = store_each(repository_of(tenant), [(records[place].record, records[place].context) for place in mine])
            results.update(zip(mine, answers, strict=True))
        return [results[place] for place in range(len(records))]

    return store


def onto_bus(bus: Bus) -> Storing:
    """The repository's subscriber reports refusals."""

    def store(records: Sequence[Emitted]) -> list[StoreResult]:
        bus.publish(EVENTS, [to_message(emitted.record, emitted.context) for emitted in records])
        return [StoreResult(result=_TOLD) for _ in records]

    return store
