"""Callers: who a request comes from and what it may do. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from tracelake_sdk.access import TokenKind
from tracelake_sdk.errors import Forbidden

ADMIN, WRITER, READER, AUDITOR = "admin", "writer", "reader", "auditor"
RESERVED_ROLES = (ADMIN, WRITER, READER, AUDITOR)


class Right(StrEnum):
    """What somebody may do at all; on which DAGs and datasets is said by grants and read roles."""

    READ = "read"              # look at what may be seen
    OPERATE = "operate"        # run, pause, resume, cancel; pin versions
    DEPLOY = "deploy"          # deploy DAGs
    CREATE = "create"          # deploy a DAG that is not there yet
    DEFINE = "define"          # define rules and policies
    AUDIT = "audit"            # read who did what
    PIN = "pin"                # of a query process: pin what whoever asks it may read
    READ_RECORDS = "records:read"    # read metadata records and their kinds
    WRITE_RECORDS = "records:write"  # store metadata records, register kinds
    PUBLISH_RECORDS = "records:publish"  # store what a system says of itself; for one that keeps its records here
    METRICS = "metrics"        # read the numbers of the whole installation; for tokens of the org that operates it
    ADMINISTER = "administer"  # users, roles, tokens, grants, read roles


# Without a line: every role, also one that the org made up.
_ROLES_WITH: dict[Right, frozenset[str]] = {
    Right.CREATE: frozenset({ADMIN, WRITER}),
    Right.DEFINE: frozenset({ADMIN}),
    Right.AUDIT: frozenset({ADMIN, AUDITOR}),
    Right.WRITE_RECORDS: frozenset({ADMIN, WRITER}),
    Right.PUBLISH_RECORDS: frozenset({ADMIN}),
    Right.METRICS: frozenset({ADMIN}),
    Right.ADMINISTER: frozenset({ADMIN}),
}
# What reaches beyond one org: for callers of the org that operates the installation.
OF_THE_INSTALLATION = frozenset({Right.METRICS, Right.PIN})
# What a service's token may be given. A service that deploys creates DAGs where a role of its token lets it.
SCOPES = (Right.READ, Right.OPERATE, Right.DEPLOY, Right.DEFINE, Right.PIN, Right.READ_RECORDS, Right.WRITE_RECORDS, Right.PUBLISH_RECORDS, Right.METRICS)


@dataclass(frozen=True)
class Caller:
    """Somebody with a valid token, in exactly one org."""

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
        """Everything that is known about every dataset and DAG; for auditors without a row of them."""
        return bool(self.roles & {ADMIN, AUDITOR})

    def require(self, right: Right) -> None:
        """Raises Forbidden unless a role, or for services a scope, gives the right."""
        wanted = _ROLES_WITH.get(right)
        if right in OF_THE_INSTALLATION and not self.operates:
            raise Forbidden(f"`{right.value}` reaches beyond one org; only tokens of the org that operates the installation may have it.")
        match self.kind:
            case TokenKind.USER if self.roles & (wanted or self.roles):
                return
            case TokenKind.SERVICE if right.value in self.scopes:
                return
            case TokenKind.SERVICE if right is Right.CREATE and Right.DEPLOY in self.scopes and self.roles & _ROLES_WITH[Right.CREATE]:
                return
            case TokenKind.USER if wanted is None:
                raise Forbidden(f"This needs a role, and {self.name} has none; ask an admin of org {self.org}.")
            case TokenKind.USER:
                roles = sorted(wanted or ())
                raise Forbidden(f"This needs {'the role' if len(roles) == 1 else 'one of the roles'} {', '.join(roles)}; ask an admin of org {self.org}.")
            case TokenKind.SERVICE if right is Right.CREATE:
                raise Forbidden(f"This service token has neither the role admin nor writer, so it cannot create a DAG; ask an admin of org {self.org}.")
            case TokenKind.SERVICE:
                raise Forbidden(f"This service token lacks the scope `{right.value}`; ask an admin of org {self.org} for one that has it.")
            case TokenKind.WORKER:
                raise Forbidden("A worker token only claims and completes tasks; use a user's or a service's token here.")

    def has(self, right: Right) -> bool:
        try:
            self.require(right)
        except Forbidden:
            return False
        return True

    def require_pool(self, pool: str) -> None:
        """Raises Forbidden where a worker's token is bound to other pools."""
        if self.pools is not None and pool not in self.pools:
            raise Forbidden(f"This worker token is not bound to the pool {pool!r}.")
