"""Datasets over HTTP: the registry, versions, explanations, and names pinned to versions. Thin: each route is its use case."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tracelake.control.api.context import Serving, User
from tracelake.control.api.guarded_routes import UserRoute
from tracelake.control.api.paging import Limit, Token, id_of, number_of
from tracelake_sdk.dags import Layer, Name
from tracelake_sdk.datasets import Dataset, Explanation, Snapshot, Version
from tracelake_sdk.pages import Page

router = APIRouter(prefix="/v1", tags=["datasets"], route_class=UserRoute)

Exactly = Annotated[str | None, Query(max_length=128)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dry_run: bool = False


class NewSnapshot(_Request):
    name: Name = Field(description="The name to give to the version.")
    version: int | None = Field(default=None, ge=1, description="Default: the version that readers see now.")


class Unpinning(_Request):
    pass


@router.get("/datasets")
def datasets(
    services: Serving,
    user: User,
    search: Annotated[
        str | None, Query(max_length=256, description="Every word must occur in the name, layer, domain, owner, description, a column or the producer.")
    ] = None,
    layer: Layer | None = None,
    domain: Exactly = None,
    owner: Exactly = None,
    dag: Exactly = None,
    limit: Limit = 50,
    token: Token = None,
) -> Page[Dataset]:
    return services.explaining.datasets(
        user, after=id_of(token), limit=limit, search=search, layer=layer, domain=domain, owner=owner, dag=dag
    )


@router.get("/datasets/{name}")
def dataset(services: Serving, user: User, name: str) -> Dataset:
    """By its name, the name of a snapshot, or its uuid."""
    return services.explaining.dataset(user, name)


@router.get("/datasets/{name}/versions")
def versions(services: Serving, user: User, name: str, limit: Limit = 50, token: Token = None) -> Page[Version]:
    return services.explaining.versions(user, name, before=number_of(token), limit=limit)


@router.get("/datasets/{name}/versions/{number}")
def version(services: Serving, user: User, name: str, number: int) -> Version:
    return services.explaining.version(user, name, number)


@router.get("/datasets/{name}/explain")
def explain(services: Serving, user: User, name: str) -> Explanation:
    return services.explaining.explain(user, name)


@router.post("/datasets/{name}/snapshots")
def pin(services: Serving, user: User, name: str, body: NewSnapshot) -> Snapshot:
    return services.snapshots.pin(user, name, body.name, version=body.version, dry_run=body.dry_run)


@router.get("/snapshots")
def snapshots(services: Serving, user: User) -> list[Snapshot]:
    return services.snapshots.list_snapshots(user)


@router.post("/snapshots/{name}/unpin")
def unpin(services: Serving, user: User, name: str, body: Unpinning) -> Snapshot:
    return services.snapshots.unpin(user, name, dry_run=body.dry_run)
