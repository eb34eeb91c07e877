"""Operator states: what the reports of one transaction do to the state of their operators."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tracelake.control.database.transactions import Asked, Transaction
from tracelake.control.operator_state import store as operator_state
from tracelake_sdk.errors import Invalid


@dataclass(frozen=True)
class _Swap:
    generation: UUID
    revision: int  # that it replaces
    value: dict[str, Any]


@dataclass
class OperatorStates:
    """Each report is answered on what the ones before it moved, and only `write` stores the new states."""

    _revisions: dict[UUID, int]  # by generation; one without a state has none
    _swaps: list[_Swap] = field(default_factory=list)

    @staticmethod
    def ask(tx: Transaction, generations: Collection[UUID]) -> Asked["OperatorStates"]:
        """Call it under the locks of their lines, which everybody who moves a state holds: a job with state keeps its tasks in order."""
        if not generations:
            return Asked(lambda: OperatorStates({}))
        return operator_state.ask_revisions(tx, sorted(generations)).then(OperatorStates)

    def swap(self, generation: UUID, base: int | None, value: dict[str, Any] | None) -> bool:
        """Takes the state that a report brings, if any; False where the one that it built on has moved. Raises Invalid where the operator keeps none."""
        if value is None:
            return True
        if base is None:
            raise Invalid("This job's operator keeps no state; report none.")
        if self._revisions.get(generation, 0) != base:
            return False
        self._revisions[generation] = base + 1
        self._swaps.append(_Swap(generation, base, value))
        return True

    def write(self, tx: Transaction) -> None:
        for swap in self._swaps:
            if not operator_state.swap(tx, generation=swap.generation, revision=swap.revision, value=swap.value):
                raise AssertionError("the state was read under its line's lock and has moved")
