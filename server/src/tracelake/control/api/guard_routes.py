"""LakeGuard over HTTP: rules, policies, and decisions. Thin: each route is its use case."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tracelake.control.api.context import Serving, User
from tracelake.control.api.guarded_routes import UserRoute
from tracelake.control.api.paging import Key, Limit, Token, id_of, number_of
from tracelake_sdk.dags import Layer
from tracelake_sdk.pages import Page
from tracelake_sdk.rules import RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, Policy, Promotion, Rule

router = APIRouter(prefix="/v1", tags=["guard"], route_class=UserRoute)

Dataset = Annotated[str | None, Query(max_length=128, description="A dataset's name or uuid.")]
Inactive = Annotated[bool, Query(description="Include inactive ones.")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dry_run: bool = False


class NewRule(_Request):
    dataset: str = Field(max_length=128, description="A dataset's name or uuid.")
    type: str = Field(max_length=64)
    expression: str
    severity: Severity = Severity.FAIL
    scope: RuleScope = RuleScope.BATCH


class RuleRevision(_Request):
    expression: str | None = None
    severity: Severity | None = None
    scope: RuleScope | None = None


class NewPolicy(_Request):
    layer: Layer
    type: str = Field(max_length=64)
    expression: str
    enforcement: Enforcement = Enforcement.BLOCK


class PolicyRevision(_Request):
    expression: str | None = None
    enforcement: Enforcement | None = None


class Deactivation(_Request):
    pass


@router.post("/rules")
def add_rule(services: Serving, user: User, body: NewRule, key: Key = None) -> Rule:
    return services.guard.add_rule(
        user, body.dataset, body.type, body.expression, severity=body.severity, scope=body.scope, dry_run=body.dry_run, idempotency_key=key
    )


@router.get("/rules")
def rules(services: Serving, user: User, dataset: Dataset = None, inactive: Inactive = False, limit: Limit = 50, token: Token = None) -> Page[Rule]:
    return services.guard.list_rules(user, dataset=dataset, inactive=inactive, limit=limit, after=id_of(token))


@router.post("/rules/{rule_id}/revise")
def revise_rule(services: Serving, user: User, rule_id: UUID, body: RuleRevision, key: Key = None) -> Rule:
    return services.guard.revise_rule(
        user, rule_id, expression=body.expression, severity=body.severity, scope=body.scope, dry_run=body.dry_run, idempotency_key=key
    )


@router.post("/rules/{rule_id}/deactivate")
def deactivate_rule(services: Serving, user: User, rule_id: UUID, body: Deactivation, key: Key = None) -> Rule:
    return services.guard.deactivate_rule(user, rule_id, dry_run=body.dry_run, idempotency_key=key)


@router.post("/policies")
def add_policy(services: Serving, user: User, body: NewPolicy, key: Key = None) -> Policy:
    return services.guard.add_policy(
        user, body.layer, body.type, body.expression, enforcement=body.enforcement, dry_run=body.dry_run, idempotency_key=key
    )


@router.get("/policies")
def policies(
    services: Serving, user: User, layer: Layer | None = None, inactive: Inactive = False, limit: Limit = 50, token: Token = None
) -> Page[Policy]:
    return services.guard.list_policies(user, layer=layer, inactive=inactive, limit=limit, after=id_of(token))


@router.post("/policies/{policy_id}/revise")
def revise_policy(services: Serving, user: User, policy_id: UUID, body: PolicyRevision, key: Key = None) -> Policy:
    return services.guard.revise_policy(
        user, policy_id, expression=body.expression, enforcement=body.enforcement, dry_run=body.dry_run, idempotency_key=key
    )


@router.post("/policies/{policy_id}/deactivate")
def deactivate_policy(services: Serving, user: User, policy_id: UUID, body: Deactivation, key: Key = None) -> Policy:
    return services.guard.deactivate_policy(user, policy_id, dry_run=body.dry_run, idempotency_key=key)


@router.get("/promotions")
def promotions(
    services: Serving, user: User, dataset: Dataset = None, allowed: bool | None = None, limit: Limit = 50, token: Token = None
) -> Page[Promotion]:
    return services.guard.promotions(user, dataset=dataset, allowed=allowed, limit=limit, before=number_of(token))


@router.get("/promotions/{decision}")
def promotion(services: Serving, user: User, decision: str) -> Promotion:
    """By its id, or by the id of its run."""
    return services.guard.decision(user, decision)
