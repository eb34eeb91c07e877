"""Producers of records, run one after the other: an error in one is its result, never an exception for the others."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tracelake_sdk.errors import Invalid, TracelakeError
from tracelake_sdk.errors.records import ProducerFailed
from tracelake_sdk.records.record import MetadataContext, MetadataRecord, MetadataRequest


class MetadataProducer(Protocol):
    """Inspects a target and emits records about it."""

    @property
    def producer_id(self) -> str:
        """`name.vN`; changes only with its contract."""
        ...

    def produce(self, request: MetadataRequest) -> Iterable[MetadataRecord]: ...


@dataclass(frozen=True)
class ProducerResult:
    """The result of one producer; records that it emitted before a failure remain emitted."""

    producer_id: str
    records: int
    seconds: float
    problem: dict[str, Any] | None = None
    error: Exception | None = None  # for debugging; its message may contain data

    @property
    def succeeded(self) -> bool:
        return self.problem is None


class MetadataProducerRunner:
    """Runs producers and passes each record on at once: `emit` is that of an emitter, or `store` of a repository."""

    def __init__(self, producers: Sequence[MetadataProducer], emit: Callable[[MetadataRecord, MetadataContext], object]) -> None:
        self._producers: Sequence[MetadataProducer] = producers
        self._emit: Callable[[MetadataRecord, MetadataContext], object] = emit

    def run(self, request: MetadataRequest) -> list[ProducerResult]:
        """One result per producer, in order."""
        return [self._result(producer, request) for producer in self._producers]

    def _result(self, producer: MetadataProducer, request: MetadataRequest) -> ProducerResult:
        started, emitted, name = time.monotonic(), 0, type(producer).__name__
        error: Exception | None = None
        try:
            name = producer.producer_id
            for record in producer.produce(request):
                self._emit_own(record, request.context, name)
                emitted += 1
        except Exception as failure:
            error = failure
        return ProducerResult(name, emitted, time.monotonic() - started, _problem(error), error)

    def _emit_own(self, record: MetadataRecord, context: MetadataContext, producer_id: str) -> None:
        if record.producer_id != producer_id:
            raise Invalid(f"{producer_id} emitted a record of {record.producer_id}; a producer may only emit its own records.")
        self._emit(record, context)


def _problem(error: Exception | None) -> dict[str, Any] | None:
    match error:
        case None:
            return None
        case TracelakeError():
            return error.problem()
        case _:
            return ProducerFailed(f"The producer failed with {type(error).__name__}.").problem()
