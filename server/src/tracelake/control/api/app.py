"""The app: routes, errors, limits."""

import anyio
from fastapi import FastAPI

from tracelake.control.api import (
    admin_routes,
    dataset_routes,
    docs_page,
    guard_routes,
    internal_routes,
    pin_routes,
    problems,
    query_routes,
    record_routes,
    system_routes,
    user_routes,
)
from tracelake.control.api.context import RecordServices, Services
from tracelake.request_bodies import BodyMemory
from tracelake.settings import ApiSettings

_MIB = 2**20
_MOST_QUERIES = 128
_TAIL_THREADS = 2


def create_app(services: Services, api: ApiSettings) -> FastAPI:
    app = _app("Data moves because metadata allows it, not because code ran.", api)
    app.state.services = services
    # Their own threads: idle polls in the framework's shared ones would starve heartbeats and completions.
    app.state.polls = anyio.CapacityLimiter(api.max_waiting_polls)
    app.state.queries = anyio.CapacityLimiter(_MOST_QUERIES)  # the same: each waits for its answer
    # Routes are matched in order: the most frequent ones come first.
    for router in (
        internal_routes.router, pin_routes.router, record_routes.router, user_routes.router, dataset_routes.router, guard_routes.router,
        admin_routes.router, admin_routes.grants_router, query_routes.router, system_routes.router, system_routes.me_router,
        system_routes.metrics_router,
    ):  # fmt: skip
        app.include_router(router)
    return app


def create_records_app(services: RecordServices, api: ApiSettings) -> FastAPI:
    """The records service by itself: records, kinds, and who may call."""
    app = _app("Structured facts about targets, of registered kinds.", api)
    app.state.services = services
    for router in (admin_routes.router, record_routes.router, system_routes.router, system_routes.me_router):
        app.include_router(router)
    return app


def _app(description: str, api: ApiSettings) -> FastAPI:
    app = FastAPI(title="Tracelake", version="0.1.0", description=description, docs_url=None, redoc_url=None)
    app.state.body_seconds = api.body_seconds
    app.state.body_memory = BodyMemory(api.bodies_mib * _MIB)
    app.state.tails = anyio.CapacityLimiter(_TAIL_THREADS)  # few: however many streams wake up at once, other requests still get connections
    problems.install(app)
    docs_page.install(app)
    return app
