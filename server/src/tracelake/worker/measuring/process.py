"""The measuring process: one order per line of stdin, one result per line of stdout, until stdin ends."""

import os
import sys
import time
from typing import BinaryIO

import structlog
from pydantic import ValidationError

from tracelake.chaos import watch_for
from tracelake.logging_setup import configure_logging
from tracelake.worker.measuring.contract import CHAOS_VARIABLE, MeasureOrder, MeasureResult, Refusal
from tracelake.worker.measuring.measure import Watch, measure

_log = structlog.get_logger()


def run() -> None:
    """Runs until stdin ends. Only results reach the real stdout, even if a library prints."""
    configure_logging()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    watch = watch_for(os.environ.get(CHAOS_VARIABLE) or None)
    while run_once(sys.stdin.buffer, answers, watch):
        pass


def run_once(orders: BinaryIO, answers: BinaryIO, watch: Watch) -> bool:
    """Answers one order; False at the end of the input."""
    line = orders.readline()
    if not line.endswith(b"\n"):  # the worker has ended, maybe in the middle of a line
        return False
    answers.write(answer(line, watch).model_dump_json().encode() + b"\n")
    answers.flush()
    return True


def answer(line: bytes, watch: Watch) -> MeasureResult:
    """Every order gets an answer, even if measuring raises."""
    started = time.perf_counter()
    try:
        order = MeasureOrder.model_validate_json(line)
    except ValidationError:
        return MeasureResult(id="", refusal=Refusal(error_class="unmeasurable", message="The order is not valid."))
    try:
        result = measure(order, watch)
    except Exception:
        _log.exception("measuring failed", order=order.id)
        refusal = Refusal(error_class="unmeasurable", message="The output could not be measured; see the worker's log.", retry=True)
        return MeasureResult(id=order.id, refusal=refusal, milliseconds=round((time.perf_counter() - started) * 1000, 3))
    refused = result.refusal.error_class if result.refusal else None
    _log.info("measured", order=order.id, milliseconds=result.milliseconds, outputs=len(result.outputs), refused=refused)
    return result
