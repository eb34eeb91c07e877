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
    system_routes,
    user_routes,
)
from tracelake.control.api.body_limit import BodyLimit
from tracelake.control.api.context import Services

_MOST_BYTES = 32 * 2**20
_MOST_QUERIES = 128


def create_app(services: Services, *, max_waiting_polls: int) -> FastAPI:
    app = FastAPI(title="Tracelake", version="0.1.0", description="Data moves because metadata allows it, not because code ran.")
    app.state.services = services
    # Their own threads: idle polls in the framework's shared ones would starve heartbeats and completions.
    app.state.polls = anyio.CapacityLimiter(max_waiting_polls)
    app.state.queries = anyio.CapacityLimiter(_MOST_QUERIES)  # likewise: each waits for its answer
    app.add_middleware(BodyLimit, most_bytes=_MOST_BYTES)
    problems.install(app)
    for router in (user_routes.router, dataset_routes.router, guard_routes.router, admin_routes.router, internal_routes.router, query_routes.router, pin_routes.router, system_routes.router):
        app.include_router(router)
    return app
