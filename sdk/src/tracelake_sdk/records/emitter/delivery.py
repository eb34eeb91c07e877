"""Delivers a spool to a repository: in order, in batches of one context; a refused entry does not block later ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from pydantic import ValidationError

from tracelake_sdk.errors import Forbidden, Invalid, TracelakeError, Unauthenticated
from tracelake_sdk.errors.records import RepositoryDamaged, RepositoryUnavailable, TenantMismatch
from tracelake_sdk.records.emitter.segments import Frame
from tracelake_sdk.records.record import MetadataContext, MetadataRecord, StoreResult
from tracelake_sdk.records.repository.contract import MetadataRepository

LARGEST_BATCH = 500
PATIENCE = 5  # tries of one record that the repository fails on without a reason
_LATER = frozenset({429, 502, 503, 504})


class NotAccepting(Exception):
    """The repository does not accept anything now; private to the emitter."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail"))
        self.problem: dict[str, Any] = problem


@dataclass(frozen=True)
class Delivered:
    """The results of some entries."""

    entries: int = 0
    stored: int = 0
    same: int = 0
    refused: int = 0

    def __add__(self, other: "Delivered") -> "Delivered":
        return Delivered(self.entries + other.entries, self.stored + other.stored, self.same + other.same, self.refused + other.refused)


class Entries(Protocol):
    """A source of entries: a segment, or refused entries."""

    def read(self, most: int) -> list[Frame]: ...
    def entry(self, frame: Frame) -> str: ...
    def advance(self, to: int) -> None: ...


class Refusals(Protocol):
    """Stores refused entries."""

    def add(self, entry: str, frame: Frame, problem: dict[str, Any]) -> bool: ...


class Delivery:
    """Delivers the entries of one owner to a repository and sets aside refused ones."""

    def __init__(self, repository: MetadataRepository, refused: Refusals, *, patience: int = PATIENCE) -> None:
        self._repository: MetadataRepository = repository
        self._refused: Refusals = refused
        self._patience: int = patience
        self._failing: tuple[str, int] = ("", 0)  # the entry that the repository fails on without a reason, and how often
        self._alone: int = 0                      # how many entries are sent one by one, to find the one that fails

    def run_once(self, entries: Entries) -> Delivered:
        """Delivers one batch and marks it in its source; does nothing without a complete entry. Raises NotAccepting."""
        frames = entries.read(1 if self._alone else LARGEST_BATCH)
        if not frames:
            return Delivered()
        batch = list(takewhile(lambda frame: frame.context == frames[0].context, frames))
        done = self._deliver(entries, batch)
        entries.advance(batch[done.entries - 1].end)
        self._alone = max(0, self._alone - 1)
        return done

    def _deliver(self, entries: Entries, batch: list[Frame]) -> Delivered:
        context, records = _parsed(batch)
        if context is None or not records:
            return self._set_aside(entries, batch[:1], Invalid("The entry is not a valid record of this version of the SDK.").problem())
        batch = batch[: len(records)]
        try:
            results = self._repository.bulk_store(records, context)
        except TenantMismatch as error:
            return self._set_aside(entries, batch, error.problem())
        except Exception as error:  # no error of a repository may stop the delivery of later entries
            return self._failed(entries, batch, error)
        return self._settle(entries, batch, results)

    def _settle(self, entries: Entries, batch: list[Frame], results: Sequence[StoreResult]) -> Delivered:
        for result in results:
            if result.problem is not None and result.problem.get("status") in _LATER:
                raise NotAccepting(result.problem)  # the others are `same` the next time
        refused = 0
        for frame, result in zip(batch, results, strict=True):
            if not result.accepted:
                refused += self._refused.add(entries.entry(frame), frame, result.problem or {})
        outcomes = [result.result for result in results]
        return Delivered(len(batch), outcomes.count("stored"), outcomes.count("same"), refused)

    def _failed(self, entries: Entries, batch: list[Frame], error: Exception) -> Delivered:
        """The whole call failed: retry later, retry in smaller parts, or set aside."""
        problem = _problem(error)
        if _may_be_taken_later(error):
            raise NotAccepting(problem)
        if problem["status"] < 500 or not self._patience:  # the request is at fault, or no retries are allowed
            return self._deliver(entries, batch[: len(batch) // 2]) if len(batch) > 1 else self._set_aside(entries, batch, problem)
        entry = entries.entry(batch[0])
        tries = self._failing[1] + 1 if self._failing[0] == entry else 1
        self._failing = (entry, tries)
        if len(batch) > 1 or tries <= self._patience:
            self._alone = max(self._alone, len(batch))
            raise NotAccepting(problem)
        return self._set_aside(entries, batch, problem)

    def _set_aside(self, entries: Entries, batch: list[Frame], problem: dict[str, Any]) -> Delivered:
        return Delivered(len(batch), refused=sum(self._refused.add(entries.entry(frame), frame, problem) for frame in batch))


def _parsed(batch: list[Frame]) -> tuple[MetadataContext | None, list[MetadataRecord]]:
    """The context, and the records up to the first invalid one."""
    records: list[MetadataRecord] = []
    context = None
    try:
        context = MetadataContext.model_validate_json(batch[0].context)
        for frame in batch:
            records.append(MetadataRecord.model_validate_json(frame.record))  # records before the invalid one are kept
    except ValidationError:
        return context, records
    return context, records


def _may_be_taken_later(error: Exception) -> bool:
    """The records are not at fault: the repository, the connection or the token must be fixed."""
    if isinstance(error, TracelakeError):
        return error.status in _LATER or isinstance(error, (Unauthenticated, Forbidden, RepositoryDamaged))
    return isinstance(error, OSError)


def _problem(error: Exception) -> dict[str, Any]:
    if isinstance(error, TracelakeError):
        return error.problem()
    kind = RepositoryUnavailable if isinstance(error, OSError) else TracelakeError
    return kind(f"The repository failed with {type(error).__name__}.").problem()
