"""The operator state table, one function a query."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Asked, Transaction

sql = load(__name__, "operator_state.sql")


@dataclass(frozen=True)
class StateRow:
    generation_id: UUID
    revision: int
    value: dict[str, Any]


def get(tx: Transaction, generations: list[UUID]) -> dict[UUID, StateRow]:
    return {row.generation_id: row for row in tx.all(StateRow, sql["get"], generations=generations)}


def ask_revisions(tx: Transaction, generations: list[UUID]) -> Asked[dict[UUID, int]]:
    """Of those that have a state."""
    return tx.ask_tuples(sql["revisions"], generations=generations).then(dict)


def swap(tx: Transaction, *, generation: UUID, revision: int, value: dict[str, Any]) -> bool:
    """Whether the state was still at `revision` (0: none yet) and is now `value`."""
    text = wire_json.text(value)
    if revision == 0:
        return tx.touched(sql["begin"], generation=generation, value=text) == 1
    return tx.touched(sql["swap"], generation=generation, revision=revision, value=text) == 1
