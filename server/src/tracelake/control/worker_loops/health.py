"""The doctor's check of worker loops."""

from tracelake.control.database.transactions import Database
from tracelake.control.worker_loops import store

_NAMED = 5  # loops, as examples


def check(state_url: str) -> tuple[bool, str, str]:
    """Whether all worker loops run, what was found, and what to do."""
    with Database(state_url, size=1) as database, database.transaction("failing_loops") as tx:
        found = store.failing(tx)
    if not found:
        return True, "no worker reports a failing loop", ""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    named = ", ".join(f"loop {one.loop} of {one.worker} ({one.code})" for one in found[:_NAMED])
    return False, f"{named}{more}", "see the log of the worker; the loop recovers by itself once the cause is fixed"
