"""Using: which locations somebody may name in a DAG. Admins may use every location of their org."""

from collections.abc import Mapping

from tracelake.control.access.callers import Caller
from tracelake.control.locations.store import LocationRow


def usable(caller: Caller, locations: Mapping[str, LocationRow]) -> set[str]:
    """The names of those that the caller may use; all of them are of the caller's org."""
    return {name for name, location in locations.items() if caller.is_admin or caller.roles.intersection(location.roles)}
