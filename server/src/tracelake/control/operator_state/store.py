"""The operator state table, one function per query."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tracelake import wire_json
from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Pending, Transaction

sql = load(__name__, "operator_state.sql")


@dataclass(frozen=True)
class StateRow:
    generation_id: UUID
    revision: int
    value: dict[str, Any]


def get(tx: Transaction, generations: list[UUID]) -> dict[UUID, StateRow]:
    return {row.generation_id: row for row in tx.all(StateRow, sql["get"], generations=generations)}


def send_revisions(tx: Transaction, generations: list[UUID]) -> Pending[dict[UUID, int]]:
    """Generations without a state are omitted."""
    return tx.send_tuples(sql["revisions"], generations=generations).then(dict)


def swap(tx: Transaction, *, generation: UUID, revision: int, value: dict[str, Any]) -> bool:
    """Sets `value` if the state is still at `revision` (0: none yet); returns whether it did."""
    text = wire_json.text(value)
    if revision == 0:
        return tx.touched(sql["begin"], generation=generation, value=text) == 1
    return tx.touched(sql["swap"], generation=generation, revision=revision, value=text) == 1
