"""Delivers what was refused once more, after its cause was fixed: a kind that is registered now, a clock that is set.

What is taken is marked so after the repository has answered: a kill in between sends it again, and the repository says `same`.
"""

import json
from pathlib import Path
from typing import Any

from tracelake_sdk.records.emitter.delivery import Delivered, Delivery, Waits
from tracelake_sdk.records.emitter.draining import FlushReport
from tracelake_sdk.records.emitter.owners import claim
from tracelake_sdk.records.emitter.refusals import RefusedFile, SetAside, refused_owners
from tracelake_sdk.records.emitter.segments import MOST_READ, Frame
from tracelake_sdk.records.repository.contract import MetadataRepository


class _Again:
    """What one owner had refused, as entries to deliver; what is refused again stays where it is."""

    def __init__(self, file: RefusedFile) -> None:
        self._file: RefusedFile = file
        self._lines: list[SetAside] = file.lines()
        self._done: int = 0
        self._refused: set[str] = set()

    def read(self, most: int) -> list[Frame]:
        frames: list[Frame] = []
        size = 0
        for place in range(self._done, min(self._done + most, len(self._lines))):
            line = self._lines[place]
            frame = Frame(place, place + 1, _bytes(line.context), _bytes(line.record))
            size += len(frame.record)
            if frames and size > MOST_READ:
                break
            frames.append(frame)
        return frames

    def entry(self, frame: Frame) -> str:
        return self._lines[frame.offset].entry

    def add(self, entry: str, frame: Frame, problem: dict[str, Any]) -> bool:
        self._file.add(entry, frame, problem)
        self._refused.add(entry)
        return True

    def advance(self, to: int) -> None:
        self._file.settle([line.entry for line in self._lines[self._done : to] if line.entry not in self._refused])
        self._done = to


def resend(folder: Path, repository: MetadataRepository) -> FlushReport:
    """Everything that was set aside, oldest first, also of processes that run; stops when the repository does not take anything now."""
    delivered = Delivered()
    for name in refused_owners(folder):
        file = RefusedFile(folder, name)
        again = _Again(file)
        delivery = Delivery(repository, again, patience=0)  # what fails without a reason is set aside already
        try:
            while (done := delivery.run_once(again)).entries:
                delivered += done
        except Waits as waits:
            return FlushReport(delivered, problem=waits.problem)
        finally:
            _tidy(folder, name, file)
    return FlushReport(delivered)


def _tidy(folder: Path, name: str, file: RefusedFile) -> None:
    owner = claim(folder, name)
    if owner is None:
        return  # it runs and may set aside this moment: its file is made smaller when it has ended
    try:
        file.tidy()
    finally:
        owner.release()


def _bytes(value: Any) -> bytes:
    """The bytes as they were emitted, also if they are not valid JSON."""
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
