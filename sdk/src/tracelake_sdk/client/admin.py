"""Administration as Python: orgs, users, roles, tokens, grants, read roles and locations of an org, reached as `client.admin`.

Creating what already exists, with the same attributes, changes nothing; every change takes `dry_run`.
"""

from __future__ import annotations  # return types are resolved on demand, not at import

import uuid
from collections.abc import Collection
from uuid import UUID

from tracelake_sdk.access import AuditEntry, DagRight, Grant, NewOrg, NewToken, Org, ReadRoles, Role, Token, TokenKind, User
from tracelake_sdk.client.connection import Connection, quoted
from tracelake_sdk.dags.locations import Location
from tracelake_sdk.pages import Page


class Administration:
    """The administration API of one Tracelake system."""

    def __init__(self, connection: Connection) -> None:
        self._get = connection.get
        self._post = connection.post

    # Orgs: for the installation's operators, who are the admins of its first one
    def create_org(self, name: str, *, admin: str = "admin", issuer: str | None = None, subject: str | None = None, dry_run: bool = False) -> NewOrg:
        """Creates an org with its first admin. The admin's token is returned only here; with `issuer` and `subject` the admin signs in with a JWT instead."""
        body = {"name": name, "admin": admin, "issuer": issuer, "subject": subject, "dry_run": dry_run}
        return self._post(NewOrg, "/v1/admin/orgs", body)

    def orgs(self, *, limit: int = 50, token: str | None = None) -> Page[Org]:
        return self._get(Page[Org], "/v1/admin/orgs", {"limit": limit, "token": token})

    def disable_org(self, name: str, *, dry_run: bool = False) -> Org:
        return self._post(Org, f"/v1/admin/orgs/{quoted(name)}/disable", {"dry_run": dry_run})

    def enable_org(self, name: str, *, dry_run: bool = False) -> Org:
        return self._post(Org, f"/v1/admin/orgs/{quoted(name)}/enable", {"dry_run": dry_run})

    # Users
    def create_user(
        self, name: str, *, issuer: str | None = None, subject: str | None = None, roles: Collection[str] = (), dry_run: bool = False
    ) -> User:
        """`issuer` and `subject` identify the user in a JWT; without them the user signs in only with tokens of this org."""
        body = {"name": name, "issuer": issuer, "subject": subject, "roles": list(roles), "dry_run": dry_run}
        return self._post(User, "/v1/admin/users", body)

    def users(self, *, limit: int = 50, token: str | None = None) -> Page[User]:
        return self._get(Page[User], "/v1/admin/users", {"limit": limit, "token": token})

    def disable_user(self, name: str, *, dry_run: bool = False) -> User:
        return self._post(User, f"/v1/admin/users/{quoted(name)}/disable", {"dry_run": dry_run})

    def enable_user(self, name: str, *, dry_run: bool = False) -> User:
        return self._post(User, f"/v1/admin/users/{quoted(name)}/enable", {"dry_run": dry_run})

    # Roles
    def create_role(self, name: str, *, dry_run: bool = False) -> Role:
        return self._post(Role, "/v1/admin/roles", {"name": name, "dry_run": dry_run})

    def roles(self) -> list[Role]:
        return self._get(list[Role], "/v1/admin/roles")

    def add_member(self, role: str, user: str, *, dry_run: bool = False) -> User:
        return self._post(User, f"/v1/admin/roles/{quoted(role)}/members/{quoted(user)}/add", {"dry_run": dry_run})

    def remove_member(self, role: str, user: str, *, dry_run: bool = False) -> User:
        return self._post(User, f"/v1/admin/roles/{quoted(role)}/members/{quoted(user)}/remove", {"dry_run": dry_run})

    # Tokens
    def create_token(
        self,
        kind: TokenKind,
        label: str,
        *,
        user: str | None = None,
        roles: Collection[str] = (),
        scopes: Collection[str] = (),
        pools: Collection[str] = (),
        expires_in_days: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> NewToken:
        """The token is returned only here."""
        body = {
            "kind": kind, "label": label, "user": user, "roles": list(roles), "scopes": list(scopes), "pools": list(pools),
            "expires_in_days": expires_in_days, "dry_run": dry_run,
        }  # fmt: skip
        return self._post(NewToken, "/v1/admin/tokens", body, {"Idempotency-Key": idempotency_key or str(uuid.uuid4())})

    def tokens(self, *, revoked: bool = False, limit: int = 50, token: str | None = None) -> Page[Token]:
        return self._get(Page[Token], "/v1/admin/tokens", {"revoked": revoked, "limit": limit, "token": token})

    def revoke_token(self, id: UUID | str, *, dry_run: bool = False) -> Token:
        return self._post(Token, f"/v1/admin/tokens/{quoted(id)}/revoke", {"dry_run": dry_run})

    # Rights on DAGs, and readers of datasets
    def grant(self, dag: str, right: DagRight, role: str, *, dry_run: bool = False) -> list[Grant]:
        """Returns the DAG's grants after the change."""
        return self._post(list[Grant], "/v1/admin/grants", {"dag": dag, "right": right, "role": role, "dry_run": dry_run})

    def revoke_grant(
        self, dag: str, right: DagRight, *, role: str | None = None, user: str | None = None, service: str | None = None, dry_run: bool = False
    ) -> list[Grant]:
        """Revokes the grant of a role, or of the user or service that created the DAG. Returns the DAG's grants after the change."""
        body = {"dag": dag, "right": right, "role": role, "user": user, "service": service, "dry_run": dry_run}
        return self._post(list[Grant], "/v1/admin/grants/revoke", body)

    def grants(self, *, dag: str | None = None) -> list[Grant]:
        return self._get(list[Grant], "/v1/admin/grants", {"dag": dag})

    def read_roles(self, dataset: UUID | str) -> ReadRoles:
        return self._get(ReadRoles, f"/v1/admin/read-roles/{quoted(dataset)}")

    def set_read_roles(self, dataset: UUID | str, roles: Collection[str], *, dry_run: bool = False) -> ReadRoles:
        """Sets exactly these roles; without any, only those who deploy or trigger its DAG, and the admins, read the dataset."""
        return self._post(ReadRoles, f"/v1/admin/read-roles/{quoted(dataset)}", {"roles": list(roles), "dry_run": dry_run})

    # Locations: the installation's operators define the roots, each org's admins define who may use them
    def locations(self) -> list[Location]:
        return self._get(list[Location], "/v1/admin/locations")

    def add_location(self, name: str, url: str, *, roles: Collection[str] = (), org: str | None = None, dry_run: bool = False) -> Location:
        """An existing location with the same root and roles stays unchanged; one with another root raises LocationConflict."""
        return self._post(Location, "/v1/admin/locations", {"name": name, "url": url, "roles": list(roles), "org": org, "dry_run": dry_run})

    def set_location(self, name: str, url: str, *, org: str | None = None, dry_run: bool = False) -> Location:
        return self._post(Location, f"/v1/admin/locations/{quoted(name)}/set", {"url": url, "org": org, "dry_run": dry_run})

    def remove_location(self, name: str, *, dry_run: bool = False) -> Location:
        """Returns the removed location."""
        return self._post(Location, f"/v1/admin/locations/{quoted(name)}/remove", {"dry_run": dry_run})

    def grant_location(self, name: str, role: str, *, dry_run: bool = False) -> Location:
        return self._post(Location, f"/v1/admin/locations/{quoted(name)}/grant", {"role": role, "dry_run": dry_run})

    def revoke_location(self, name: str, role: str, *, dry_run: bool = False) -> Location:
        return self._post(Location, f"/v1/admin/locations/{quoted(name)}/revoke", {"role": role, "dry_run": dry_run})

    def audit(self, *, limit: int = 50, token: str | None = None) -> Page[AuditEntry]:
        """Who did what, the newest first."""
        return self._get(Page[AuditEntry], "/v1/admin/audit", {"limit": limit, "token": token})
