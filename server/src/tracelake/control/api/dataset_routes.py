"""Datasets over HTTP: what there is, its versions, and why it is as it is. Thin: each route is its use case."""

from fastapi import APIRouter

from tracelake.control.api.context import Serving, User
from tracelake.control.api.paging import Limit, Token, id_of, number_of
from tracelake_sdk.datasets import Dataset, Explanation, Version
from tracelake_sdk.pages import Page

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])


@router.get("")
def datasets(services: Serving, user: User, limit: Limit = 50, token: Token = None) -> Page[Dataset]:
    return services.explaining.datasets(user, after=id_of(token), limit=limit)


@router.get("/{name}")
def dataset(services: Serving, user: User, name: str) -> Dataset:
    """By its name or its uuid."""
    return services.explaining.dataset(user, name)


@router.get("/{name}/versions")
def versions(services: Serving, user: User, name: str, limit: Limit = 50, token: Token = None) -> Page[Version]:
    return services.explaining.versions(user, name, before=number_of(token), limit=limit)


@router.get("/{name}/versions/{number}")
def version(services: Serving, user: User, name: str, number: int) -> Version:
    return services.explaining.version(user, name, number)


@router.get("/{name}/explain")
def explain(services: Serving, user: User, name: str) -> Explanation:
    return services.explaining.explain(user, name)
