"""Errors as problem+json: one handler for every deliberate error, one for bad input, one for unexpected errors."""

import uuid

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from tracelake.control.api.names import remedy_of
from tracelake.loops import log_failure
from tracelake_sdk.errors import Malformed, NotFound, TracelakeError


def install(app: FastAPI) -> None:
    app.add_exception_handler(TracelakeError, _deliberate)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(ValidationError, _malformed)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(Exception, _unexpected)


def answer(error: TracelakeError) -> JSONResponse:
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.problem(), status_code=error.status, headers=headers, media_type="application/problem+json")


def _deliberate(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, TracelakeError):
        raise error
    return answer(error)


def _malformed(request: Request, error: Exception) -> JSONResponse:
    """Says where and why, and never quotes the input."""
    if not isinstance(error, (RequestValidationError, ValidationError)):
        raise error
    return answer(Malformed(f"The request is wrong at {first_fault(error)}."))


def first_fault(error: RequestValidationError | ValidationError) -> str:
    """Where and why, without the input."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    remedy = remedy_of(first.get("ctx", {}).get("pattern", "")) or str(first["msg"]).removeprefix("Value error, ")
    return f"{place or 'its top'}: {remedy}"


def _framework(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    match error.status_code:
        case 404:
            return answer(NotFound(f"{request.method} {request.url.path} was not found; /docs lists the API."))
        case status:
            problem = Malformed(str(error.detail)).problem() | {"status": status}
            return JSONResponse(problem, status_code=status, media_type="application/problem+json")


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    id = uuid.uuid4().hex
    log_failure("an unexpected error", error, id=id, method=request.method, path=request.url.path)
    return answer(TracelakeError(id=id))
