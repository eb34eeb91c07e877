"""First start: what a database must contain before a control process serves. Each start creates what is missing."""

from uuid import UUID

import structlog

from tracelake.control.access.administration import ensure_reserved_roles
from tracelake.control.access.service import ensure_query_token, first_start
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.locations.first_definitions import define_missing
from tracelake.control.pools import store as pools
from tracelake.control.promotion.service import ensure_default_policies
from tracelake.settings import Settings
from tracelake.storage.private_places import PrivatePlaces
from tracelake_sdk.dags import DEFAULT_POOL
from tracelake_sdk.dags.operators import OPERATORS

_log = structlog.get_logger()


def make_missing(database: Database, settings: Settings, private: PrivatePlaces) -> None:
    """On the very first start the org, its admin and its worker; on each start what a newer release added to every org."""
    access = settings.access
    with database.transaction("first_start", role=DatabaseRole.DEFINE) as tx:
        made = first_start(tx, settings.home, org=access.org, admin_issuer=access.admin_issuer, admin_subject=access.admin_subject)
        orgs = pools.orgs(tx)
        ensure_query_token(tx, settings.home, org=orgs[0])
        for org in orgs:
            ensure_reserved_roles(tx, org)
            add_org_defaults(tx, org)
        define_missing(tx, orgs[0], settings.locations, private)
    if made:
        _log.info("first start: an org, its admin and its worker were created", org=access.org)


def add_org_defaults(tx: Transaction, org: UUID) -> None:
    """What every org has, in addition to its roles; each start adds what is missing."""
    ensure_default_policies(tx, org=org, actor="first start")
    for runtime in sorted({runtime for runtime, _ in OPERATORS}):
        pools.ensure(tx, org=org, runtime=runtime, name=DEFAULT_POOL)
