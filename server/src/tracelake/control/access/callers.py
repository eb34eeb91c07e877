"""Callers: who sent a request and which permissions it has. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from tracelake_sdk.access import TokenKind
from tracelake_sdk.errors import Forbidden

ADMIN, WRITER, READER, AUDITOR = "admin", "writer", "reader", "auditor"
RESERVED_ROLES = (ADMIN, WRITER, READER, AUDITOR)


class Permission(StrEnum):
    """What a caller may do in general; grants and read roles say on which DAGs and datasets."""

    READ = "read"              # read what is visible to the caller
    OPERATE = "operate"        # run, pause, resume, cancel; pin versions
    DEPLOY = "deploy"          # deploy DAGs
    CREATE = "create"          # deploy a new DAG
    DEFINE = "define"          # define rules and policies
    AUDIT = "audit"            # read the audit log
    PIN = "pin"                # of a query process: pin what its caller may read
    READ_RECORDS = "records:read"    # read metadata records and their kinds
    WRITE_RECORDS = "records:write"  # store metadata records, register kinds
    PUBLISH_RECORDS = "records:publish"  # store records of another installation's own runs and decisions
    METRICS = "metrics"        # read the metrics of the whole installation; for tokens of the org that operates it
    ADMINISTER = "administer"  # users, roles, tokens, grants, read roles


# A permission that is not listed belongs to every role, also to roles that the org created.
_ROLES_WITH: dict[Permission, frozenset[str]] = {
    Permission.CREATE: frozenset({ADMIN, WRITER}),
    Permission.DEFINE: frozenset({ADMIN}),
    Permission.AUDIT: frozenset({ADMIN, AUDITOR}),
    Permission.WRITE_RECORDS: frozenset({ADMIN, WRITER}),
    Permission.PUBLISH_RECORDS: frozenset({ADMIN}),
    Permission.METRICS: frozenset({ADMIN}),
    Permission.ADMINISTER: frozenset({ADMIN}),
}
# Permissions that reach beyond one org: for callers of the org that operates the installation.
OF_THE_INSTALLATION = frozenset({Permission.METRICS, Permission.PIN})
# The scopes of a service token. A service with `deploy` may also create DAGs if a role of its token allows it.
SCOPES = (Permission.READ, Permission.OPERATE, Permission.DEPLOY, Permission.DEFINE, Permission.PIN, Permission.READ_RECORDS, Permission.WRITE_RECORDS, Permission.PUBLISH_RECORDS, Permission.METRICS)


@dataclass(frozen=True)
class Caller:
    """The owner of a valid token, in exactly one org."""

    org_id: UUID
    org: str
    kind: TokenKind
    name: str
    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    pools: frozenset[str] | None = None  # of a worker; None means every pool of the org
    user_id: UUID | None = None          # of a user
    token_id: UUID | None = None         # of a service
    operates: bool = False               # whether its org operates the installation

    @property
    def is_admin(self) -> bool:
        return ADMIN in self.roles

    @property
    def sees_all(self) -> bool:
        """Whether the caller sees the metadata of every dataset and DAG; auditors see it without rows."""
        return bool(self.roles & {ADMIN, AUDITOR})

    def require(self, right: Permission) -> None:
        """Raises Forbidden unless a role, or for services a scope, gives the permission."""
        wanted = _ROLES_WITH.get(right)
        if right in OF_THE_INSTALLATION and not self.operates:
            raise Forbidden(f"`{right.value}` reaches beyond one org; only tokens of the org that operates the installation may have it.")
        match self.kind:
            case TokenKind.USER if self.roles & (wanted or self.roles):
                return
            case TokenKind.SERVICE if right.value in self.scopes:
                return
            case TokenKind.SERVICE if right is Permission.CREATE and Permission.DEPLOY in self.scopes and self.roles & _ROLES_WITH[Permission.CREATE]:
                return
            case TokenKind.USER if wanted is None:
                raise Forbidden(f"This needs a role, and {self.name} has none; ask an admin of org {self.org}.")
            case TokenKind.USER:
                roles = sorted(wanted or ())
                raise Forbidden(f"This needs {'the role' if len(roles) == 1 else 'one of the roles'} {', '.join(roles)}; ask an admin of org {self.org}.")
            case TokenKind.SERVICE if right is Permission.CREATE:
                raise Forbidden(f"This service token has neither the role admin nor writer, so it cannot create a DAG; ask an admin of org {self.org}.")
            case TokenKind.SERVICE:
                raise Forbidden(f"This service token lacks the scope `{right.value}`; ask an admin of org {self.org} for one that has it.")
            case TokenKind.WORKER:
                raise Forbidden("A worker token only claims and completes tasks; use a user's or a service's token here.")

    def has(self, right: Permission) -> bool:
        try:
            self.require(right)
        except Forbidden:
            return False
        return True

    def require_pool(self, pool: str) -> None:
        """Raises Forbidden if a worker token is bound to other pools."""
        if self.pools is not None and pool not in self.pools:
            raise Forbidden(f"This worker token is not bound to the pool {pool!r}.")
