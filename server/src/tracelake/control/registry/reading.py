"""Reading: which datasets a caller may read, and which it may see. Every read path checks here.

Rows need permission by `dataset_reader`. The metadata of a dataset (registry entry, versions, decisions,
events, runs) is visible to the same callers and to auditors, who see it for every dataset without any rows. A dataset that
a caller may not see is reported as not found.
"""

from collections.abc import Collection
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.transactions import Transaction
from tracelake.control.registry import store
from tracelake_sdk.errors import NotFound
from tracelake_sdk.suggestions import did_you_mean

_LONGEST_NAME = 128


def readable(tx: Transaction, caller: Caller, datasets: Collection[UUID]) -> set[UUID]:
    """Which of these datasets the caller may read."""
    if not datasets:
        return set()
    if caller.is_admin:
        return set(store.of_org(tx, org=caller.org_id, datasets=list(datasets)))
    return set(_readable(tx, caller, list(datasets)))


def all_readable(tx: Transaction, caller: Caller) -> list[UUID] | None:
    """Every dataset that the caller may read; None: all of the org."""
    return None if caller.is_admin else _readable(tx, caller, None)


def visible(tx: Transaction, caller: Caller, datasets: Collection[UUID]) -> set[UUID]:
    """Which of these datasets the caller may see."""
    if caller.sees_all and datasets:
        return set(store.of_org(tx, org=caller.org_id, datasets=list(datasets)))
    return readable(tx, caller, datasets)


def all_visible(tx: Transaction, caller: Caller) -> list[UUID] | None:
    """Every dataset that the caller may see; None: all of the org."""
    return None if caller.sees_all else _readable(tx, caller, None)


def find(tx: Transaction, caller: Caller, called: str) -> UUID:
    """The dataset of this name, of this snapshot's name, or of this uuid; raises NotFound with the nearest visible name."""
    id = uuid_of(called)
    found = store.called(tx, org=caller.org_id, name=None if id else called, id=id)
    if found is None or found not in visible(tx, caller, [found]):
        raise NotFound(f"Dataset {called[:_LONGEST_NAME]!r} was not found in this org; {advice(tx, caller, called)}")
    return found


def uuid_of(text: str) -> UUID | None:
    """With its dashes: without them it could also be a name."""
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def advice(tx: Transaction, caller: Caller, called: str) -> str:
    """Advice for a dataset that was not found: the nearest visible name, or the list."""
    return did_you_mean(called, store.all_names(tx, org=caller.org_id, datasets=all_visible(tx, caller)), "`tracelake dataset list` lists them.")


def _readable(tx: Transaction, caller: Caller, datasets: list[UUID] | None) -> list[UUID]:
    return store.readable(
        tx, org=caller.org_id, roles=sorted(caller.roles), user=caller.user_id, token=caller.token_id, datasets=datasets
    )
