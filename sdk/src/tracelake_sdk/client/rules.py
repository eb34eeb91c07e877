"""LakeGuard: rules, policies and the decisions made by them, reached as `client.rules`, `client.policies` and `client.promotions`."""

from __future__ import annotations  # return types are resolved on demand, not at import

from uuid import UUID

from tracelake_sdk.client.connection import Connection, quoted
from tracelake_sdk.dags import Layer
from tracelake_sdk.pages import Page
from tracelake_sdk.rules import RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, Policy, Promotion, Rule


class Rules:
    """What good data means, one dataset at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(self, *, dataset: UUID | str | None = None, inactive: bool = False, limit: int = 50, token: str | None = None) -> Page[Rule]:
        return self._connection.get(Page[Rule], "/v1/rules", {"dataset": dataset, "inactive": inactive, "limit": limit, "token": token})

    def add(
        self,
        dataset: UUID | str,
        type: str,
        expression: str,
        *,
        severity: Severity = Severity.FAIL,
        scope: RuleScope = RuleScope.BATCH,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Rule:
        """Define what good data means for a dataset, by its name or uuid. A dry run only validates it."""
        body = {"dataset": str(dataset), "type": type, "expression": expression, "severity": severity, "scope": scope, "dry_run": dry_run}
        return self._connection.define(Rule, "/v1/rules", body, idempotency_key)

    def revise(
        self,
        id: UUID | str,
        *,
        expression: str | None = None,
        severity: Severity | None = None,
        scope: RuleScope | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Rule:
        """Append a revision with the given changes; a rule that was off is switched on again. A revision without changes is not stored."""
        body = {"expression": expression, "severity": severity, "scope": scope, "dry_run": dry_run}
        return self._connection.define(Rule, f"/v1/rules/{quoted(id)}/revise", body, idempotency_key)

    def deactivate(self, id: UUID | str, *, dry_run: bool = False, idempotency_key: str | None = None) -> Rule:
        """Switch a rule off; its revisions are kept."""
        return self._connection.define(Rule, f"/v1/rules/{quoted(id)}/deactivate", {"dry_run": dry_run}, idempotency_key)


class Policies:
    """What the platform guarantees for every dataset of a layer."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(self, *, layer: Layer | None = None, inactive: bool = False, limit: int = 50, token: str | None = None) -> Page[Policy]:
        return self._connection.get(Page[Policy], "/v1/policies", {"layer": layer, "inactive": inactive, "limit": limit, "token": token})

    def add(
        self,
        layer: Layer,
        type: str,
        expression: str,
        *,
        enforcement: Enforcement = Enforcement.BLOCK,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Policy:
        """Define what the platform guarantees for every dataset of a layer. A dry run only validates it."""
        body = {"layer": layer, "type": type, "expression": expression, "enforcement": enforcement, "dry_run": dry_run}
        return self._connection.define(Policy, "/v1/policies", body, idempotency_key)

    def revise(
        self,
        id: UUID | str,
        *,
        expression: str | None = None,
        enforcement: Enforcement | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Policy:
        """Append a revision with the given changes; a policy that was off is switched on again. A revision without changes is not stored."""
        body = {"expression": expression, "enforcement": enforcement, "dry_run": dry_run}
        return self._connection.define(Policy, f"/v1/policies/{quoted(id)}/revise", body, idempotency_key)

    def deactivate(self, id: UUID | str, *, dry_run: bool = False, idempotency_key: str | None = None) -> Policy:
        """Switch a policy off; its revisions are kept."""
        return self._connection.define(Policy, f"/v1/policies/{quoted(id)}/deactivate", {"dry_run": dry_run}, idempotency_key)


class Promotions:
    """What the gate decided, with every result."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(
        self, *, dataset: UUID | str | None = None, allowed: bool | None = None, limit: int = 50, token: str | None = None
    ) -> Page[Promotion]:
        """Decisions with all their results, newest first."""
        return self._connection.get(Page[Promotion], "/v1/promotions", {"dataset": dataset, "allowed": allowed, "limit": limit, "token": token})

    def get(self, decision: UUID | str) -> Promotion:
        """One decision, by its id or by the id of its run."""
        return self._connection.get(Promotion, f"/v1/promotions/{quoted(decision)}")
