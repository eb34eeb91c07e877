"""Routes of users and services: deploy, run, watch, pause, cancel. Thin: each route is its use case."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tracelake.control.api.bodies import parsed, takes
from tracelake.control.api.context import Serving, User
from tracelake.control.api.guarded_routes import UserRoute
from tracelake.control.api.paging import Key, Limit, Token, id_of, number_of
from tracelake_sdk.dags.status import DagStatus, Deployed
from tracelake_sdk.json_values import Json
from tracelake_sdk.pages import Page
from tracelake_sdk.tasks import Task, TaskState
from tracelake_sdk.tasks.cascades import Cascade
from tracelake_sdk.tasks.events import DatasetEvent
from tracelake_sdk.tasks.runs import Run, RunDetail, RunStatus

router = APIRouter(prefix="/v1", tags=["user"], route_class=UserRoute)

Name = Annotated[str | None, Query(max_length=128)]


class DeployRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    definition: str = Field(description="The text of a DAG file.")
    dry_run: bool = False


class StartRunRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dag: str
    job: str
    request: Json = Field(default_factory=dict)


@router.post("/dags", openapi_extra=takes(DeployRequest))
def deploy(services: Serving, user: User, body: Annotated[DeployRequest, parsed(DeployRequest)]) -> Deployed:
    return services.deploys.deploy(user, body.definition, dry_run=body.dry_run)


@router.get("/dags")
def dags(services: Serving, user: User) -> list[DagStatus]:
    return services.tasks.views.status(user, None)


@router.get("/dags/{dag}")
def dag(services: Serving, user: User, dag: str) -> DagStatus:
    return services.tasks.views.status(user, dag)[0]


@router.post("/dags/{dag}/pause")
def pause_dag(services: Serving, user: User, dag: str) -> DagStatus:
    services.tasks.pauses.pause(user, dag, None)
    return services.tasks.views.status(user, dag)[0]


@router.post("/dags/{dag}/resume")
def resume_dag(services: Serving, user: User, dag: str) -> DagStatus:
    services.tasks.pauses.resume(user, dag, None)
    return services.tasks.views.status(user, dag)[0]


@router.post("/dags/{dag}/jobs/{job}/pause")
def pause_job(services: Serving, user: User, dag: str, job: str) -> DagStatus:
    services.tasks.pauses.pause(user, dag, job)
    return services.tasks.views.status(user, dag)[0]


@router.post("/dags/{dag}/jobs/{job}/resume")
def resume_job(services: Serving, user: User, dag: str, job: str) -> DagStatus:
    services.tasks.pauses.resume(user, dag, job)
    return services.tasks.views.status(user, dag)[0]


@router.post("/runs", openapi_extra=takes(StartRunRequest))
def run(services: Serving, user: User, body: Annotated[StartRunRequest, parsed(StartRunRequest)], key: Key = None) -> Task:
    return services.tasks.views.task(user, services.tasks.requests.run(user, body.dag, body.job, body.request, idempotency_key=key))


@router.get("/runs")
def runs(
    services: Serving, user: User, dag: Name = None, job: Name = None, status: RunStatus | None = None, limit: Limit = 50, token: Token = None
) -> Page[Run]:
    return services.tasks.views.runs(user, dag=dag, job=job, status=status, limit=limit, before=number_of(token))


@router.get("/runs/{run_id}")
def run_detail(services: Serving, user: User, run_id: str) -> RunDetail:
    """One run in full: pins, results, decision."""
    return services.explaining.run(user, run_id)


@router.get("/tasks")
def tasks(
    services: Serving, user: User, dag: Name = None, job: Name = None, state: TaskState | None = None, limit: Limit = 50, token: Token = None
) -> Page[Task]:
    return services.tasks.views.tasks(user, dag=dag, job=job, state=state, limit=limit, before=id_of(token))


@router.get("/tasks/{task_id}")
def task(services: Serving, user: User, task_id: UUID) -> Task:
    return services.tasks.views.task(user, task_id)


@router.get("/tasks/{task_id}/caused")
def caused(services: Serving, user: User, task_id: UUID) -> Cascade:
    """The task and everything that it caused: the tasks of its batches and events, and theirs, by job and state."""
    return services.tasks.views.caused(user, task_id)


@router.post("/tasks/{task_id}/cancel")
def cancel(services: Serving, user: User, task_id: UUID) -> Task:
    services.tasks.cancels.cancel(user, task_id)
    return services.tasks.views.task(user, task_id)


@router.get("/events")
def events(
    services: Serving, user: User, dag: Name = None, job: Name = None, producer: UUID | None = None, limit: Limit = 50, token: Token = None
) -> Page[DatasetEvent]:
    return services.tasks.views.events(user, dag=dag, job=job, producer=producer, limit=limit, before=id_of(token))
