"""Saved queries: named statements, each visible only to its author."""

from dataclasses import dataclass

from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database
from tracelake.control.queries import store
from tracelake_sdk.errors import NotFound
from tracelake_sdk.queries import SavedQuery


@dataclass(frozen=True)
class SavedQueryService:
    database: Database

    def save(self, caller: Caller, name: str, sql: str, description: str) -> SavedQuery:
        """Saves the statement; replaces an earlier one of this name."""
        caller.require(Permission.READ)
        with self.database.transaction("save_query") as tx:
            store.save(tx, caller, id=new_id(), name=name, statement=sql, description=description)
            return store.saved(tx, caller, name=name)[0]

    def get(self, caller: Caller, name: str) -> SavedQuery:
        caller.require(Permission.READ)
        with self.database.transaction("saved_query") as tx:
            found = store.saved(tx, caller, name=name)
        if not found:
            raise NotFound(f"Saved query {name[:128]!r} of {caller.name} was not found.")
        return found[0]

    def list_saved(self, caller: Caller) -> list[SavedQuery]:
        caller.require(Permission.READ)
        with self.database.transaction("saved_queries") as tx:
            return store.saved(tx, caller)

    def forget(self, caller: Caller, name: str) -> None:
        caller.require(Permission.READ)
        with self.database.transaction("forget_query") as tx:
            if not store.forget(tx, caller, name=name):
                raise NotFound(f"Saved query {name[:128]!r} of {caller.name} was not found.")
