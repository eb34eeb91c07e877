"""What the routes receive: the services and the caller."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from tracelake.control.access.administration import AccessAdministration
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.access.orgs import Orgs
from tracelake.control.access.service import Access
from tracelake.control.dags.granting import Granting
from tracelake.control.database.readiness import Readiness
from tracelake.control.database.transactions import Database
from tracelake.control.deploys.service import Deploys
from tracelake.control.emission.loops import RecordLoops
from tracelake.control.explain.service import Explaining
from tracelake.control.locations.service import Locations
from tracelake.control.promotion.service import RulesAndPolicies
from tracelake.control.queries.forwarding import Forwarding
from tracelake.control.queries.pins import Pins
from tracelake.control.queries.receipts import Receipts
from tracelake.control.queries.saving import SavedQueryService
from tracelake.control.records.authorization import AuthorizedRecords
from tracelake.control.records.tails import Tails
from tracelake.control.registry.read_roles import ReadRoleService
from tracelake.control.registry.snapshots import SnapshotService
from tracelake.control.tasks.building import TaskServices
from tracelake_sdk.access import TokenKind
from tracelake_sdk.errors import Forbidden, Unauthenticated


@dataclass(frozen=True)
class Services:
    """Everything one control process offers."""

    database: Database
    access: Access
    administration: AccessAdministration
    orgs: Orgs
    granting: Granting
    reading: ReadRoleService
    locations: Locations
    snapshots: SnapshotService
    deploys: Deploys
    tasks: TaskServices
    explaining: Explaining
    guard: RulesAndPolicies
    pins: Pins
    receipts: Receipts
    saved_queries: SavedQueryService
    forwarding: Forwarding
    records: AuthorizedRecords
    tails: Tails
    record_loops: RecordLoops
    readiness: Readiness


@dataclass(frozen=True)
class RecordServices:
    """The services of the standalone records process, under the same names as in `Services`."""

    database: Database
    access: Access
    administration: AccessAdministration
    orgs: Orgs
    records: AuthorizedRecords
    tails: Tails
    readiness: Readiness


def services_of(request: Request) -> Services:
    return cast("Services", request.app.state.services)


def record_services_of(request: Request) -> Services | RecordServices:
    return cast("Services | RecordServices", request.app.state.services)


def caller_of(request: Request) -> Caller:
    """The owner of the bearer token; raises Unauthenticated."""
    return record_services_of(request).access.authenticate(_token_of(request))


def remembered_caller_of(request: Request) -> Caller | None:
    """The same from the cache, without a query, or None; raises Unauthenticated if the request has no token."""
    return record_services_of(request).access.remembered(_token_of(request))


def scraper_of(request: Request) -> Caller:
    """As `caller_of`, and for a known token also while the database is unavailable."""
    return record_services_of(request).access.recognize_scraper(_token_of(request))


def _token_of(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated
    return token.strip()


def as_user(caller: Caller) -> Caller:
    if caller.kind is TokenKind.WORKER:
        raise Forbidden("A worker token only claims and completes tasks; use a user's or a service's token here.")
    return caller


def as_worker(caller: Caller) -> Caller:
    if caller.kind is not TokenKind.WORKER:
        raise Forbidden("Only a worker's token may call /internal.")
    return caller


def as_query_process(caller: Caller) -> Caller:
    if caller.kind is not TokenKind.SERVICE or Permission.PIN not in caller.scopes:
        raise Forbidden("Only a query process's token, a service's with the scope `pin`, may call this.")
    caller.require(Permission.PIN)
    return caller


def as_scraper(caller: Caller) -> Caller:
    as_user(caller).require(Permission.METRICS)
    return caller


def user_of(request: Request) -> Caller:
    return as_user(caller_of(request))


def worker_of(request: Request) -> Caller:
    return as_worker(caller_of(request))


def query_process_of(request: Request) -> Caller:
    return as_query_process(caller_of(request))


Serving = Annotated[Services, Depends(services_of)]
User = Annotated[Caller, Depends(user_of)]
Worker = Annotated[Caller, Depends(worker_of)]
QueryProcess = Annotated[Caller, Depends(query_process_of)]
