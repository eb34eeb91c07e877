"""Administration over HTTP: orgs, users, roles, tokens, grants, read roles, locations, and the audit log. Thin: each route is its use case."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tracelake.control.access.administration import NewTokenRequest
from tracelake.control.api.context import Serving, User
from tracelake.control.api.guarded_routes import UserRoute
from tracelake.control.api.names import USER_NAME
from tracelake.control.api.paging import Key, Limit, Token, id_of
from tracelake.control.dags.granting import Holder
from tracelake_sdk import access
from tracelake_sdk.dags.locations import NAME_PATTERN, Location
from tracelake_sdk.pages import Page

router = APIRouter(prefix="/v1/admin", tags=["admin"], route_class=UserRoute)        # what every service has
grants_router = APIRouter(prefix="/v1/admin", tags=["admin"], route_class=UserRoute)  # of DAGs, datasets and locations

UserName = Annotated[str, Field(pattern=USER_NAME)]
RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
LocationName = Annotated[str, Field(pattern=NAME_PATTERN)]
LocationUrl = Annotated[str, Field(min_length=1, max_length=4096, description="`file:///folder` or `s3://bucket/prefix`.")]
OrgName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dry_run: bool = False


class OrgRequest(_Request):
    name: OrgName
    admin: UserName = Field(default="admin", description="The first admin of the org.")
    issuer: str | None = Field(default=None, min_length=1, max_length=256, description="With `subject`: the admin's issuer in a JWT.")
    subject: str | None = Field(default=None, min_length=1, max_length=256)


class NewUser(_Request):
    name: UserName
    issuer: str | None = Field(default=None, min_length=1, max_length=256, description="With `subject`: the user's issuer in a JWT.")
    subject: str | None = Field(default=None, min_length=1, max_length=256)
    roles: list[RoleName] = Field(default_factory=list, max_length=100)


class NewRole(_Request):
    name: RoleName


class Change(_Request):
    pass


class TokenRequest(_Request):
    kind: access.TokenKind
    label: str = Field(min_length=1, max_length=128, description="What it is for.")
    user: str | None = None
    roles: list[RoleName] = Field(default_factory=list, max_length=100)
    scopes: list[str] = Field(default_factory=list, max_length=100)
    pools: list[str] = Field(default_factory=list, max_length=100, description="Of a worker's token; none means every pool of the org.")
    expires_in_days: int | None = Field(default=None, ge=1, le=3650)


class GrantRequest(_Request):
    dag: str
    right: access.DagRight
    role: str


class RevokeRequest(_Request):
    dag: str
    right: access.DagRight
    role: str | None = None
    user: str | None = None
    service: str | None = None


class ReadRolesRequest(_Request):
    roles: list[str] = Field(max_length=100, description="Exactly these from now on.")


class LocationRequest(_Request):
    name: LocationName
    url: LocationUrl
    roles: list[RoleName] = Field(default_factory=list, max_length=100, description="Roles that may use it in a DAG, in addition to admins.")
    org: OrgName | None = Field(default=None, description="The org of the location. Default: the caller's own.")


class LocationMove(_Request):
    url: LocationUrl
    org: OrgName | None = None


class LocationGrant(_Request):
    role: str


@router.get("/orgs")
def orgs(services: Serving, user: User, limit: Limit = 50, token: Token = None) -> Page[access.Org]:
    """For the installation's operators, who are the admins of its first org."""
    return services.orgs.list_orgs(user, after=id_of(token), limit=limit)


@router.post("/orgs")
def create_org(services: Serving, user: User, body: OrgRequest) -> access.NewOrg:
    """With its first admin; only this answer contains the admin's token."""
    return services.orgs.create(user, body.name, admin=body.admin, issuer=body.issuer, subject=body.subject, dry_run=body.dry_run)


@router.post("/orgs/{name}/disable")
def disable_org(services: Serving, user: User, name: str, body: Change) -> access.Org:
    return services.orgs.disable(user, name, dry_run=body.dry_run)


@router.post("/orgs/{name}/enable")
def enable_org(services: Serving, user: User, name: str, body: Change) -> access.Org:
    return services.orgs.enable(user, name, dry_run=body.dry_run)


@router.get("/users")
def users(services: Serving, user: User, limit: Limit = 50, token: Token = None) -> Page[access.User]:
    return services.administration.list_users(user, after=id_of(token), limit=limit)


@router.post("/users")
def create_user(services: Serving, user: User, body: NewUser) -> access.User:
    return services.administration.create_user(user, body.name, issuer=body.issuer, subject=body.subject, roles=body.roles, dry_run=body.dry_run)


@router.post("/users/{name}/disable")
def disable_user(services: Serving, user: User, name: str, body: Change) -> access.User:
    return services.administration.disable_user(user, name, dry_run=body.dry_run)


@router.post("/users/{name}/enable")
def enable_user(services: Serving, user: User, name: str, body: Change) -> access.User:
    return services.administration.enable_user(user, name, dry_run=body.dry_run)


@router.get("/roles")
def roles(services: Serving, user: User) -> list[access.Role]:
    return services.administration.list_roles(user)


@router.post("/roles")
def create_role(services: Serving, user: User, body: NewRole) -> access.Role:
    return services.administration.create_role(user, body.name, dry_run=body.dry_run)


@router.post("/roles/{role}/members/{name}/add")
def add_member(services: Serving, user: User, role: str, name: str, body: Change) -> access.User:
    return services.administration.add_member(user, role, name, dry_run=body.dry_run)


@router.post("/roles/{role}/members/{name}/remove")
def remove_member(services: Serving, user: User, role: str, name: str, body: Change) -> access.User:
    return services.administration.remove_member(user, role, name, dry_run=body.dry_run)


@router.get("/tokens")
def tokens(
    services: Serving, user: User, revoked: Annotated[bool, Query(description="Include revoked tokens.")] = False, limit: Limit = 50, token: Token = None
) -> Page[access.Token]:
    return services.administration.list_tokens(user, revoked=revoked, after=id_of(token), limit=limit)


@router.post("/tokens")
def create_token(services: Serving, user: User, body: TokenRequest, key: Key = None) -> access.NewToken:
    """Only this answer contains the token."""
    wanted = NewTokenRequest(body.kind, body.label, body.user, tuple(body.roles), tuple(body.scopes), tuple(body.pools), body.expires_in_days)
    return services.administration.create_token(user, wanted, dry_run=body.dry_run, idempotency_key=key)


@router.post("/tokens/{token_id}/revoke")
def revoke_token(services: Serving, user: User, token_id: UUID, body: Change) -> access.Token:
    return services.administration.revoke_token(user, token_id, dry_run=body.dry_run)


@grants_router.get("/grants")
def grants(services: Serving, user: User, dag: Annotated[str | None, Query(max_length=128)] = None) -> list[access.Grant]:
    return services.granting.list_grants(user, dag)


@grants_router.post("/grants")
def grant(services: Serving, user: User, body: GrantRequest) -> list[access.Grant]:
    """The DAG's grants after the change."""
    return services.granting.grant(user, body.dag, body.right, body.role, dry_run=body.dry_run)


@grants_router.post("/grants/revoke")
def revoke_grant(services: Serving, user: User, body: RevokeRequest) -> list[access.Grant]:
    """The DAG's grants after the change."""
    return services.granting.revoke(user, body.dag, body.right, Holder(body.role, body.user, body.service), dry_run=body.dry_run)


@grants_router.get("/read-roles/{dataset}")
def read_roles(services: Serving, user: User, dataset: str) -> access.ReadRoles:
    return services.reading.read_roles(user, dataset)


@grants_router.post("/read-roles/{dataset}")
def set_read_roles(services: Serving, user: User, dataset: str, body: ReadRolesRequest) -> access.ReadRoles:
    return services.reading.set_read_roles(user, dataset, body.roles, dry_run=body.dry_run)


@grants_router.get("/locations")
def locations(services: Serving, user: User) -> list[Location]:
    return services.locations.list_locations(user)


@grants_router.post("/locations")
def add_location(services: Serving, user: User, body: LocationRequest) -> Location:
    """For the installation's operators, who are the admins of its first org."""
    return services.locations.add(user, body.name, body.url, roles=body.roles, org=body.org, dry_run=body.dry_run)


@grants_router.post("/locations/{name}/set")
def set_location(services: Serving, user: User, name: str, body: LocationMove) -> Location:
    """For the installation's operators, who are the admins of its first org."""
    return services.locations.set(user, name, body.url, org=body.org, dry_run=body.dry_run)


@grants_router.post("/locations/{name}/remove")
def remove_location(services: Serving, user: User, name: str, body: Change) -> Location:
    """The removed location."""
    return services.locations.remove(user, name, dry_run=body.dry_run)


@grants_router.post("/locations/{name}/grant")
def grant_location(services: Serving, user: User, name: str, body: LocationGrant) -> Location:
    return services.locations.grant(user, name, body.role, dry_run=body.dry_run)


@grants_router.post("/locations/{name}/revoke")
def revoke_location(services: Serving, user: User, name: str, body: LocationGrant) -> Location:
    return services.locations.revoke(user, name, body.role, dry_run=body.dry_run)


@router.get("/audit")
def audit(services: Serving, user: User, limit: Limit = 50, token: Token = None) -> Page[access.AuditEntry]:
    """The audit log, newest first; for admins and auditors."""
    return services.administration.audit(user, before=id_of(token), limit=limit)
