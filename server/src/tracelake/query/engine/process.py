"""The program of one engine: it answers one request at a time on its pipes, has no credentials, and opens the next connection while nobody waits."""

import gc
import os
import resource
import select
import sys
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa
from pydantic import TypeAdapter

from tracelake.query.engine.contract import Answer, EngineLimits, EngineRequest, Problem, ReadRequest, receive, send
from tracelake.query.engine.engine import ENGINE_VERSION, Engine
from tracelake.query.engine.failures import failure_of
from tracelake_sdk.errors import TracelakeError

_BESIDE_MEMORY_MIB = 768  # the interpreter, libraries, and the result while it is sent
_ON_ITS_WAY_MS = 15       # about the time in which an answer reaches its reader
_DEEP = 20_000            # the engine's own limit on nesting is below it

_questions: TypeAdapter[Any] = TypeAdapter(EngineRequest)


def main(limits: str, folder: str) -> None:
    bounds = EngineLimits.model_validate_json(limits)
    _give_up_rights(bounds)
    sys.setrecursionlimit(_DEEP)
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries is not part of the answer
    engine = Engine(bounds, Path(folder))
    engine.renew()
    gc.freeze()  # objects that exist now live as long as the process: garbage collection in the middle of a query can skip them
    while (frame := receive(questions)) is not None:
        answer, body = respond(engine, bounds, frame[0])
        send(answers, answer, body)
        if answer.unfit:
            break
        if answer.read is None and not _next_request_is_here(questions):
            engine.make_ready()
    engine.close()


def _next_request_is_here(questions: IO[bytes]) -> bool:
    """Whether the next request arrives within a moment; until then the CPU is left to the delivery of the last answer."""
    poll = select.poll()
    poll.register(questions, select.POLLIN)
    return bool(poll.poll(_ON_ITS_WAY_MS))


def respond(engine: Engine, bounds: EngineLimits, head: bytes) -> tuple[Answer, bytes]:
    try:
        question = _questions.validate_json(head)
        if isinstance(question, ReadRequest):
            return Answer(engine_version=ENGINE_VERSION, read=engine.read(question.sql)), b""
        ran, body = engine.run(question)
        return Answer(engine_version=ENGINE_VERSION, ran=ran), body
    except TracelakeError as error:
        return Answer(engine_version=ENGINE_VERSION, problem=Problem.of(error)), b""
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError, RuntimeError, ValueError, OverflowError) as error:
        failure, unfit = failure_of(error, max_seconds=bounds.max_seconds, memory_mib=bounds.memory_mib, spill_mib=bounds.spill_mib)
        return Answer(engine_version=ENGINE_VERSION, problem=Problem.of(failure), unfit=unfit), b""


def _give_up_rights(bounds: EngineLimits) -> None:
    """Limits of the operating system: whatever DuckDB's own limits do not cover ends only this process."""
    most = (bounds.memory_mib + _BESIDE_MEMORY_MIB) * 2**20 + bounds.max_bytes * 4
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Path("/proc/self/oom_score_adj").write_text("1000")  # killed first when the machine runs out of memory


if __name__ == "__main__":
    main(*sys.argv[1:])
