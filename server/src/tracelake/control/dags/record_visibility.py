"""Which records a caller sees, by the datasets it may read and the DAGs it may see; and the uuid of a dataset that a record names."""

from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.dags import permissions
from tracelake.control.dags import store as dags
from tracelake.control.database.transactions import Transaction
from tracelake.control.records.searches import Visibility
from tracelake.control.registry import store
from tracelake.control.registry.reading import all_readable


class RegistryVisibility:
    """The visibility that the records slice uses when the process has a dataset registry."""

    def of(self, tx: Transaction, caller: Caller) -> Visibility:
        datasets = all_readable(tx, caller)
        if datasets is None:
            return Visibility()
        visible = permissions.all_visible(tx, caller)
        return Visibility([*datasets, *(dags.ids(tx, caller.org_id) if visible is None else visible)])

    def dataset(self, tx: Transaction, caller: Caller, name: str) -> UUID | None:
        """Does not check read permission: each record is checked."""
        return store.called(tx, org=caller.org_id, name=name, id=None)
