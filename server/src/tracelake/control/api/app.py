"""The app: routes, errors, limits."""

import anyio
from fastapi import FastAPI

from tracelake.control.api import (
    admin_routes,
    dataset_routes,
    guard_routes,
    internal_routes,
    pin_routes,
    problems,
    query_routes,
    record_routes,
    system_routes,
    user_routes,
)
from tracelake.control.api.body_limit import BodyLimit
from tracelake.control.api.context import RecordServices, Services

_MOST_BYTES = 32 * 2**20
_MOST_QUERIES = 128
_TAIL_THREADS = 2


def create_app(services: Services, *, max_waiting_polls: int) -> FastAPI:
    app = _app("Data moves because metadata allows it, not because code ran.")
    app.state.services = services
    # Their own threads: idle polls in the framework's shared ones would starve heartbeats and completions.
    app.state.polls = anyio.CapacityLimiter(max_waiting_polls)
    app.state.queries = anyio.CapacityLimiter(_MOST_QUERIES)  # likewise: each waits for its answer
    # Routes are tried one after the other: those that are called most come first.
    for router in (
        internal_routes.router, pin_routes.router, record_routes.router, user_routes.router, dataset_routes.router, guard_routes.router,
        admin_routes.router, admin_routes.grants_router, query_routes.router, system_routes.router, system_routes.metrics_router,
    ):  # fmt: skip
        app.include_router(router)
    return app


def create_records_app(services: RecordServices) -> FastAPI:
    """The records service by itself: records, kinds, and who may call."""
    app = _app("Structured facts about targets, of registered kinds.")
    app.state.services = services
    for router in (admin_routes.router, record_routes.router, system_routes.router):
        app.include_router(router)
    return app


def _app(description: str) -> FastAPI:
    app = FastAPI(title="Tracelake", version="0.1.0", description=description)
    app.state.tails = anyio.CapacityLimiter(_TAIL_THREADS)  # few: however many streams wake up at once, others find connections
    app.add_middleware(BodyLimit, most_bytes=_MOST_BYTES)
    problems.install(app)
    return app
