"""Access: users, roles, tokens and rights, as admins see them."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from tracelake_sdk.deferred import Deferred


class TokenKind(StrEnum):
    USER = "user"        # has the roles of its user
    SERVICE = "service"  # its scopes limit the actions, its roles limit the objects
    WORKER = "worker"    # claims and completes tasks


class DagRight(StrEnum):
    """A right on one DAG; either of them also lets its holder read the DAG's datasets."""

    DEPLOY = "deploy"    # activate another definition of it
    TRIGGER = "trigger"  # run, pause, resume, cancel


class Org(Deferred):
    id: UUID
    name: str
    created_at: datetime
    disabled_at: datetime | None
    operates: bool  # the installation's first: its admins make and disable orgs


class NewOrg(Org):
    admin: str  # the user who administers it from its start
    token: str | None = Field(description="The admin's token, shown only once; None in a dry run, for an org that already exists, and for an admin who signs in with a JWT.")


class User(Deferred):
    id: UUID
    name: str
    issuer: str  # with subject: identifies the user in a JWT
    subject: str
    roles: list[str]
    created_at: datetime
    disabled_at: datetime | None


class Role(Deferred):
    """A named set of rights; the reserved ones are in every org."""

    name: str
    reserved: bool
    members: list[str]  # names of users


class Token(Deferred):
    """The attributes of a token; the token itself is not stored."""

    id: UUID
    kind: TokenKind
    label: str
    user: str | None          # of a user's token
    roles: list[str]          # of a service's token; a user's has those of its user
    scopes: list[str]
    pools: list[str] | None   # of a worker's token; None: every pool of the org
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewToken(Token):
    token: str | None = Field(description="Shown only once; None in a dry run.")


class Grant(Deferred):
    """A right on one DAG, held by a role, or by the user or the service that created the DAG."""

    dag: str
    right: DagRight
    role: str | None
    user: str | None
    service: str | None  # the label of its token
    actor: str
    at: datetime


class ReadRoles(Deferred):
    """Which roles read a dataset, beside those who deploy or trigger its DAG and the admins."""

    dataset_uuid: UUID
    dataset: str | None  # its name
    roles: list[str]


class AuditEntry(Deferred):
    id: UUID
    at: datetime
    actor: str
    action: str
    object: str
    detail: dict[str, Any]
