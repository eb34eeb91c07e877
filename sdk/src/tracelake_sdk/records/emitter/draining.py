"""Delivers what dead processes left in a spool folder."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelake_sdk.records.emitter.delivery import Delivered, Delivery, Waits
from tracelake_sdk.records.emitter.owners import claim, owner_names
from tracelake_sdk.records.emitter.refusals import RefusedFile
from tracelake_sdk.records.emitter.segments import Segment
from tracelake_sdk.records.repository.contract import MetadataRepository


@dataclass(frozen=True)
class FlushReport:
    """What became of what lay in a folder; `problem` says why something is left."""

    delivered: Delivered = field(default_factory=Delivered)
    living: int = 0  # processes that deliver their own
    problem: dict[str, Any] | None = None


def _never() -> bool:
    return False


def flush_folder(
    folder: Path, repository: MetadataRepository, *, stopping: Callable[[], bool] = _never, tried: dict[str, Delivery] | None = None,
) -> FlushReport:
    """Everything of every dead process, oldest first; stops at the first answer that the repository does not take anything now.

    Who flushes again and again gives the same `tried`, which knows how often the repository failed at a record without saying why.
    """
    delivered, living = Delivered(), 0
    tried = {} if tried is None else tried
    for name in owner_names(folder):
        if stopping():
            break
        owner = claim(folder, name)
        if owner is None:
            living += 1
            continue
        refused = RefusedFile(folder, name)
        delivery = tried.setdefault(name, Delivery(repository, refused))
        try:
            for path in owner.segments():
                delivered = _drain(path, delivery, refused, delivered, stopping)
        except Waits as waits:
            return FlushReport(delivered, living, waits.problem)
        finally:
            owner.release()
    return FlushReport(delivered, living)


def _drain(path: Path, delivery: Delivery, refused: RefusedFile, delivered: Delivered, stopping: Callable[[], bool]) -> Delivered:
    segment = Segment.open(path)
    try:
        while not stopping() and (done := delivery.run_once(segment)).entries:
            delivered += done
        if not stopping():
            _finish(segment, refused)
    finally:
        segment.close()
    return delivered


def _finish(segment: Segment, refused: RefusedFile) -> None:
    """No whole frame is left. What follows was never acknowledged, or is damaged: that is kept."""
    if segment.is_damaged():
        refused.add_damaged(segment.path, segment.delivered, segment.remainder())
    segment.path.unlink(missing_ok=True)
