"""Delivers what dead processes left in a spool folder."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelake_sdk.records.emitter.delivery import Delivered, Delivery, NotAccepting
from tracelake_sdk.records.emitter.owners import claim, owner_names
from tracelake_sdk.records.emitter.refusals import RefusedFile
from tracelake_sdk.records.emitter.segments import Segment
from tracelake_sdk.records.repository.contract import MetadataRepository


@dataclass(frozen=True)
class FlushReport:
    """The result of a flush; `problem` is the reason why entries are left."""

    delivered: Delivered = field(default_factory=Delivered)
    living: int = 0  # running processes, which deliver their own entries
    problem: dict[str, Any] | None = None


def _never() -> bool:
    return False


def flush_folder(
    folder: Path, repository: MetadataRepository, *, stopping: Callable[[], bool] = _never, tried: dict[str, Delivery] | None = None,
) -> FlushReport:
    """Delivers the entries of all dead processes, oldest first; stops as soon as the repository does not accept anything.

    A caller that flushes repeatedly passes the same `tried`, which counts how often the repository failed on a record without a reason.
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
        except NotAccepting as waits:
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
    """No complete frame is left. The rest was never acknowledged, or is damaged; damaged bytes are kept."""
    if segment.is_damaged():
        refused.add_damaged(segment.path, segment.delivered, segment.remainder())
    segment.path.unlink(missing_ok=True)
