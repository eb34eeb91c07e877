"""Request bodies: how large one may be on each route, what its sender must be allowed to do, and who parses it."""

from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel

from tracelake.control.access.callers import Right

_KIB, _MIB = 2**10, 2**20

SMALL = 64 * _KIB  # names, numbers, one expression: every route that is not in the table
# A character of JSON text takes up to six bytes when it is escaped.
LIMITS = {
    "/internal/heartbeat": 512 * _KIB,       # 500 fences
    "/internal/task-complete": 32 * _MIB,    # 500 completions, 10,000 events
    "/internal/events": 32 * _MIB,           # finished batches with what was measured
    "/internal/pins/renew": 512 * _KIB,      # the pins of one query process
    "/internal/pins/release": _MIB,          # the statement of a query
    "/v1/dags": 8 * _MIB,                    # a DAG file of 1 MiB
    "/v1/runs": 2 * _MIB,                    # the request of a run
    "/v1/query": _MIB,                       # a statement of 100,000 characters
    "/v1/queries/{id}/replay": _MIB,         # the same
    "/v1/saved-queries/{name}": _MIB,        # the same
    "/v1/records": 8 * _MIB,                 # a record of 1 MiB
    "/v1/records/bulk": 32 * _MIB,           # 10,000 records
    "/v1/records/query": _MIB,               # filters
    "/v1/records/aggregate": _MIB,           # filters
    "/v1/kinds": _MIB,                       # a schema of 64 KiB
}

# What whoever sends a large body must be allowed to do: known from the token, so it is checked before the body is read. The service checks again,
# with everything that the body says.
RIGHTS = {
    "/v1/dags": Right.DEPLOY,
    "/v1/runs": Right.OPERATE,
    "/v1/query": Right.READ,
    "/v1/queries/{id}/replay": Right.READ,
    "/v1/saved-queries/{name}": Right.READ,
    "/v1/records": Right.WRITE_RECORDS,
    "/v1/records/bulk": Right.WRITE_RECORDS,
    "/v1/records/query": Right.READ_RECORDS,
    "/v1/records/aggregate": Right.READ_RECORDS,
    "/v1/kinds": Right.WRITE_RECORDS,
}


def takes(model: type[BaseModel]) -> dict[str, object]:
    """What the page of the API says of a body that a route parses itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}


def parsed(model: type[BaseModel]) -> Any:
    """A dependency: the body as this model, parsed in a thread. For what may be larger than small."""

    def parse(body: Annotated[bytes, Depends(_body_of)]) -> BaseModel:
        return model.model_validate_json(body)

    return Depends(parse)


async def _body_of(request: Request) -> bytes:
    return await request.body()
