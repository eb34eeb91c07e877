"""Whose records a caller sees, by the datasets that it may read and the DAGs that it may look at; and records about a dataset that is called by its name."""

from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.dags import rights
from tracelake.control.dags import store as dags
from tracelake.control.database.transactions import Transaction
from tracelake.control.records.searches import Sight
from tracelake.control.registry import store
from tracelake.control.registry.reading import all_readable


class RegisteredSight:
    """What the records slice is given where there is a registry beside it."""

    def of(self, tx: Transaction, caller: Caller) -> Sight:
        datasets = all_readable(tx, caller)
        if datasets is None:
            return Sight()
        visible = rights.all_visible(tx, caller)
        return Sight([*datasets, *(dags.ids(tx, caller.org_id) if visible is None else visible)])

    def dataset(self, tx: Transaction, caller: Caller, name: str) -> UUID | None:
        """Whether the caller may read it is asked of each record."""
        return store.called(tx, org=caller.org_id, name=name, id=None)
