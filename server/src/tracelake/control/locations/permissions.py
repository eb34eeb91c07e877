"""Permissions on locations: which ones a caller may use in a DAG. Admins may use every location of their org."""

from collections.abc import Mapping

from tracelake.control.access.callers import Caller
from tracelake.control.locations.store import LocationRow


def usable_locations(caller: Caller, locations: Mapping[str, LocationRow]) -> set[str]:
    """The names of locations of the caller's org that the caller may use."""
    return {name for name, location in locations.items() if caller.is_admin or caller.roles.intersection(location.roles)}
