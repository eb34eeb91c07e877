"""The HTTP interface of a query process: queries, readiness and metrics."""

import uuid

import anyio
import anyio.to_thread
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tracelake.listening import answer_while_listening
from tracelake.loop_metrics import add_loop_metrics
from tracelake.loops import Loops, log_failure, not_ready
from tracelake.query.admission import Admission
from tracelake.query.engines import Listener
from tracelake.query.front import ForwardedQuery, Front
from tracelake.request_bodies import BodyMemory, read_body
from tracelake_sdk.errors import Malformed, TracelakeError, Unauthenticated
from tracelake_sdk.queries import MEDIA_TYPES, MOST_SQL

_REFUSED_AT_ONCE = 8
_MOST_BYTES = MOST_SQL * 8  # a character takes up to four bytes, and up to six more when JSON escapes it
_MOST_SECONDS = 30.0        # in which it must arrive
_MOST_TOGETHER = 2**26      # bytes of all queries that are read and answered at a time


def create_app(front: Front, loops: Loops, *, at_once: int) -> Starlette:
    """`at_once` is how many queries may run and wait; requests beyond that must still get an answer."""
    threads = anyio.CapacityLimiter(at_once + _REFUSED_AT_ONCE)
    admission, memory = Admission(front.control), BodyMemory(_MOST_TOGETHER)

    async def query(request: Request) -> Response:
        with memory.holding() as held:
            try:
                token = _token(request.headers.get("authorization", ""))
                if not admission.is_remembered(token):
                    await anyio.to_thread.run_sync(admission.admit, token)
                body = await read_body(request, most=_MOST_BYTES, seconds=_MOST_SECONDS, held=held)
            except TracelakeError as error:
                return _problem(error, close=True)  # the rest of the body is not read
            except ClientDisconnect:
                return Response(status_code=400)  # the client has disconnected
            listener = Listener()
            return await answer_while_listening(request, lambda: _answer(front, token, body, listener), hung_up=listener.hang_up, limiter=threads)

    async def alive(request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(request: Request) -> Response:
        reasons = loops.reasons()
        return _problem(not_ready(reasons)) if reasons else JSONResponse({"status": "ready"})

    async def metrics(request: Request) -> Response:
        registry = CollectorRegistry()  # only of the loops, which `/readyz` also names without a token
        add_loop_metrics(registry, loops.statuses())
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    return Starlette(routes=[Route("/query", query, methods=["POST"]), Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", metrics)])


def _answer(front: Front, token: str, body: bytes, listener: Listener) -> Response:
    try:
        reply = front.answer(_question(body), token, listener)
    except TracelakeError as error:
        return _problem(error)
    except Exception as error:  # not its message, which could contain the statement
        id = uuid.uuid4().hex
        log_failure("an unexpected error", error, id=id)
        return _problem(TracelakeError(id=id))
    return Response(reply.body, headers=reply.headers, media_type=MEDIA_TYPES[reply.format])


def _token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated
    return token.strip()


def _question(body: bytes) -> ForwardedQuery:
    try:
        return ForwardedQuery.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"The request is wrong at {place or 'its top'}: {first['msg']}.") from None


def _problem(error: TracelakeError, *, close: bool = False) -> Response:
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    if close:
        headers["Connection"] = "close"
    return JSONResponse(error.problem(), status_code=error.status, headers=headers, media_type="application/problem+json")
