"""First definitions: the locations of a settings file, defined when control starts, if the org does not have them.

A location that exists is never changed by a start: the meaning of a DAG does not depend on the folder in which a process was started.
"""

from collections.abc import Mapping
from uuid import UUID

import structlog

from tracelake.control.access import store as access
from tracelake.control.database.transactions import Transaction
from tracelake.control.locations import store
from tracelake.control.locations.service import checked_url, define
from tracelake.settings import LocationSettings
from tracelake.storage.private_places import PrivatePlaces
from tracelake_sdk.errors import LocationConflict, SettingInvalid

_log = structlog.get_logger()
_ACTOR = "settings"


def define_missing(tx: Transaction, org: UUID, wanted: Mapping[str, LocationSettings], private: PrivatePlaces) -> None:
    """Raises LocationConflict, LocationRefused or SettingInvalid; control then does not start."""
    if not wanted:
        return
    access.lock_access(tx, org)
    known = store.locations(tx, org)
    for name, given in wanted.items():
        url = checked_url(given.url, private)
        there = known.get(name)
        if there is None:
            roles = access.role_ids(tx, org=org, names=sorted(set(given.roles)))
            if unknown := sorted(set(given.roles) - set(roles)):
                raise SettingInvalid(f"TRACELAKE__LOCATIONS__{name.upper()}__ROLES: role {unknown[0]!r} was not found in the org; create it first, or remove it here")
            define(tx, org, name, url, roles, actor=_ACTOR)
            _log.info("a location was defined", location=name, url=url, roles=sorted(roles))
        elif there.url != url:
            raise LocationConflict(
                f"The settings put the location {name} at {url}, and it is already defined at {there.url}. If it has moved, run"
                f" `tracelake admin location set {name} {url}` while the system is up without this setting; if it is another one, give it another name in"
                " the settings and in the DAG; or start with another TRACELAKE_HOME."
            )
        elif missing := sorted(set(given.roles) - set(there.roles)):
            _log.warning("a role of the settings may not use a location", location=name, roles=missing, remedy=f"tracelake admin location grant {name} ROLE")
