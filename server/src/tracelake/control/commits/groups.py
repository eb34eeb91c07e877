"""Groups: how many decided places one log entry may carry. Pure.

A group joins log entries, never work, decisions or events. Its places have disjoint scopes unless they only add, and one
schema, so that their order inside the entry does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from tracelake_sdk.datasets.scopes import Scope, overlap


@dataclass(frozen=True, slots=True)
class PlaceOfGroup:
    place: int
    scopes: dict[UUID, tuple[Scope, ...]]   # by dataset version
    schemas: dict[UUID, str]                # hash of the schema after it, by dataset version
    removes: bool


def group(places: Sequence[PlaceOfGroup]) -> list[int]:
    """The first of these places that can share one entry, at least one."""
    taken: list[PlaceOfGroup] = []
    for place in places:
        if taken and not all(_go_together(earlier, place) for earlier in taken):
            break
        taken.append(place)
    return [place.place for place in taken]


def _go_together(earlier: PlaceOfGroup, later: PlaceOfGroup) -> bool:
    if any(later.schemas[id] != schema for id, schema in earlier.schemas.items() if id in later.schemas):
        return False
    if not earlier.removes and not later.removes:
        return True
    return not any(overlap(one, other) for id, scopes in earlier.scopes.items() for one in scopes for other in later.scopes.get(id, ()))
