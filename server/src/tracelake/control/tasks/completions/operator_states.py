"""Operator states: changes of operator state by the reports of one transaction."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.operator_state import store as operator_state
from tracelake_sdk.errors import Invalid


@dataclass(frozen=True)
class _Swap:
    generation: UUID
    revision: int  # that it replaces
    value: dict[str, Any]


@dataclass
class OperatorStates:
    """Each report sees the changes of the ones before it, and only `write` stores the new states."""

    _revisions: dict[UUID, int]  # by generation; one without a state has none
    _swaps: list[_Swap] = field(default_factory=list)

    @staticmethod
    def load(tx: Transaction, generations: Collection[UUID]) -> Pending["OperatorStates"]:
        """Call it under the locks of their lines, which every change of state needs: a job with state runs its tasks in order."""
        if not generations:
            return Pending(lambda: OperatorStates({}))
        return operator_state.send_revisions(tx, sorted(generations)).then(OperatorStates)

    def swap(self, generation: UUID, base: int | None, value: dict[str, Any] | None) -> bool:
        """Applies the state of a report, if any; False if its base has changed. Raises Invalid if the operator has no state."""
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
