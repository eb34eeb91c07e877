"""Callers: who a request comes from and what it may do. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from tracelake_sdk.errors import Forbidden

ADMIN, WRITER, READER, AUDITOR = "admin", "writer", "reader", "auditor"
RESERVED_ROLES = (ADMIN, WRITER, READER, AUDITOR)


class TokenKind(StrEnum):
    USER = "user"        # acts with its user's roles
    SERVICE = "service"  # acts with its scopes
    WORKER = "worker"    # claims and completes tasks


class Right(StrEnum):
    READ = "read"        # see DAGs, tasks, events and runs
    OPERATE = "operate"  # run, pause, resume, cancel
    DEPLOY = "deploy"    # deploy DAGs
    DEFINE = "define"    # define rules and policies


_ROLES_WITH: dict[Right, frozenset[str]] = {
    Right.READ: frozenset(RESERVED_ROLES),
    Right.OPERATE: frozenset({ADMIN, WRITER}),
    Right.DEPLOY: frozenset({ADMIN, WRITER}),
    Right.DEFINE: frozenset({ADMIN}),
}


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

    def require(self, right: Right) -> None:
        """Raises Forbidden unless a role, or for services a scope, gives the right."""
        match self.kind:
            case TokenKind.USER if self.roles & _ROLES_WITH[right]:
                return
            case TokenKind.SERVICE if right.value in self.scopes:
                return
            case TokenKind.USER:
                roles = sorted(_ROLES_WITH[right])
                raise Forbidden(f"This needs {'the role' if len(roles) == 1 else 'one of the roles'} {', '.join(roles)}; ask an admin of org {self.org}.")
            case TokenKind.SERVICE:
                raise Forbidden(f"This service token lacks the scope `{right.value}`; ask an admin of org {self.org} for one that has it.")
            case TokenKind.WORKER:
                raise Forbidden("A worker token only claims and completes tasks; use a user's or a service's token here.")

    def require_pool(self, pool: str) -> None:
        """Raises Forbidden where a worker's token is bound to other pools."""
        if self.pools is not None and pool not in self.pools:
            raise Forbidden(f"This worker token is not bound to the pool {pool!r}.")
