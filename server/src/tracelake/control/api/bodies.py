"""Request bodies: the size limit of each route, the permission its sender needs, and parsing."""

from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel

from tracelake.control.access.callers import Permission

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

# The permission that the sender of a large body needs: the token shows it, so it is checked before the body is read. The service checks again,
# with the content of the body.
RIGHTS = {
    "/v1/dags": Permission.DEPLOY,
    "/v1/runs": Permission.OPERATE,
    "/v1/query": Permission.READ,
    "/v1/queries/{id}/replay": Permission.READ,
    "/v1/saved-queries/{name}": Permission.READ,
    "/v1/records": Permission.WRITE_RECORDS,
    "/v1/records/bulk": Permission.WRITE_RECORDS,
    "/v1/records/query": Permission.READ_RECORDS,
    "/v1/records/aggregate": Permission.READ_RECORDS,
    "/v1/kinds": Permission.WRITE_RECORDS,
}


def takes(model: type[BaseModel]) -> dict[str, object]:
    """The OpenAPI entry of a body that a route parses itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}


def parsed(model: type[BaseModel]) -> Any:
    """A dependency: the body as this model, parsed in a thread. For bodies that may be large."""

    def parse(body: Annotated[bytes, Depends(_body_of)]) -> BaseModel:
        return model.model_validate_json(body)

    return Depends(parse)


async def _body_of(request: Request) -> bytes:
    return await request.body()
